"""Figures of notebook 10: what a forgotten no_grad keeps, the order of the gradients, and the long run."""

from .style import (
    BATCH_SUM,
    FLOAT32,
    FLOAT64,
    FORWARD,
    GRADIENT,
    HIGHLIGHT,
    MUTED,
    PARAMETER,
    figure,
    picture,
)


def chain(steps, nodes, kept):
    """Left the steps that autograd remembers, right the memory; each a dict name -> values, one per entry of steps."""
    fig = figure(9, 3.2)
    for ax, curves, label in zip(fig.subplots(1, 2), (nodes, kept), ("nodes behind the mean", "kB kept")):
        for (name, values), colour, mark in zip(curves.items(), (GRADIENT, FORWARD), ("o-", "s--")):
            ax.plot(steps, values, mark, color=colour, markersize=4, label=name)
        ax.set(xlabel="training steps", ylabel=label, ylim=(-0.03 * max(map(max, curves.values())), None))
    ax.yaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}")
    ax.legend(loc="upper left", fontsize=9)
    alt = "Two charts over the training steps. The nodes behind the running mean and the memory kept rise in a straight "
    return picture(
        fig, alt + "line where the graph is carried along, and stay where they are where it is cut off."
    )


MARKS = {
    "the right pair": "✓",
    "raises an error": "",
    "broadcasts in silence": "↓",
    "same shape: no error": "=",
}
SILENT = {"raises an error": "white", "broadcasts in silence": HIGHLIGHT, "same shape: no error": GRADIENT}


def pairs(shapes, verdicts):
    """Which gradient (column) may be subtracted from which parameter (row); verdicts: (row, column) -> of SILENT."""
    fig = figure(7.5, 4.3)
    ax = fig.subplots()
    names = list(shapes)
    for (p, d), verdict in verdicts.items():
        x, y = names.index(d), names.index(p)
        face = PARAMETER if p == d else SILENT[verdict]
        box = {"edgecolor": "#BBBBBB", "facecolor": face, "alpha": 0.75, "linewidth": 0.8}
        ax.bar(x, 0.94, 0.94, y - 0.47, **box)
        mark = MARKS["the right pair" if p == d else verdict]
        ax.text(x, y, mark, ha="center", va="center", fontsize=12)
    ax.set_xticks(range(len(names)), [f"d{name}" for name in names], fontsize=9)
    ax.set_yticks(
        range(len(names)), [f"{name} {str(shape).replace(',)', ')')}" for name, shape in shapes.items()]
    )
    ax.set(
        xlim=(-0.6, len(names) - 0.4), ylim=(len(names) - 0.4, -0.6), ylabel="parameter", xlabel="gradient"
    )
    ax.set_title("parameter -= gradient: which pairs run?")
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
    for name, colour in {"the right pair": PARAMETER, **SILENT}.items():
        ax.bar(0, 0, 0, color=colour, edgecolor="#BBBBBB", alpha=0.75, label=f"{name}  {MARKS[name]}")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9)
    silent = [
        f"{p} with d{d}" for (p, d), verdict in verdicts.items() if p != d and verdict in list(SILENT)[1:]
    ]
    alt = "A square for each pair of a parameter and a gradient. The right pairs lie on the diagonal. Wrong pairs that "
    return picture(fig, alt + f"run without an error: {', '.join(silent)}. All others raise one.")


