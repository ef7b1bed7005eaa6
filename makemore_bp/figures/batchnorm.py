"""BatchNorm in one line: the three paths, the flat bottom of the variance, the V of the differences, the terms."""

import numpy as np
from matplotlib.patches import FancyArrowPatch

from .style import (
    BATCH_SUM,
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
    picture,
)

ITSELF, MEAN, VARIANCE = GRADIENT, BATCH_SUM, "#6A3D9A"  # the three terms of dx, the same in each figure

NODES = {  # name: (x, y, shown as)
    "x": (0, 0, "$x$"), "mu": (2.1, 1.15, r"$\mu$"), "var": (0.9, 2.3, r"$\sigma^2$"), "v": (2.9, 2.3, "$v$"),
    "xhat": (4.2, 0, r"$\hat x$"), "y": (5.4, 0, "$y$"), "L": (6.4, 0, "$L$"),
}  # fmt: skip
ARROWS = {  # from, to: (colour, where its local derivative is written, the local derivative)
    ("x", "xhat"): (ITSELF, (2.1, -0.26), "$v$"),
    ("x", "mu"): (MEAN, (1.3, 0.44), "$1/n$"),
    ("mu", "xhat"): (MEAN, (3.05, 0.44), "$-v$"),
    ("x", "var"): (VARIANCE, (-0.28, 1.38), r"$\frac{2(x_b-\mu)}{n-1}$"),
    ("var", "v"): (VARIANCE, (1.9, 2.55), r"$-\frac{1}{2}v^3$"),
    ("v", "xhat"): (VARIANCE, (4.1, 1.3), r"$x_b-\mu$"),
    ("xhat", "y"): ("#606060", (4.8, -0.26), r"$\gamma$"),
    ("y", "L"): ("#606060", (5.9, -0.26), "$dy_b$"),
    ("mu", "var"): (MUTED, (1.78, 1.86), "0"),
}


def paths(derivatives=False):
    """One column's graph: three paths from x to x-hat, and the suspected fourth, dashed.

    With derivatives, each arrow carries its local derivative.
    """
    fig = figure(7.5, 3.7)
    ax = fig.subplots()
    ax.set(xlim=(-1.1, 6.8), ylim=(-0.55, 2.75))
    ax.axis("off")
    boxes = {}
    for name, (x, y, shown) in NODES.items():
        look = {"boxstyle": "circle,pad=0.35", "facecolor": "white", "edgecolor": FORWARD, "linewidth": 1.4}
        boxes[name] = ax.text(x, y, shown, size=13, ha="center", va="center", bbox=look, zorder=3)
    for (start, end), (colour, place, derivative) in ARROWS.items():
        dashed = (start, end) == ("mu", "var")
        look = {
            "arrowstyle": "-|>",
            "mutation_scale": 14,
            "color": colour,
            "linestyle": "--" if dashed else "-",
        }
        arrow = FancyArrowPatch(NODES[start][:2], NODES[end][:2], shrinkA=17, shrinkB=17, linewidth=2, **look)
        ax.add_patch(arrow)
        if derivatives:
            ax.text(*place, derivative, size=13, color="black", ha="center", va="center")
    if not derivatives:
        ax.text(2.1, -0.26, "1  x itself", color=GRADIENT_INK, ha="center", va="center")
        ax.text(2.1, 0.4, "2  through the mean", color=BATCH_SUM_INK, ha="center", va="center")
        ax.text(1.9, 2.58, "3  through the variance", color=VARIANCE, ha="center", va="center")
        ax.text(1.72, 1.9, "a fourth?", color=MUTED_INK, ha="left", va="center")
    alt = (
        "Graph of one column, left to right. Path 1 goes from x straight to x-hat. Path 2 goes from x to the mean mu "
        "and on to x-hat. Path 3 goes from x to the variance, to v and on to x-hat. From x-hat it goes on to y and L. "
    )
    alt += "A dashed arrow leads from mu to the variance, "
    alt += (
        "marked 0; every other arrow carries its local derivative."
        if derivatives
        else "with the words: a fourth?"
    )
    return picture(fig, alt)


