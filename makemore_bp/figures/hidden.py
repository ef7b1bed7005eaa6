"""The output layer, tanh and BatchNorm: shapes of a matrix product, the factor of tanh, one column, coupled rows."""

import torch
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle

from .style import (
    BATCH_SUM,
    DIVERGING,
    FORWARD,
    GRADIENT,
    HIGHLIGHT,
    MUTED,
    PARAMETER,
    SEQUENTIAL,
    figure,
    picture,
)

SCALE = 0.03  # width of one entry in the drawing of shapes


def _plain(*axes):
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)


def _matrix(ax, x, y, name, rows, columns, colour, summed=None):
    """A box to scale, its middle left at (x, y); its right edge. summed: the side to draw thick, and its colour."""
    width, height = columns * SCALE, rows * SCALE
    left, right, bottom, top = x, x + width, y - height / 2, y + height / 2
    ax.add_patch(Rectangle((x, bottom), width, height, facecolor=colour, alpha=0.25, edgecolor="none"))
    ax.add_patch(Rectangle((x, bottom), width, height, facecolor="none", edgecolor=colour, linewidth=1.3))
    if summed:
        side, shade = summed
        ends = ([left, left], [bottom, top]) if side == "rows" else ([left, right], [top, top])
        ax.plot(*ends, color=shade, linewidth=5, solid_capstyle="butt")
    shape, shape_y = (f"{rows} × {columns}", y) if rows > 1 else (f"{columns}", top + 0.16)
    ax.text(x + width / 2, shape_y, shape, ha="center", va="center", size=9)
    ax.text(x + width / 2, bottom - 0.08, name, ha="center", va="top", family="DejaVu Sans Mono", size=9)
    return right


def _equation(ax, x, y, *parts):
    for part in parts:
        if isinstance(part, str):
            ax.text(x + 0.22, y, part, ha="center", va="center", size=13)
            x += 0.44
        else:
            x = _matrix(ax, x, y, *part)


def product(n, H, V):
    """The output layer's forward line and its three gradients, every matrix to scale."""
    fig = figure(7.5, 5.8)
    ax = fig.subplots()
    ax.set(xlim=(-0.05, 7.2), ylim=(-0.4, 5.95), aspect="equal")
    ax.axis("off")
    rows, columns = ("rows", "#404040"), ("columns", "#404040")
    batch_rows, batch_columns = ("rows", BATCH_SUM), ("columns", BATCH_SUM)
    b2, logits = ("b2", 1, V, PARAMETER), ("logits", n, V, FORWARD)
    ax.text(0, 5.75, "forward", color="#404040")
    _equation(
        ax, 0, 4.75, ("h", n, H, FORWARD, columns), "@", ("W2", H, V, PARAMETER, rows), "+", b2, "=", logits
    )
    ax.text(0, 3.4, "backward", color="#404040")
    dlogits, dh, dW2 = ("dlogits", n, V, GRADIENT), ("dh", n, H, GRADIENT), ("dW2", H, V, GRADIENT)
    _equation(ax, 0, 2.75, (*dlogits, columns), "@", ("W2.T", V, H, PARAMETER, rows), "=", dh)
    _equation(ax, 0, 0.9, ("h.T", H, n, FORWARD, batch_columns), "@", (*dlogits, batch_rows), "=", dW2)
    _equation(ax, 4.4, 0.9, (*dlogits, batch_rows), "→", ("db2", 1, V, GRADIENT))
    ax.text(5.45, 1.57, "sum over the rows", size=9, color="#404040", ha="center")
    alt = (
        f"Matrices drawn to scale, the side that a product sums over thick. Forward: h, {n} × {H}, times W2, {H} × {V}, "
        f"plus b2, {V}, gives logits, {n} × {V}; summed over {H}. Backward: dlogits times W2 transposed gives dh, "
        f"{n} × {H}, summed over {V}. h transposed times dlogits gives dW2, {H} × {V}, summed over the {n} rows of the "
        f"batch. dlogits summed over its {n} rows gives db2, {V}."
    )
    return picture(fig, alt)


