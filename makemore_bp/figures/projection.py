"""Figures of notebook 09: what BatchNorm's backward pass takes away, in space, as eigenvalues, and counted."""

from math import cos, hypot, log10, pi

from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from .batchnorm import MEAN, VARIANCE
from .style import (
    BATCH_SUM_INK,
    FLOAT32,
    FLOAT64,
    FORWARD,
    GRADIENT,
    GRADIENT_INK,
    HIGHLIGHT,
    MUTED,
    MUTED_INK,
    figure,
    moving,
    picture,
)

HALO = {"path_effects": [withStroke(linewidth=3, foreground="white")], "zorder": 5}  # for words among dots
EPS_LOOKS = {0.0: (FORWARD, "o"), 1e-5: (HIGHLIGHT, "s"), 1e-3: (GRADIENT, "^"), 1e-1: (VARIANCE, "d")}
# where the camera of the drawings in space stands, seen from the origin; row 2 is upright
CAMERA = (-0.23, 0.30, -1.0)


def _epsilon(eps):
    return f"$\\varepsilon = 10^{{{round(log10(eps))}}}$" if eps else "$\\varepsilon = 0$"


def _seen(point, camera=CAMERA):
    """A place (row 1, row 2, row 3) as it is seen from the camera, far away: its place on the paper."""
    cx, cy, cz = (c / hypot(*camera) for c in camera)
    side = hypot(cx, cz)
    x, y, z = point
    return (cz * x - cx * z) / side, side * y - cy * (cx * x + cz * z) / side


def _plus(*terms):
    """The sum of (factor, vector) pairs."""
    return [sum(f * v[k] for f, v in terms) for k in range(3)]


def _line(ax, points, camera=CAMERA, **look):
    ax.plot(*zip(*(_seen(point, camera) for point in points)), **look)


def _arrow(ax, vector, colour, width=2.4, camera=CAMERA):
    look = {"arrowstyle": "-|>", "mutation_scale": 16, "color": colour, "linewidth": width}
    ax.annotate("", _seen(vector, camera), (0, 0), arrowprops={**look, "shrinkA": 0, "shrinkB": 0})


def _corner(ax, at, p, q):
    """The mark of a right angle between the directions p and q."""
    p, q = ([0.35 * x / hypot(*v) for x in v] for v in (p, q))
    _line(ax, (_plus((1, at), (1, p)), _plus((1, at), (1, p), (1, q)), _plus((1, at), (1, q))), color="black",
          linewidth=1)  # fmt: skip


def _space(ax, title, one, a_hat):
    """Three axes through the origin, row 2 upright, and the plane of 1 and a-hat with a grid of their multiples."""
    ax.set(title=title, aspect="equal", xlim=(-6.4, 3.6), ylim=(-2.3, 4.9))
    ax.axis("off")
    (low, high), (left, right) = (-1, 3), (-3, 2)
    corners = [
        _plus((s, one), (t, a_hat)) for s, t in ((low, left), (high, left), (high, right), (low, right))
    ]
    ax.fill(*zip(*map(_seen, corners)), color="#EDEDED", zorder=0)
    white = {"color": "white", "linewidth": 1, "zorder": 0.5}
    for s in range(low, high + 1):
        _line(ax, (_plus((s, one), (left, a_hat)), _plus((s, one), (right, a_hat))), **white)
    for t in range(left, right + 1):
        _line(ax, (_plus((low, one), (t, a_hat)), _plus((high, one), (t, a_hat))), **white)
    for k, reach in enumerate((6, 3.6, 3.6)):
        start, end = ([r if k == j else 0 for j in range(3)] for r in (-1, reach))
        _line(ax, (start, end), color="#A8A8A8", linewidth=0.8, zorder=1)
        offset = (20, -3) if k == 2 else (-4, 4)
        ax.annotate(f"row {k + 1}", _seen(end), offset, textcoords="offset points", color="#6B6B6B", fontsize=8.5,
                    ha="center", **HALO)  # fmt: skip
    _arrow(ax, one, MEAN)
    _arrow(ax, a_hat, VARIANCE)
    _corner(ax, (0, 0, 0), one, a_hat)