def bottom(centres, spreads, mu, var, divisor):
    """The pooled squared distance of a column from each centre, with its lowest point at the mean."""
    fig = figure(6, 3)
    ax = fig.subplots()
    ax.plot(centres, spreads, color=FORWARD)
    ax.spines[["top", "right"]].set_visible(False)
    width = (centres[-1] - centres[0]) / 5
    ax.plot([mu - width, mu + width], [var, var], color=HIGHLIGHT, linewidth=3, zorder=1)
    ax.plot([mu], [var], "o", color=FORWARD)
    ax.annotate(rf"at $c=\mu$ the slope is 0, and the height is $\sigma^2$ = {var:.2f}", (mu, var), (mu, var * 2.2),
                ha="center", arrowprops={"arrowstyle": "-", "color": MUTED, "shrinkB": 5})  # fmt: skip
    ax.set(xlabel="centre $c$", ylabel=rf"$\sum_k (x_k-c)^2\,/\,{divisor}$", ylim=(0, None))
    return picture(
        fig, f"A parabola over the centre c. Its lowest point, at c = {mu:.2f}, has a flat tangent."
    )


LOOKS = {  # of the curves: colour and marker
    "float32": (FLOAT32, "s-"), "float64": (FLOAT64, "o-"), "1000 + loss": (HIGHLIGHT, "d-"),
    "dL/dv": (VARIANCE, "^-"), "dL/dμ": (MEAN, "s-"), "∂σ²/∂x (row 2)": (VARIANCE, "x--"), "dL/dσ²": (HIGHLIGHT, "d-"),
    "stand-in loss": ("black", "o-"), "whole model": (GRADIENT, "s-"),
}  # fmt: skip


def v_curves(sizes, panels, band=None):
    """Relative difference of central differences over their step; panels: title -> {label: errors}."""
    fig = figure(6, 0.4 + 3.3 * len(panels))
    axes = fig.subplots(len(panels), 1, squeeze=False)[:, 0]
    for ax, (title, curves) in zip(axes, panels.items()):
        for label, errors in curves.items():
            colour, mark = LOOKS[label]
            shown = [max(error, 1e-16) for error in errors]  # a difference of 0 has no place on the axis
            ax.loglog(sizes, shown, mark, color=colour, markersize=3.5, linewidth=1.2, label=label)
        if band:
            ax.axhspan(*band, color="#D9D9D9", zorder=0)
        ax.set(
            title=title,
            xlabel="step of the central difference",
            ylim=(3e-17, 1e6),
            yticks=10.0 ** np.arange(-16, 1, 4),
        )
        ax.legend(loc="upper right", fontsize=9, ncols=2, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#E5E5E5", linewidth=0.6)
    fig.supylabel("relative difference from the formula", fontsize=10)
    shown = "; ".join(f"{title}: {', '.join(curves)}" for title, curves in panels.items())
    alt = f"Relative difference of central differences over their step, both axes logarithmic ({shown}). "
    alt += "Rounding lifts every curve on the left, truncation those of curved functions on the right."
    return picture(fig, alt)


def terms(xhat, itself, mean, variance, name):
    """The three terms of one column's dx, and their sum, over the normalised input."""
    fig = figure(6.5, 4.8)
    panels = {
        "x itself": (itself, ITSELF),
        "through the mean": (mean, MEAN),
        "through the variance": (variance, VARIANCE),
        "the sum: dx": (itself + mean + variance, "black"),
    }
    grid = fig.subplots(2, 2, sharex=True, sharey=True)
    axes = grid.flat
    for ax, (title, (values, colour)) in zip(axes, panels.items()):
        ax.axhline(0, color=MUTED, linewidth=0.8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.vlines(xhat, 0, 1000 * values, color=colour, linewidth=1.5)
        ax.plot(xhat, 1000 * values, "o", color=colour, markersize=3)
        ax.set(title=title)
    order = xhat.argsort()
    away = -1000 * (mean + variance)[order]
    axes[0].plot(xhat[order], away, "--", color="black", linewidth=1.2, label="taken away")
    axes[0].legend(loc="lower left", fontsize=9)
    for below in grid[1]:
        below.set_xlabel(r"$\hat x_b$")
    fig.supylabel("gradient (thousandths)", fontsize=10)
    alt = (
        f"Four panels over the normalised input of {name}, 32 rows each. x itself: scattered stems, with a dashed "
        "straight line. Through the mean: all stems of one height. Through the variance: stems along a straight "
        "line through the origin. The sum: scattered stems again, smaller on the whole."
    )
    return picture(fig, alt)