def outer(h_row, dlogits_row, total, letters):
    """One row's share of dW2, an outer product, and the sum of all rows' shares."""
    fig = figure(7.5, 4.6)
    one = torch.outer(h_row, dlogits_row)
    grid = fig.add_gridspec(2, 3, width_ratios=[1, 11, 11], height_ratios=[1, 20])
    left, top = fig.add_subplot(grid[1, 0]), fig.add_subplot(grid[0, 1])
    share, whole = fig.add_subplot(grid[1, 1]), fig.add_subplot(grid[1, 2])
    for ax, values in (left, h_row[:, None]), (top, dlogits_row[None]), (share, one), (whole, total):
        limit = values.abs().max() * (1 if ax is left else 0.45 if ax is whole else 0.2)
        ax.imshow(values, cmap=DIVERGING, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    for ax in share, whole:
        ax.set_xticks(range(len(letters)), letters, family="DejaVu Sans Mono", size=8)
        ax.tick_params(length=0)
    left.set(ylabel=f"h[0], {len(h_row)} hidden units")
    top.set_title(f"dlogits[0], {len(dlogits_row)} letters", size=10)
    share.set(xlabel="row 0's share")
    whole.set(xlabel="dW2: 32 shares added")
    target = letters[dlogits_row.argmin()]
    alt = (
        "Left: the column h[0], and above it the row dlogits[0]; between them the table of all their products. The column "
        f"of row 0's target letter, '{target}', is strong, the others are paler copies of it with the sign turned. "
        "Right: dW2, the sum of 32 such tables, in which several columns are strong."
    )
    return picture(fig, alt)


def tanh_factor(h, limit):
    """What tanh lets through, 1 - h², over the histogram of h; beyond the limit a unit counts as saturated."""
    fig = figure(7.5, 4.2)
    top, below = fig.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    x = torch.linspace(-1, 1, 401)
    top.plot(x, 1 - x**2, color=GRADIENT)
    top.set(ylabel="let through: 1 − h²", ylim=(0, 1.08), xlim=(-1.02, 1.02))
    below.hist(h.flatten(), bins=torch.linspace(-1, 1, 41), color=FORWARD)
    below.set(xlabel="h", ylabel="entries of h")
    _plain(top, below)
    for ax in top, below:
        for side in (-1, 1):
            ax.axvspan(side * limit, side * 1.02, color=HIGHLIGHT, alpha=0.35, linewidth=0)
    factor = 1 - limit**2
    note = f"|h| > {limit}: less than {factor:.0%} gets through"
    arrow = {"arrowstyle": "->", "color": "#404040"}
    top.annotate(note, (limit + 0.01, factor), (0.1, 0.3), arrowprops=arrow, ha="center", va="center")
    alt = (
        "Above: the parabola 1 − h², which is 1 at h = 0 and falls to 0 at h = −1 and h = 1. Below: the histogram of h, "
        f"spread over the whole range from −1 to 1. Narrow shaded bands mark |h| > {limit} at both ends."
    )
    return picture(fig, alt)


def roundings(h, once, twice, theirs):
    """How far the factor rounded twice, and PyTorch's factor, lie from the one rounded once, in last places."""
    fig = figure(7.5, 3.4)
    ax = fig.subplots()
    place = torch.nextafter(once, torch.full_like(once, 2)) - once
    ax.plot(
        h.flatten(), ((twice - once) / place).flatten(), ".", color=MUTED, markersize=5, label="rounded twice"
    )
    ax.plot(
        h.flatten(),
        ((theirs - once) / place).flatten(),
        "+",
        color=GRADIENT,
        markersize=4,
        label="this PyTorch's own",
    )
    ax.axhline(0, color=FORWARD, linewidth=1, zorder=0, label="rounded once")
    ax.set(
        xlabel="h", ylabel="difference, in last places", xlim=(-1.02, 1.02), yscale="symlog", ylim=(-150, 150)
    )
    ax.set(yticks=[-100, -10, -1, 0, 1, 10, 100], yticklabels=["−100", "−10", "−1", "0", "1", "10", "100"])
    ax.legend(loc="upper center", ncols=3, bbox_to_anchor=(0.5, 1.2), frameon=False)
    _plain(ax)
    alt = (
        "Against h from −1 to 1, the difference between the factor 1 − h² rounded twice and rounded once, in units in the "
        "last place: zero or one step in the middle, growing to tens of units as |h| comes close to 1. A second kind of "
        "mark shows the factor that PyTorch computed on the machine that drew this."
    )
    return picture(fig, alt)


PLACES = {  # node: (x, y), for the drawing of BatchNorm's steps
    "hprebn": (0, 0), "bnmeani": (1.15, 1.2), "bndiff": (2.3, 0), "bndiff2": (2.9, 1.2), "bnvar": (4.1, 2.0),
    "bnvar_inv": (5.3, 1.2), "bnraw": (5.3, 0), "bngain": (6.6, 1.2), "bnbias": (7.9, 1.2), "hpreact": (7.3, 0),
}  # fmt: skip


def steps(uses, shapes):
    """BatchNorm's forward steps, with their shapes; a variable that is used twice is marked.

    uses: for each node the nodes that read it; shapes: for each node its shape, as a tuple.
    """
    fig = figure(7.5, 3.3)
    ax = fig.subplots()
    ax.set(xlim=(-0.7, 8.6), ylim=(-0.45, 2.4))
    ax.axis("off")
    boxes = {}
    for name, (x, y) in PLACES.items():
        twice, one_row = len(uses[name]) > 1, shapes[name][0] == 1
        edge = PARAMETER if name in ("bngain", "bnbias") else FORWARD
        look = {"facecolor": "#FBE3B5" if twice else "white", "edgecolor": edge, "linewidth": 1.4}
        look["boxstyle"] = "round,pad=0.45,rounding_size=1.2" if one_row else "square,pad=0.35"
        text = f"{name}\n{shapes[name][0]} × {shapes[name][1]}"
        boxes[name] = ax.text(x, y, text, size=8.5, ha="center", va="center", bbox=look, zorder=3)
    for name, readers in uses.items():
        for reader in readers:
            colour = HIGHLIGHT if len(readers) > 1 else "#606060"
            width = 2 if len(readers) > 1 else 1
            arrow = {"arrowstyle": "-|>", "mutation_scale": 11, "color": colour, "linewidth": width}
            ends = {"patchA": boxes[name].get_bbox_patch(), "patchB": boxes[reader].get_bbox_patch()}
            ax.annotate(
                "", PLACES[reader], PLACES[name], arrowprops={**arrow, **ends, "shrinkA": 0, "shrinkB": 1}
            )
    alt = "Graph of BatchNorm's forward steps. "
    alt += " ".join(
        f"{name} is read by {' and '.join(readers)}." for name, readers in uses.items() if readers
    )
    return picture(fig, alt)


def column(values, gradients=None, digits=3):
    """One column over the batch: a panel for each named value, and below it, if given, its gradient, with the means."""
    lines = [(FORWARD, values)] + ([(GRADIENT, gradients)] if gradients else [])
    fig = figure(7.5, 0.7 + 1.9 * len(lines))
    panels = fig.subplots(len(lines), len(values), sharey="row", sharex=True, squeeze=False)
    for row, (colour, named) in zip(panels, lines, strict=True):
        for ax, (name, numbers) in zip(row, named.items(), strict=True):
            ax.vlines(range(len(numbers)), 0, numbers, color=colour, linewidth=1.5)
            ax.plot(numbers, "o", color=colour, markersize=3)
            ax.axhline(0, color="black", linewidth=0.8)
            look = {"color": BATCH_SUM, "linewidth": 1.8, "linestyle": "--"}
            ax.axhline(numbers.mean(), **look, label="mean of the column")
            ax.set_title(name, size=10)
            _plain(ax)
    for ax in panels[-1]:
        ax.set(xlabel="row of the batch")
    for row, what in zip(panels, ("value", "gradient")):
        row[0].set(ylabel=what)
    fig.align_ylabels()
    panels[0, -1].legend(loc="upper right", fontsize=9)
    alt = f"Stem plots over {len(numbers)} rows, the mean dashed. "
    for _, named in lines:
        for name, numbers in named.items():
            mean = round(numbers.mean().item(), digits) + 0.0
            low, high = numbers.min(), numbers.max()
            alt += f"{name}: from {low:.{digits}f} to {high:.{digits}f}, mean {mean:.{digits}f}. "
    return picture(fig, alt.strip())


def coupled(panels):
    """Which rows change: a panel for each name, each with a matrix of changes; what does not change is white."""
    fig = figure(7.5, 3.6)
    axes = fig.subplots(1, len(panels), sharey=True)
    scale = LogNorm(1e-3, 1, clip=True)
    for ax, (name, values) in zip(axes, panels.items(), strict=True):
        shown = values.abs().double()
        shown[shown == 0] = float("nan")
        image = ax.imshow(shown, cmap=SEQUENTIAL + "_r", norm=scale, aspect="auto", interpolation="nearest")
        ax.set_title(name, size=10)
        ax.spines[:].set_visible(True)
        ax.set(xlabel="hidden unit")
    axes[0].set(ylabel="row of the batch")
    fig.colorbar(image, ax=axes, label="size of the change (white: none)")
    counts = [
        f"{name}: {(values != 0).any(1).sum()} of {len(values)} rows" for name, values in panels.items()
    ]
    return picture(
        fig, "Heat maps, row by hidden unit; unchanged entries are white. " + "; ".join(counts) + " change."
    )


def activations(curves):
    """Value and slope of activations, {name: (x, value, slope)}; the last is the one the text is about."""
    fig = figure(7.5, 3.0)
    left, right = fig.subplots(1, 2)
    for (name, (x, value, slope)), line in zip(curves.items(), ("--", "-")):
        left.plot(x, value, line, color=FORWARD, label=name)
        right.plot(x, slope, line, color=GRADIENT, label=name)
    for y in 0, 1:
        right.axhline(y, color=MUTED, linewidth=0.8, zorder=0)
    beyond = (slope < 0) | (slope > 1)
    right.fill_between(x, 0, 1, where=beyond, color=HIGHLIGHT, alpha=0.25, linewidth=0, zorder=0)
    left.set(title="value", xlabel="hpreact", ylabel="h")
    right.set(title="slope", xlabel="hpreact", ylabel="factor between dh and dhpreact")
    left.legend()
    right.legend(loc="center left")
    lowest, highest = slope.min(), slope.max()
    alt = (
        f"Left: the values of {' and '.join(curves)}. Right: their slopes. That of {name} goes down to "
        f"{lowest:.2f} and up to {highest:.2f}; shaded is where it is below 0 or above 1."
    )
    return picture(fig, alt)