def three_rows(one, a_hat, u, left, others, others_left):
    """A batch of three in space: u taken apart (left panel), and what is left of many others (right panel)."""
    one, a_hat, u, left = (t.tolist() for t in (one, a_hat, u, left))
    shadow = _plus((1, u), (-1, left))
    fig = figure(5.8, 7.8)
    fig.get_layout_engine().set(h_pad=0.08)
    first, second = fig.subplots(2, 1)
    _space(first, "One upstream gradient", one, a_hat)
    _space(second, f"{others.shape[1]} of them", one, a_hat)
    _arrow(first, u, GRADIENT)
    _arrow(first, shadow, "#6B6B6B", 1.8)
    _arrow(first, left, "black")
    _line(first, (u, shadow), color="black", linestyle=":", linewidth=1.5)
    _corner(first, shadow, _plus((-1, shadow)), left)
    for at, text, colour, offset in (
        (one, r"$\mathbf{1}$", BATCH_SUM_INK, (-10, 4)),
        (a_hat, r"$\hat a$", VARIANCE, (12, 0)),
        (u, "$u$", GRADIENT_INK, (30, 4)),
        (left, "what is left of $u$", "black", (6, -14)),
        (shadow, "shadow of $u$", MUTED_INK, (0, 8)),
    ):
        first.annotate(
            text, _seen(at), offset, textcoords="offset points", color=colour, fontsize=11, ha="center"
        )
    for points, colour, label in (
        (others, GRADIENT, "upstream gradients"),
        (others_left, "black", "what is left of them"),
    ):
        second.plot(*zip(*map(_seen, points.T.tolist())), "o", color=colour, markersize=3.5, label=label)
    second.legend(loc="lower left", fontsize=9)
    alt = (
        "Two drawings of the same space with the axes row 1, row 2 and row 3, and in it a grey plane that holds the "
        "arrows 1 and a-hat, at a right angle. Above: the arrow u, its shadow in the plane, and what is left of u, an "
        f"arrow at a right angle to the plane. Below: {others.shape[1]} dots scattered in space, and as many dots on "
        "one straight line through the origin, at a right angle to the plane."
    )
    return picture(fig, alt)


def taken_away(one, a_hat, points, without_one, left, stops=7):
    """The many gradients of `three_rows`: they lose one shadow, then the other, then the camera moves; an animation.

    It goes from the usual place to where what is left is seen end on, to where the plane is seen edge on,
    and back, with `stops` figures on each way.
    """
    one, a_hat = one.tolist(), a_hat.tolist()
    points, without_one, left = (t.T.tolist() for t in (points, without_one, left))
    end_on = max(left, key=lambda v: hypot(*v))
    end_on = [-x for x in end_on] if end_on[2] > 0 else end_on  # the side on which the camera stands
    views = [CAMERA, end_on, [-1.8 * x for x in _plus((1, one), (-0.5, a_hat))], CAMERA]
    views = [[x / hypot(*view) for x in view] for view in views]
    shares = [(1 - cos(pi * k / stops)) / 2 for k in range(stops)]  # slow at both ends
    both = [points, without_one]
    figures = [_from_one_side(one, a_hat, points, both, left, CAMERA, "Two shadows taken away")]
    for past, there, title in (
        (both[:1], without_one, r"First the shadow on $\mathbf{1}$ …"),
        (both, left, r"… then the shadow on $\hat a$"),
    ):
        for share in shares:
            now = [_plus((1 - share, p), (share, q)) for p, q in zip(past[-1], there)]
            figures.append(_from_one_side(one, a_hat, points, past, now, CAMERA, title))
    for here, there in zip(views, views[1:]):
        for share in shares:
            camera = _plus((1 - share, here), (share, there))
            figures.append(
                _from_one_side(one, a_hat, points, [], left, camera, "What is left, from all sides")
            )
    alt = (
        f"The space of the last picture. {len(points)} black dots start on the dots of the upstream gradients. They "
        "move along 1 and come to rest on a plane at a right angle to it, then along a-hat and come to rest on a "
        "line. Then the camera moves. Seen end on, all black dots fall on one point. Seen along the plane of 1 and "
        "a-hat, this plane is a line, and the black dots stand on another at a right angle to it."
    )
    return moving(figures, alt, [2000] + 5 * ([1000] + [120] * (stops - 1)))


