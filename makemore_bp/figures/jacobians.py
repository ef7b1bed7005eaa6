"""Notebook 02's drawings: slopes, the chain rule, Jacobians beside their transposes, rows that depend on each other."""

from .style import DIVERGING, FORWARD, GRADIENT, GRADIENT_INK, HIGHLIGHT, MUTED, figure, picture


def chord(xs, ys, ends, heights):
    """The curve ys over xs, with the chord through the two points (ends, heights)."""
    fig = figure(5.5, 3)
    ax = fig.subplots()
    ax.plot(xs, ys, color=FORWARD, label="L(x)")
    ax.plot(ends, heights, "o-", color=GRADIENT, label="chord: its slope is the estimate")
    middle = sum(ends) / 2
    ax.axvline(middle, color=MUTED, linestyle=":", linewidth=1)
    ax.set(xlabel="x", ylabel="L", title=f"The chord over x = {middle:g} leans almost as the curve does")
    ax.legend()
    where = f"x = {ends[0]:g} and x = {ends[1]:g}"
    return picture(
        fig, f"The curve L of x, and a chord through its points at {where}, either side of x = {middle:g}."
    )


def chain(names, values, steps, factors, gradients):
    """Boxes in a row: values and steps forward (above), local derivatives and gradients backward (below)."""
    fig = figure(7.5, 2.6)
    ax = fig.subplots()
    for i, (name, value, gradient) in enumerate(zip(names, values, gradients)):
        box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": FORWARD}
        ax.text(2 * i, 0, f"{name} = {value}", ha="center", va="center", bbox=box, color=FORWARD)
        label = f"d{name} = {gradient}"
        ax.text(2 * i, -1.15, label, ha="center", va="center", color=GRADIENT_INK, fontweight="bold")
    for i, (step, factor) in enumerate(zip(steps, factors)):
        _arrow(ax, (2 * i + 0.55, 0), (2 * i + 1.4, 0), FORWARD)
        ax.text(2 * i + 1, 0.45, step, ha="center", color=FORWARD)
        _arrow(ax, (2 * i + 1.35, -1.15), (2 * i + 0.65, -1.15), GRADIENT)
        ax.text(2 * i + 1, -0.85, f"× {factor}", ha="center", color=GRADIENT_INK)
    ax.text(-0.7, 0.95, "forward pass →", color=FORWARD, fontsize=9)
    ax.text(
        -0.7, -1.85, "← backward pass: upstream gradient × local derivative", color=GRADIENT_INK, fontsize=9
    )
    ax.set(xlim=(-0.8, 2 * len(names) - 1.2), ylim=(-2, 1.2))
    ax.axis("off")
    forward = ", ".join(f"{name} = {value}" for name, value in zip(names, values))
    backward = ", ".join(f"d{name} = {gradient}" for name, gradient in zip(names[::-1], gradients[::-1]))
    alt = f"Boxes joined by forward arrows ({', '.join(steps)}): {forward}. Below, from right to left: {backward}, "
    return picture(fig, alt + f"joined by the local derivatives {', '.join(factors[::-1])}.")


def _arrow(ax, start, end, color, bend=0.0):
    style = {"arrowstyle": "-|>", "color": color, "linewidth": 1.6, "connectionstyle": f"arc3,rad={bend}"}
    ax.annotate("", xy=end, xytext=start, arrowprops=style)


def beside_transpose(J, inputs, outputs, title):
    """The Jacobian J (outputs × inputs) as a table of its entries, and beside it its transpose."""
    rows, columns = len(outputs), len(inputs)
    cell, label = 0.4, 0.6  # inches
    top = 0.8  # room for the titles and labels above a matrix, inches
    width, height = cell * (rows + columns) + 2.6 * label, cell * max(rows, columns) + top + 0.15
    fig = figure(max(width, 5.8), height)
    fig.set_layout_engine("none")  # the cells of both matrices are to have one size
    fig.suptitle(title, fontsize=11)
    size = J.abs().max().item()
    for M, side, x in (J, "", label), (J.T, "d", columns * cell + 2.4 * label):
        tall, wide = M.shape
        box = x / fig.get_figwidth(), 1 - (top + tall * cell) / height
        ax = fig.add_axes((*box, wide * cell / fig.get_figwidth(), tall * cell / height))
        across, down = (outputs, inputs) if side else (inputs, outputs)
        color = GRADIENT_INK if side else FORWARD
        _matrix(ax, M, [_entry(a, side) for a in across], [_entry(d, side) for d in down], color, size)
        ax.set_title("backward: $J^T$" if side else "forward: $J$", color=color, fontsize=10)
    filled = "; ".join(
        f"{name}: " + ", ".join(f"{J[i, j]:.2g} at {outputs[i]}" for i in range(rows) if abs(J[i, j]) > 1e-6)
        for j, name in enumerate(inputs)
    )
    return picture(
        fig, f"A {rows} by {columns} matrix beside its transpose. Its columns hold, zeros left out, {filled}."
    )


def _entry(name, prefix=""):
    letters = name.rstrip("0123456789")
    return f"{prefix}{letters}$_{{{name[len(letters) :]}}}$"


