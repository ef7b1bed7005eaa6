"""Drawings for cross-entropy in one line: forces on the logits, and what the remainders depend on."""

from matplotlib.ticker import LogLocator, NullFormatter

from ..data import VOCAB
from .style import BATCH_SUM, FORWARD, GRADIENT, GRADIENT_INK, HIGHLIGHT, MUTED, figure, picture

PULL = 2  # a force of 1 is drawn as long as 2 units of logit
COLOURS = {"cross-entropy": GRADIENT, "BatchNorm": BATCH_SUM}


def forces(panels):
    """Bars of logits with minus the gradient as arrows; panels: (title, labels, logits, dlogits, target)."""
    widths = [6 + len(labels) for _, labels, *_ in panels]
    fig = figure(9, 3.6)
    axes = fig.subplots(1, len(panels), width_ratios=widths, squeeze=False)[0]
    for ax, (title, labels, z, dz, target) in zip(axes, panels):
        z, force = [float(x) for x in z], [-float(x) for x in dz]
        colours = [HIGHLIGHT if j == target else FORWARD for j in range(len(z))]
        ax.bar(range(len(z)), z, color=colours, alpha=0.35, width=0.75)
        ends = [zj + PULL * f for zj, f in zip(z, force)]
        ax.vlines(range(len(z)), z, ends, color=GRADIENT, linewidth=2)
        for up, tip in ((True, "^"), (False, "v")):
            x = [j for j, f in enumerate(force) if (f > 0) == up]
            ax.scatter(x, [ends[j] for j in x], marker=tip, color=GRADIENT, s=28, zorder=3)
        ax.axhline(0, color="black", linewidth=0.8)
        ax.set_xticks(range(len(z)), labels)
        ax.set(title=title, ylabel="logit", xlabel="letter" if len(z) == len(VOCAB) else "class")
        ax.margins(y=0.12)
        if len(z) < 8:
            for j, f in enumerate(force):
                text = {"color": GRADIENT_INK, "fontsize": 9, "ha": "center", "va": "bottom"}
                ax.text(j, max(z[j], ends[j]) + 0.08, f"{f:+.2f}".replace("-", "−"), **text)
    alt = "Bars of logits, each with an arrow of minus its gradient. In every panel the target's bar is pulled up "
    return picture(fig, alt + "and every other bar is pushed down, the more the larger its probability is.")


def gaps(ulps, remainder, at_maximum):
    """Left: the largest difference of each batch; right: the same against the remainder of dlogit_maxes.

    ulps: name -> one value a batch; remainder: one value a batch; at_maximum: whether
    cross-entropy's largest difference sits at its row's maximum.
    """
    fig = figure(9, 3.5)
    left, right = fig.subplots(1, 2)
    gap = ulps["cross-entropy, as it is"]
    edges = [x / 2 - 0.25 for x in range(18)]
    for (name, value), colour, line in zip(ulps.items(), (GRADIENT, BATCH_SUM, "black"), ("-", "--", ":")):
        left.hist(
            value.tolist(), edges, histtype="step", linewidth=2, color=colour, linestyle=line, label=name
        )
    left.set(xlabel="largest difference, in ulp", ylabel="batches", title="Two routes to one gradient")
    left.legend(loc="upper right", fontsize=9)
    for where, colour, label in ((True, GRADIENT, "at the row's maximum"), (False, FORWARD, "elsewhere")):
        x = [float(r) for r, m in zip(remainder, at_maximum) if m == where]
        y = [float(d) for d, m in zip(gap, at_maximum) if m == where]
        marker = "o" if where else "s"
        right.scatter(x, y, s=14, color=colour, marker=marker, alpha=0.6, label=f"{label}: {len(x)} batches")
    end = 1 + max(map(float, gap))
    right.plot([0, end], [0, end], color=MUTED, linewidth=1, zorder=0)
    right.set(xlim=(0, end), ylim=(0, end), xlabel="largest entry of dlogit_maxes, in ulp")
    right.set(ylabel="largest difference, in ulp", title="Where it sits (cross-entropy)")
    right.legend(loc="lower right", fontsize=9)
    alt = "Left: histograms of the largest difference per batch. Cross-entropy's lies right of cross-entropy without "
    alt += "the path through the maxima, and BatchNorm's furthest left. Right: cross-entropy's largest difference "
    return picture(
        fig, alt + "against the largest entry of dlogit_maxes; nearly all points lie along the diagonal."
    )


def spreads(measured):
    """Median and full range over the batches; measured: (block, name) -> (2, batches), maxdiff and ulps."""
    fig = figure(9, 0.32 * len(measured) + 1.1)
    panels = fig.subplots(1, 2, sharey=True)
    blocks = [block for block, _ in measured]
    rows = [i + 0.6 * sum(a != b for a, b in zip(blocks[:i], blocks[1 : i + 1])) for i in range(len(blocks))]
    bar, dot = {"linewidth": 2, "alpha": 0.45}, {"marker": "o", "linestyle": "none", "markersize": 7}
    for ax, kind, title in zip(panels, (0, 1), ("largest difference itself", "in ulp of the largest entry")):
        for y, ((block, _), values) in zip(rows, measured.items()):
            colour = COLOURS.get(block, FORWARD)
            value = values[kind].sort().values
            ax.hlines(y, value[0], value[-1], color=colour, **bar)
            ax.plot(value[len(value) // 2], y, color=colour, **dot)
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(numticks=20))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set(title=title)
        ax.grid(axis="x", color="#E5E5E5", linewidth=0.8)
        ax.set_axisbelow(True)
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
    panels[1].set_xticks([0.5, 1, 2, 4, 8, 16, 32, 64, 128], "0.5 1 2 4 8 16 32 64 128".split())
    panels[1].minorticks_off()
    panels[0].set_yticks(rows, [name if block == "" else f"{block}: {name}" for block, name in measured])
    panels[0].invert_yaxis()
    panels[1].plot([], [], color="black", label="median", **dot)
    panels[1].plot([], [], color="black", label="smallest to largest", **bar)
    panels[1].legend(loc="lower right", fontsize=9)
    alt = "Median and range over the batches for each experiment, on the left the largest difference itself, on the "
    alt += "right in ulp. On the right only a BatchNorm input shifted by 1000 lies far above the unchanged cases; "
    return picture(fig, alt + "without the paths whose value is zero the differences are smaller.")