def loss_curve(losses, decay_at, block=1000):
    """The loss of single minibatches, thinned out, and its mean over blocks of steps; right, the drop near by."""
    fig = figure(9, 3.6)
    whole, near = fig.subplots(1, 2, width_ratios=(1.6, 1))
    means = [sum(losses[k : k + block]) / len(losses[k : k + block]) for k in range(0, len(losses), block)]
    middles = [(k + 0.5) * block for k in range(len(means))]
    thin = range(0, len(losses), max(1, len(losses) // 4000))
    for ax in whole, near:
        ax.plot(middles, means, color=FORWARD, linewidth=2, label=f"mean over {block} steps")
        ax.axvline(decay_at, color=HIGHLIGHT, linewidth=1.5, linestyle="--", label="learning rate 0.1 → 0.01")
        ax.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k" if x else "0")
        ax.set(xlabel="step", ylabel="loss")
    dots = {"markersize": 1.2, "color": MUTED, "alpha": 0.6, "zorder": 0}
    whole.plot(thin, [losses[k] for k in thin], ".", label="single minibatches", **dots)
    whole.set(ylim=(1.4, 3.2), title="The whole run")
    whole.legend(fontsize=9, markerscale=4)
    there = [m for x, m in zip(middles, means) if abs(x - decay_at) < 0.3 * decay_at] or means
    near.set(xlim=(0.7 * decay_at, 1.3 * decay_at), ylim=(min(there) - 0.01, max(there) + 0.01))
    near.set_title("The drop")
    alt = "The loss over the steps. Single minibatches scatter widely. Their mean over blocks falls fast at first, then "
    return picture(fig, alt + "slowly; where the learning rate drops to a tenth it makes a small step down.")


def activations(moments, shares, limit):
    """Above, histograms of h at a few moments; below, what share of h, dh and dhpreact lies in saturated places."""
    fig = figure(9, 5)
    grid = fig.add_gridspec(2, len(moments), height_ratios=(1, 1.15))
    edges = [-1, *(limit * k / 32 for k in range(-32, 33)), 1]
    first = None
    for k, (step, h) in enumerate(moments.items()):
        ax = first = fig.add_subplot(grid[0, k], sharey=first)
        _, _, bars = ax.hist(h.flatten().tolist(), edges, color=FORWARD, density=True)
        for bar in (bars[0], bars[-1]):
            bar.set_color(HIGHLIGHT)
        ax.set(title=f"step {step:,}", xlabel="h", ylabel="" if k else "density")
        ax.tick_params(labelleft=k == 0)
    below = fig.add_subplot(grid[1, :])
    for j, (name, colour) in enumerate((("h", HIGHLIGHT), ("dh", "#F2C3A3"), ("dhpreact", GRADIENT))):
        x = [k + 0.25 * (j - 1) for k in range(len(shares))]
        y = [100 * share[name] for share in shares.values()]
        below.bar(x, y, 0.23, color=colour, label=f"of {name}" if j else "of all entries")
        for a, b in zip(x, y):
            below.text(a, b, f"{b:.1f}", ha="center", va="bottom", fontsize=9)
    below.set_xticks(range(len(shares)), [f"step {step:,}" for step in shares])
    below.set(ylabel="percent", title=f"What share lies where |h| > {limit}?")
    below.margins(y=0.3)
    below.legend(fontsize=9, loc="upper left", ncols=3)
    alt = "Above, histograms of h at each moment; the outermost bars, which hold the saturated values, stand out. Below, "
    alt += "three bars for each moment: the share of saturated entries, the share of dh that arrives at them, and the "
    return picture(fig, alt + "share of dhpreact that gets through them, which is small every time.")


def norms(steps, lengths):
    """The length of every column of W1 (one thin line each) over the steps; lengths: one row per step."""
    fig = figure(7, 3.4)
    ax = fig.subplots()
    ax.plot(steps, lengths, color=PARAMETER, alpha=0.18, linewidth=1)
    middle = [sorted(row)[len(row) // 2] for row in lengths]
    ax.plot(steps, middle, "o-", color="black", linewidth=2, label="median of the columns")
    ax.set_xscale("symlog", linthresh=1000)
    ax.set_xticks(steps, [f"{s // 1000}k" if s else "0" for s in steps])
    ax.minorticks_off()
    ax.set(xlabel="step", ylabel="length of a column of W1", ylim=(0, None))
    ax.legend(fontsize=9, loc="upper left")
    alt = f"{len(lengths[0])} thin lines, one for each column of W1, over the steps: all of them rise. The median rises "
    return picture(fig, alt + f"from {middle[0]:.1f} to {middle[-1]:.1f}.")


def statistics(running, calibrated):
    """The running estimate of each hidden unit against the whole training set's own mean and variance."""
    fig = figure(8.5, 3.7)
    for ax, name in zip(fig.subplots(1, 2), ("mean", "var")):
        x, y = (getattr(stats, name).flatten().tolist() for stats in (calibrated, running))
        ends = min(x + y), max(x + y)
        ax.plot(ends, ends, color=MUTED, linewidth=1, zorder=0)
        ax.plot(x, y, "o", color=BATCH_SUM, markersize=4, alpha=0.7)
        ax.set(
            xlabel="whole training set", ylabel="running estimate", title={"var": "variance"}.get(name, name)
        )
    alt = f"Two scatter plots of {len(x)} hidden units: mean and variance by the running estimate against the whole "
    return picture(fig, alt + "training set's. All points lie close to the diagonal.")


def gap(steps, curves):
    """Losses over the steps for several sets of names; curves: name -> one loss per step."""
    fig = figure(8, 3.6)
    ax = fig.subplots()
    looks = ((FORWARD, "o-"), (MUTED, "s--"), (HIGHLIGHT, "D-"), (GRADIENT, "^-"))
    for (name, values), (colour, marker) in zip(curves.items(), looks):
        ax.plot(steps, values, marker, color=colour, markersize=5, label=name)
    ax.set_xscale("log")
    ax.set_xticks(steps, [f"{s // 1000}k" for s in steps])
    ax.minorticks_off()
    ax.set(xlabel="step", ylabel="loss")
    ax.legend(fontsize=9, loc="upper right")
    ends = ", ".join(f"{name} {values[-1]:.2f}" for name, values in curves.items())
    return picture(
        fig, f"Losses over the training steps, falling for every set of names. At the end: {ends}."
    )


def differences(runs, mistake):
    """Relative differences of the twins' parameters, on a log scale; runs: name -> (parameter -> value)."""
    fig = figure(8.5, 3.2)
    ax = fig.subplots()
    for (name, values), colour, marker in zip(runs.items(), (FLOAT32, FLOAT64), "so"):
        ax.plot(
            list(values.values()), list(values), marker, color=colour, markersize=7, label=f"twins, {name}"
        )
    ax.axvline(mistake, color=GRADIENT, linewidth=2, label="n for n − 1, one gradient")
    ax.set_xscale("log")
    ax.invert_yaxis()
    ax.grid(axis="y", color="#E5E5E5")
    ax.set(xlabel="relative difference, by hand against backward()", title="Rounding, and a mistake")
    ax.legend(fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    alt = f"The relative difference of each parameter between the twins on a log scale, and a line at {mistake:.4f} for "
    alt += "the mistake, far to the right of all dots. "
    largest = (f"{name}: at most {max(values.values()):.0e}" for name, values in runs.items())
    return picture(fig, alt + "; ".join(largest) + ".")