def _from_one_side(one, a_hat, points, past, now, camera, title):
    """One figure of it: black dots, where they are now, with lines from where they were in the past."""
    fig = figure(5.6, 4.6)
    fig.set_layout_engine("none")  # all figures are to have their things in the same places
    fig.text(0.5, 0.96, title, fontsize=11, ha="center", va="center")
    ax = fig.add_axes((0, 0.07, 1, 0.85))
    ax.set(aspect="equal", xlim=(-5.6, 5.6), ylim=(-4, 4))
    ax.axis("off")
    ends = ((-1.6, -2), (1.6, -2), (1.6, 2), (-1.6, 2))
    corners = [_seen(_plus((s, one), (t, a_hat)), camera) for s, t in ends]
    ax.fill(*zip(*corners), facecolor="#EDEDED", edgecolor="#B0B0B0", zorder=0)
    for colour, start, end in zip((MEAN, VARIANCE), past, [*past[1:], now]):
        for p, q in zip(start, end):
            _line(ax, (p, q), camera, color=colour, linewidth=0.9, zorder=1)
    for these, colour, what in (
        (points, GRADIENT, "upstream gradients"),
        (now, "black", "what is left of them"),
    ):
        seen = zip(*(_seen(point, camera) for point in these))
        ax.plot(*seen, "o", color=colour, markersize=3.5, label=what)
    for vector, colour, ink, name in (
        (one, MEAN, BATCH_SUM_INK, r"$\mathbf{1}$"),
        (a_hat, VARIANCE, VARIANCE, r"$\hat a$"),
    ):
        _arrow(ax, vector, colour, camera=camera)
        ax.text(*_seen(_plus((1.3, vector)), camera), name, color=ink, ha="center", va="center", **HALO)
    fig.legend(loc="lower center", ncols=2, fontsize=9)
    return fig


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
    left.annotate("along $\\mathbf{1}$, along $\\hat a$: gone", (2, 0), (5, 0.3), fontsize=9.5,
                  bbox={"facecolor": "white", "edgecolor": MUTED}, arrowprops={"arrowstyle": "-", "shrinkB": 5})  # fmt: skip
    left.set(xlabel="eigenvalue, in order of size", ylabel="factor", ylim=(-0.08, 1.15))
    left.set_title(f"{name}: two gone, {sum(v > 0.5 for v in values)} passed")
    for eps, (predicted, found) in second.items():
        colour, marker = EPS_LOOKS[eps]
        right.loglog(predicted, found, marker, color=colour, markersize=4, label=_epsilon(eps), alpha=0.8)
    ends = [min(p.min().item() for p, _ in second.values()), max(p.max().item() for p, _ in second.values())]
    right.loglog(ends, ends, color=MUTED, linewidth=1, zorder=0)
    right.set(
        xlabel="ε / s²", ylabel="second smallest eigenvalue", title="With ε, the second is not quite gone"
    )
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
    for (name, values), (colour, mark) in zip(found.items(), ((FLOAT32, "s"), (FLOAT64, "o"))):
        ax.loglog(sizes, values, mark, color=colour, markersize=4.5, label=f"measured in {name}",
                  markerfacecolor="none")  # fmt: skip
    ax.axvline(1e-5, color=MUTED, linewidth=1, linestyle=":")
    ax.text(1.2e-5, min(formula), "our ε", fontsize=9, color=MUTED_INK, va="bottom")
    ax.set(
        xlabel="ε",
        ylabel=r"largest entry of $\hat a^\top da$",
        title="ε's line, and where rounding takes over",
    )
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
        ax.semilogy(range(1, len(s) + 1), s.clamp(min=1e-18), mark, color=colour, markersize=5 if eps else 2, label=_epsilon(eps),
                    markerfacecolor="none" if eps else colour, zorder=2 if eps else 3)  # fmt: skip
    total = len(s)
    ax.axvline(total - predicted + 0.5, color="black", linewidth=1, linestyle=":")
    ax.text(
        total - predicted - 6,
        1e-10,
        f"{total - predicted} directions\nthe loss notices",
        ha="right",
        fontsize=9.5,
    )
    ax.text(total - predicted + 7, 1e-11, f"{predicted} that\nit ignores", fontsize=9.5)
    ax.text(
        total - predicted + 14, 1e-7, "with ε: the scales of\nthe columns of W1", fontsize=9.5, va="center"
    )
    ax.set(xlabel="direction in parameter space, in order of size", ylabel="singular value")
    ax.set(xlim=(-15, total + 45))
    ax.set_title("Gradients of 900 minibatches: how much of them points in which direction?")
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
