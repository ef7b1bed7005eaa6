"""Figures of notebook 06: the first layer, the embedding, and the ledger."""

from matplotlib.patches import Arc

from ..data import VOCAB
from .style import (
    FLOAT32,
    FLOAT64,
    FORWARD,
    GRADIENT,
    GRADIENT_INK,
    HIGHLIGHT,
    MUTED,
    MUTED_INK,
    PARAMETER,
    PARAMETER_INK,
    figure,
    picture,
)

MONO = {"family": "DejaVu Sans Mono", "ha": "center", "va": "center"}


def scatter_add(Xb, letter):
    """Where each of the rows of demb goes: one arrow per row, into the row of C it was copied from."""
    flat = Xb.flatten().tolist()
    fig = figure(9, 4.4)
    ax = fig.subplots()
    top = [k + 0.9 * (k // 3) for k in range(len(flat))]  # a gap after each context of three
    place = [(i + 0.5) * (top[-1] + 1) / len(VOCAB) - 0.5 for i in range(len(VOCAB))]
    for x, i in zip(top, flat):
        mine = VOCAB[i] == letter
        ax.text(x, 1.05, VOCAB[i], fontsize=8, color="black", fontweight="bold" if mine else "normal", **MONO)
        look = (
            {"color": HIGHLIGHT, "linewidth": 2, "zorder": 3}
            if mine
            else {"color": MUTED, "alpha": 0.3, "linewidth": 0.8}
        )
        ax.annotate("", (place[i], 0.115), (x, 1.01), arrowprops={"arrowstyle": "-|>", "shrinkA": 0, **look})
    for i, name in enumerate(VOCAB):
        count = flat.count(i)
        face = "white" if not count else HIGHLIGHT if name == letter else "#F6D9C9"
        box = {"boxstyle": "square,pad=0.35", "facecolor": face, "edgecolor": GRADIENT if count else MUTED}
        ax.text(place[i], 0.06, name, fontsize=9, bbox=box, **MONO)
        ax.text(place[i], -0.06, str(count), fontsize=8.5, color="black" if count else "#6B6B6B", **MONO)
    ax.text(top[-1] / 2, 1.13, f"demb: {len(flat)} rows, {len(Xb)} contexts of three letters", ha="center")
    ax.text(top[-1] / 2, -0.17, "dC: 27 rows; below each, the number of rows added into it", ha="center")
    ax.set(xlim=(-2, top[-1] + 2), ylim=(-0.2, 1.2))
    ax.axis("off")
    alt = (
        f"Above, the {len(flat)} letters of the minibatch in contexts of three; below, the 27 rows of dC. One arrow "
        f"runs from each letter down to its row. The row of {letter} collects {flat.count(VOCAB.index(letter))} "
        f"arrows; {sum(i not in flat for i in range(27))} rows collect none."
    )
    return picture(fig, alt)


def one_hot(matrix, letter):
    """The one-hot matrix (27, 96), transposed from the forward pass: a dot is a 1, everything else a 0."""
    fig = figure(9, 4.6)
    ax = fig.subplots()
    for i, name in enumerate(VOCAB):
        columns = matrix[i].nonzero().flatten().tolist()
        mine = name == letter
        ax.axhline(i, color=HIGHLIGHT if mine else "#E4E4E4", linewidth=1.2 if mine else 0.6, zorder=0)
        ax.scatter(columns, [i] * len(columns), s=26, marker="s", color=HIGHLIGHT if mine else GRADIENT)
    ax.set_yticks(range(len(VOCAB)), list(VOCAB), fontsize=8, family="DejaVu Sans Mono")
    ax.set(xlim=(-1.5, matrix.shape[1] + 0.5), ylim=(len(VOCAB) - 0.2, -0.8))
    ax.set(xlabel="row of demb (96)", ylabel="row of dC (27)")
    ax.set_title("A square is a 1: one in each column, as many in a row as the letter occurs")
    alt = (
        f"A matrix of 27 rows and {matrix.shape[1]} columns with one square in each column. The row of {letter} "
        f"holds {int(matrix[VOCAB.index(letter)].sum())} squares."
    )
    return picture(fig, alt)


def shifted_column(column, shifted, centred, centred_shifted):
    """One column of hprebn and of bndiff over the batch, before and after a constant joins the column."""
    fig = figure(8, 3.2)
    left, right = fig.subplots(1, 2)
    rows = range(len(column))
    for values, colour, label in ((column, FORWARD, "as it was"), (shifted, HIGHLIGHT, "after b1[0] += 2")):
        left.plot(rows, values, "o", color=colour, markersize=4, label=label)
        left.axhline(values.mean(), color=colour, linestyle="--", linewidth=1.2)
    right.plot(rows, centred, "o", color=FORWARD, markersize=4)
    right.plot(rows, centred_shifted, "o", color=HIGHLIGHT, markersize=8, fillstyle="none")
    right.axhline(0, color=MUTED, linestyle="--", linewidth=1.2)
    left.set(title="hprebn[:, 0] and its mean (dashed)", xlabel="row of the batch", ylabel="value")
    right.set(title="bndiff[:, 0]", xlabel="row of the batch")
    fig.legend(loc="outside lower center", ncols=2)
    alt = (
        "Left: the 32 values of one column of hprebn and, two higher, the same values after two was added to the "
        "column's bias; each cloud has its own dashed mean. Right: after subtracting the mean, filled dots and "
        "rings lie on the same places."
    )
    return picture(fig, alt)


def right_angle():
    """A step at a right angle to w makes w longer (a sketch, the step drawn far too large)."""
    fig = figure(5.2, 2.9)
    ax = fig.subplots()
    ax.add_patch(Arc((0, 0), 6, 6, theta1=-12, theta2=42, color=MUTED, linestyle="--"))
    arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "linewidth": 2}
    for start, end, colour in (
        ((0, 0), (3, 0), PARAMETER),
        ((3, 0), (3, 1.5), GRADIENT),
        ((0, 0), (3, 1.5), HIGHLIGHT),
    ):
        ax.annotate("", end, start, arrowprops={**arrow, "color": colour})
    ax.plot([2.82, 2.82, 3], [0, 0.18, 0.18], color="black", linewidth=0.8)
    ax.text(1.5, -0.12, "w, a column of W1", color=PARAMETER_INK, ha="center", va="top")
    ax.text(3.08, 0.75, "step: −lr · dw", color=GRADIENT_INK, va="center")
    ax.text(1.35, 0.86, "w afterwards", color="black", ha="center", rotation=26.6, rotation_mode="anchor")
    ax.text(2.35, 2.12, "all vectors as long as w", color=MUTED_INK, ha="right", va="center", fontsize=9)
    ax.set(xlim=(-0.1, 4.4), ylim=(-0.6, 2.3), aspect="equal")
    ax.axis("off")
    alt = (
        "A vector w points right. From its tip the step points straight up, at a right angle. The vector to the "
        "step's end reaches beyond the dashed arc of all vectors as long as w."
    )
    return picture(fig, alt)


def growth(W1, W2):
    """How much longer each column became, in percent, sorted: one bar per column of W1 and of W2."""
    fig = figure(8, 3.2)
    for ax, change, name in zip(fig.subplots(1, 2), (W1, W2), ("W1", "W2")):
        change = sorted(change.tolist())
        colours = [PARAMETER if c > 0 else MUTED for c in change]
        ax.bar(range(len(change)), change, color=colours)
        ax.axhline(0, color="black", linewidth=0.8)
        longer = sum(c > 0 for c in change)
        ax.set(title=f"{name}: {longer} of {len(change)} columns longer", xlabel="column, sorted")
        ax.set_ylabel("change of norm, percent")
    alt = (
        f"Two bar charts of the change of each column's norm. W1: {sum(c > 0 for c in W1.tolist())} of {len(W1)} bars "
        f"point up. W2: {sum(c > 0 for c in W2.tolist())} of {len(W2)} point up, the others down."
    )
    return picture(fig, alt)


def sizes(names, single, double):
    """The norm of every gradient, computed in float32 (squares) and in float64 (rings), on a log scale."""
    fig = figure(9, 4)
    ax = fig.subplots()
    ax.vlines(range(len(names)), double, single, color=MUTED, linewidth=1, linestyle=":")
    ax.plot(single, "s", color=FLOAT32, markersize=4, label="computed in float32")
    ax.plot(double, "o", color=FLOAT64, markersize=10, fillstyle="none", label="computed in float64")
    ax.set_yscale("log")
    ax.set_xticks(range(len(names)), names, rotation=60, ha="right", rotation_mode="anchor", fontsize=9)
    ax.set(ylabel="norm of the gradient", title="Two of the 26 are nothing but rounding")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 0.1))
    for x, name in enumerate(names):
        if name in ("logit_maxes", "b1"):
            ax.annotate(name, (x, single[x]), (x + 0.5, single[x]), va="center")
    fallen = [name for name, s, d in zip(names, single, double) if d < 1e-6 * s]
    alt = (
        f"The norms of all {len(names)} gradients on a log scale. For {len(names) - len(fallen)} of them the float32 "
        f"square sits inside the float64 ring. For {' and '.join(fallen)} the ring lies many orders of magnitude lower."
    )
    return picture(fig, alt)
