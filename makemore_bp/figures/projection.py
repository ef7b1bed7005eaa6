"""Figures of notebook 09: what BatchNorm's backward pass takes away, in space, as eigenvalues, and counted."""

from matplotlib.patches import Rectangle
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from .batchnorm import MEAN, VARIANCE
from .style import FORWARD, GRADIENT, HIGHLIGHT, MUTED, figure, picture

DARK_MEAN = "#A34E80"  # MEAN, dark enough for text
DARK_GRADIENT = "#B34E00"
EPS_LOOKS = {0.0: (FORWARD, "o"), 1e-5: (HIGHLIGHT, "s"), 1e-3: (GRADIENT, "^"), 1e-1: (VARIANCE, "d")}


def _space(ax, title, reach, plane):
    """Three axes through the origin, row 2 upright, and the plane of 1 and a-hat (four corners)."""
    ax.set_axis_off()
    ax.set_title(title, y=0.97)
    ax.view_init(elev=12, azim=-64, vertical_axis="y")
    for k, at in enumerate(((5.6, 0, 0), (0, 4.3, 0), (0, 0, 3.7))):
        end = [reach if k == j else 0 for j in range(3)]
        ax.plot(*zip([-0.4 * x for x in end], end), color="#B5B5B5", linewidth=0.8)
        ax.text(*at, f"row {k + 1}", color="#6B6B6B", fontsize=8.5, ha="center", va="center")
    ax.add_collection3d(Poly3DCollection([plane], facecolor="#DDDDDD", alpha=0.45, edgecolor="none"))
    ax.set(xlim=(-1.6, 4.6), ylim=(-2.2, 4), zlim=(-2.6, 3.6))
    ax.set_box_aspect((1, 1, 1), zoom=1.5)


def _arrow(ax, start, vector, colour, width=2.4, **more):
    length = sum(x * x for x in vector) ** 0.5
    ax.quiver(*start, *vector, color=colour, linewidth=width, arrow_length_ratio=0.28 / length, **more)


def three_rows(one, a_hat, u, left, others, others_left):
    """A batch of three in space: u taken apart (left panel), and what is left of many others (right panel)."""
    one, a_hat, u, left = (t.tolist() for t in (one, a_hat, u, left))
    plane = [[s * p + t * q for p, q in zip(one, a_hat)] for s, t in ((-1, -2.6), (2.7, -2.6), (2.7, 1.6), (-1, 1.6))]
    shadow = [a - b for a, b in zip(u, left)]
    fig = figure(9.6, 4.6)
    axes = [fig.add_subplot(1, 2, k, projection="3d", computed_zorder=False) for k in (1, 2)]
    for ax, title in zip(axes, ("One upstream gradient", "Sixty of them")):
        _space(ax, title, 5, plane)
        _arrow(ax, (0, 0, 0), one, MEAN)
        _arrow(ax, (0, 0, 0), a_hat, VARIANCE)
    ax = axes[0]
    _arrow(ax, (0, 0, 0), u, GRADIENT)
    _arrow(ax, (0, 0, 0), shadow, MUTED, 1.6)
    _arrow(ax, (0, 0, 0), left, "black")
    ax.plot(*zip(shadow, u), ":", color="black", linewidth=1.5)
    for at, text, colour in (
        ([1.0, 1.45, 1.0], r"$\mathbf{1}$", DARK_MEAN),
        ([-1.5, 0.1, 1.3], r"$\hat a$", VARIANCE),
        ([u[0] + 0.2, u[1] - 0.65, u[2]], "$u$", DARK_GRADIENT),
        ([left[0], left[1] - 0.45, left[2]], "left of $u$", "black"),
        ([shadow[0] + 0.1, shadow[1] + 0.45, shadow[2]], "shadow of $u$", "#595959"),
    ):
        ax.text(*at, text, color=colour, fontsize=11 if len(text) < 16 else 9.5, ha="center", va="center")
    ax = axes[1]
    for points, colour, label in ((others, GRADIENT, "upstream gradients"), (others_left, "black", "what is left")):
        ax.plot(*points.tolist(), ".", color=colour, markersize=5, alpha=0.8, label=label)
    ax.legend(loc="lower left", fontsize=9, bbox_to_anchor=(0.02, 0.03))
    alt = (
        "Two drawings of the same space with the axes row 1, row 2 and row 3, and in it a grey plane that holds the "
        "arrows 1 and a-hat, at a right angle. Left: the arrow u, its shadow in the plane, and what is left of u, an "
        "arrow at a right angle to the plane. Right: sixty dots scattered in space, and sixty dots that lie on one "
        "straight line through the origin, at a right angle to the plane."
    )
    return picture(fig, alt)