def _short(value):
    return f"{value:.2g}".replace("-", "−")


def _matrix(ax, values, columns, rows, color, top):
    """A small matrix with its numbers in the cells; zeros are left empty but for a dot."""
    ax.imshow(values, cmap=DIVERGING, vmin=-2 * top, vmax=2 * top)
    for i, row in enumerate(values.tolist()):
        for j, value in enumerate(row):
            text, ink = (_short(value), "black") if abs(value) > 1e-6 else ("·", MUTED)
            ax.text(j, i, text, ha="center", va="center", color=ink, fontsize=9)
    ax.set_xticks(range(len(columns)), columns, color=color, fontsize=9)
    ax.set_yticks(range(len(rows)), rows, color=color, fontsize=9)
    ax.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    ax.set_xticks([j + 0.5 for j in range(len(columns) - 1)], minor=True)
    ax.set_yticks([i + 0.5 for i in range(len(rows) - 1)], minor=True)
    ax.grid(which="minor", color="lightgray", linewidth=0.6)
    ax.tick_params(which="minor", length=0)
    ax.spines[:].set(visible=True, color="lightgray")


def two_uses(start, middle, end, direct, detour):
    """A value used twice, straight into `end` and through `middle`: the two ways back, each with its term."""
    fig = figure(6.5, 2.6)
    ax = fig.subplots()
    for (x, y), name in zip([(0, 0), (2, 1.2), (4, 0)], [start, middle, end]):
        box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": FORWARD}
        ax.text(x, y, name, ha="center", va="center", color=FORWARD, bbox=box)
    for a, b in [((0.25, 0.1), (3.75, 0.1)), ((0.2, 0.26), (1.76, 1.08)), ((2.24, 1.08), (3.8, 0.26))]:
        _arrow(ax, a, b, FORWARD)
    _arrow(ax, (3.75, -0.1), (0.25, -0.1), GRADIENT)
    ax.text(2, -0.42, direct, ha="center", color=GRADIENT_INK)
    _arrow(ax, (3.95, 0.3), (2.24, 1.32), GRADIENT, 0.35)
    _arrow(ax, (1.76, 1.32), (0.05, 0.3), GRADIENT, 0.35)
    ax.text(-0.05, 1.2, detour, ha="center", color=GRADIENT_INK)
    ax.set(xlim=(-1, 5), ylim=(-0.6, 1.7))
    ax.axis("off")
    alt = f"Three boxes {start}, {middle}, {end}. Forward arrows run from {start} straight to {end}, and by way of {middle}. "
    detour = " ".join(detour.split())
    return picture(
        fig,
        alt + f"Backward arrows return along both; the direct one is labelled {direct}, the detour {detour}.",
    )


def outer_products(h, dlogits, parts, dW):
    """One outer product for each row of the batch, as a multiplication table, and their sum dW."""
    fig = figure(7.5, 2.2)
    axes = fig.subplots(1, len(parts) + 1)
    top = max(p.abs().max().item() for p in [*parts, dW])
    for b, (ax, part) in enumerate(zip(axes, parts)):
        _matrix(ax, part, [_short(x) for x in dlogits[b]], [_short(x) for x in h[b]], MUTED, top)
        ax.set_ylabel(f"h, row {b}", color=FORWARD)
        ax.tick_params(axis="y", labelcolor=FORWARD)
        ax.tick_params(axis="x", labelcolor=GRADIENT_INK)
        ax.set_title(f"dlogits, row {b}", color=GRADIENT_INK, fontsize=10)
        ax.text(
            1.07, 0.5, "+" if b + 1 < len(parts) else "=", transform=ax.transAxes, fontsize=14, va="center"
        )
    names = [f"{j}" for j in range(dW.shape[1])], [f"{i}" for i in range(dW.shape[0])]
    _matrix(axes[-1], dW, *names, GRADIENT_INK, top)
    axes[-1].set_title("dW: their sum", color=GRADIENT_INK, fontsize=10)
    size = f"{dW.shape[0]} by {dW.shape[1]}"
    alt = f"{len(parts)} multiplication tables of {size}, each of one row of h (down the side) and of dlogits (along the top)"
    return picture(fig, f"{alt}, and their sum dW, also {size}: {dW.tolist()}.")


def rows_moved(first, second, row, titles):
    """Two panels of bars, one bar a row of the batch: the change of its loss after row `row` was disturbed."""
    fig = figure(7.5, 4.4)
    for ax, change, title in zip(fig.subplots(2, 1, sharex=True), (first, second), titles):
        colors = [HIGHLIGHT if b == row else FORWARD for b in range(len(change))]
        ax.bar(range(len(change)), change, color=colors)
        ax.margins(y=0.15)
        ax.axhline(0, color=MUTED, linewidth=0.8)
        ax.set(title=title, ylabel="change of loss")
    ax.set_xlabel("row of the batch")
    fig.align_ylabels()
    bars = f"{len(first)} bars, the change of each row's loss"
    return picture(
        fig,
        f"Two bar charts of {bars}. Above: {titles[0]}. Below: {titles[1]}. Bar {row} is highlighted in both.",
    )