def eigenvalues(one_column, name, second):
    """Left: a column's eigenvalues. Right: the second smallest of every column against eps over s squared.

    second: eps -> (predicted, found), one value a column.
    """
    fig = figure(9, 3.4)
    left, right = fig.subplots(1, 2)
    values = one_column.tolist()
    for k, value in enumerate(values, 1):
        left.plot([k, k], [0, value], color=FORWARD, linewidth=1)
        left.plot(k, value, "o", color=HIGHLIGHT if value < 0.5 else FORWARD, markersize=5)
    left.annotate("along $\\mathbf{1}$, along $\\hat a$: gone", (2, 0), (5, 0.25), fontsize=9.5,
                  arrowprops={"arrowstyle": "-", "color": MUTED, "shrinkB": 5})  # fmt: skip
    left.set(xlabel="eigenvalue, in order of size", ylabel="factor", ylim=(-0.08, 1.15), title=name)
    left.set_title(f"{name}: two gone, {sum(v > 0.5 for v in values)} passed")
    for eps, (predicted, found) in second.items():
        colour, marker = EPS_LOOKS[eps]
        right.loglog(predicted, found, marker, color=colour, markersize=4, label=f"ε = {eps:g}", alpha=0.8)
    ends = [min(p.min().item() for p, _ in second.values()), max(p.max().item() for p, _ in second.values())]
    right.loglog(ends, ends, color=MUTED, linewidth=1, zorder=0)
    right.set(xlabel="ε / s²", ylabel="second smallest eigenvalue", title="With ε, the second is not quite gone")
    right.legend(fontsize=9)
    alt = (
        f"Left: the {len(values)} eigenvalues of one column's matrix in order of size. Two lie at 0, the others at 1. "
        f"Right: the second smallest eigenvalue of each column over eps / s squared, on logarithmic axes, for "
        f"{len(second)} values of eps. All points lie on the diagonal."
    )
    return picture(fig, alt)


def over_eps(sizes, found, formula):
    """What is left along the scale direction, over eps; found: dtype -> largest entries."""
    fig = figure(7, 3.6)
    ax = fig.subplots()
    ax.loglog(sizes, formula, color=HIGHLIGHT, linewidth=4, alpha=0.5, label="the formula")
    for (name, values), (colour, mark) in zip(found.items(), (("#595959", "s"), ("black", "o"))):
        ax.loglog(sizes, values, mark, color=colour, markersize=4.5, label=f"measured in {name}",
                  markerfacecolor="none")  # fmt: skip
    ax.axvline(1e-5, color=MUTED, linewidth=1, linestyle=":")
    ax.text(1.2e-5, min(formula), "our ε", fontsize=9, color="#595959", va="bottom")
    ax.set(xlabel="ε", ylabel=r"largest entry of $\hat a^\top dx$", title="ε's line, and where rounding takes over")
    ax.legend(fontsize=9, loc="upper left")
    alt = (
        "What is left along the scale direction over eps, both axes logarithmic. The formula is a straight line rising "
        "to the right. The float64 points lie on it everywhere. The float32 points lie on it on the right, at eps = "
        "1e-5 too, and leave it for a level floor on the left."
    )
    return picture(fig, alt)


def singular(values, predicted):
    """Singular values of many gradients, in order; values: eps -> singular values."""
    fig = figure(8, 3.6)
    ax = fig.subplots()
    for eps, s in values.items():
        colour, mark = EPS_LOOKS[eps]
        ax.semilogy(range(1, len(s) + 1), s.clamp(min=1e-18), mark, color=colour, markersize=3, label=f"ε = {eps:g}",
                    markerfacecolor="none" if eps else colour)  # fmt: skip
    total = len(s)
    ax.axvline(total - predicted + 0.5, color="black", linewidth=1, linestyle=":")
    ax.text(total - predicted - 4, 1e-13, f"{total - predicted} directions\nthe loss notices", ha="right", fontsize=9.5)
    ax.text(total - predicted + 6, 1e-4, f"{predicted} it\nignores", fontsize=9.5)
    ax.set(xlabel="direction in parameter space, in order of size", ylabel="singular value")
    ax.set_title("Gradients of 900 minibatches: how much of them points where?")
    ax.legend(fontsize=9, loc="lower left", markerscale=1.6)
    alt = (
        f"{total} singular values in falling order, on a logarithmic axis. At the dotted line, {predicted} before the "
        "end, they fall from about a thousandth to rounding noise. With eps a few stand in between, next to the line."
    )
    return picture(fig, alt)


def two_axes(rows=8, columns=12):
    """Batch by features: BatchNorm takes a column at a time, LayerNorm a row."""
    fig = figure(8, 2.7)
    for ax, title, lit in zip(
        fig.subplots(1, 2), ("BatchNorm: down a column", "LayerNorm: along a row"), ("column", "row")
    ):
        for r in range(rows):
            for c in range(columns):
                mine = (c == 4) if lit == "column" else (r == 3)
                face = HIGHLIGHT if mine else "white"
                ax.add_patch(Rectangle((c, -r), 0.9, 0.9, facecolor=face, edgecolor=FORWARD, linewidth=0.7))
        ax.set(xlim=(-0.3, columns + 0.2), ylim=(-rows + 0.7, 1.2), aspect="equal", xticks=[], yticks=[])
        ax.set(title=title, xlabel="H features", ylabel="n rows")
        ax.spines[:].set_visible(False)
    alt = "Two grids of n rows and H features. On the left one column is filled, on the right one row."
    return picture(fig, alt)
