"""The model as a picture, a batch of examples beside the one copy of the weights, the loss before training."""

from matplotlib.patches import Rectangle

from ..data import VOCAB
from .style import DIVERGING, FORWARD, HIGHLIGHT, MUTED, PARAMETER, PARAMETER_INK, SEQUENTIAL, figure, picture


def network(context, target, hidden=64):
    """One example on its way through the model: three letters in, 27 probabilities out."""
    fig = figure(9, 3.9)
    ax = fig.add_subplot()
    ax.set(xlim=(0, 900), ylim=(0, 375))
    ax.axis("off")
    for k, letter in enumerate(context):
        y = 255 - 90 * k
        y -= 15
        _cells(ax, 15, y, 30, 30, 1, 1)
        ax.text(30, y + 15, letter, ha="center", va="center", fontsize=13)
        _cells(ax, 135, y + 8, 120, 14, 1, 10)
        ax.annotate("", (131, y + 15), (49, y + 15), arrowprops={"arrowstyle": "-|>", "color": PARAMETER})
        _fan(ax, 258, (y + 15, y + 15), 312, (303 - 90 * k, 213 - 90 * k), MUTED)
    ax.text(90, 265, "row of C", ha="center", color=PARAMETER_INK, fontsize=9.5)
    columns = {315: (30, "embcat\n30 numbers", 270), 510: (hidden, f"h\n{hidden} hidden units", 320)}
    for x, (count, label, height) in columns.items():
        _cells(ax, x, 168 - height / 2, 16, height, count, 1)
        ax.text(x + 8, 352, label, ha="center", va="center", fontsize=9.5)
    ax.text(30, 352, "3 letters", ha="center", va="center", fontsize=9.5)
    ax.text(195, 352, "emb\n3 rows of 10", ha="center", va="center", fontsize=9.5)
    _fan(ax, 333, (35, 301), 508, (12, 324), PARAMETER)
    ax.text(420, 168, "W1, b1\nBatchNorm\ntanh", ha="center", va="center", **_label())
    _fan(ax, 528, (12, 324), 708, (8, 325), PARAMETER)
    ax.text(617, 168, "W2, b2\nsoftmax", ha="center", va="center", **_label())
    for k, letter in enumerate(VOCAB):
        y = 325 - 12.2 * k
        face = HIGHLIGHT if letter == target else "white"
        ax.add_patch(Rectangle((712, y - 5), 16, 10, facecolor=face, edgecolor=FORWARD, linewidth=0.8))
        ax.text(738, y, letter, ha="center", va="center", fontsize=8)
    y = 325 - 12.2 * VOCAB.index(target)
    ax.text(
        755, y, f"target {target!r}: the loss is\n\u2212log of this probability", va="center", fontsize=9.5
    )
    ax.text(722, 352, "probs\n27 probabilities", ha="center", va="center", fontsize=9.5)
    alt = f"The letters {' '.join(context)} each pick a row of C, the three rows of 10 numbers are joined to 30, "
    alt += f"W1, BatchNorm and tanh make {hidden} hidden units of them, W2 and softmax 27 probabilities, "
    return picture(fig, alt + f"one for each letter; the target, {target}, is marked.")


def _label():
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "boxstyle": "round,pad=0.2"}
    return {"color": PARAMETER_INK, "fontsize": 9.5, "bbox": box}


def _cells(ax, x, y, width, height, rows, columns):
    ax.add_patch(Rectangle((x, y), width, height, facecolor="white", edgecolor=FORWARD, linewidth=1))
    for k in range(1, rows):
        ax.plot([x, x + width], [y + height * k / rows] * 2, color=FORWARD, linewidth=0.5)
    for k in range(1, columns):
        ax.plot([x + width * k / columns] * 2, [y, y + height], color=FORWARD, linewidth=0.5)


def _fan(ax, x, ys, x2, ys2, colour):
    for y in ys:
        for y2 in ys2:
            ax.plot([x, x2], [y, y2], color=colour, linewidth=0.8)


def batch(embcat, W1, h, W2, probs):
    """A batch as it passes the two layers: rows are examples, and of each weight matrix there is one copy."""
    fig = figure(9, 3.2)
    fig.set_layout_engine("none")
    left = 45
    for name, t, after in (
        ("embcat", embcat, "@"),
        ("W1", W1, "\u2192"),
        ("h", h, "@"),
        ("W2", W2, "\u2192"),
        ("probs", probs, ""),
    ):
        image = _matrix(fig, left, name, t, after)
        if name in ("h", "probs"):
            bar = fig.add_axes(((left + t.shape[1] * PIXEL / 2 - 48) / 900, 45 / 320, 96 / 900, 8 / 320))
            fig.colorbar(image, cax=bar, orientation="horizontal").ax.tick_params(labelsize=8)
            bar.set_xlabel("value, cut off at \u00b12" if name == "h" else "probability", fontsize=8.5)
        left += t.shape[1] * PIXEL + 24
    alt = f"Five pictures of matrices. embcat, h and probs have {len(h)} rows, one per example, and one row is framed "
    return picture(fig, alt + "in all three. Between them stand W1 and W2, which have no row per example.")


PIXEL = 3.45  # side of a matrix entry


def _matrix(fig, left, name, t, after):
    rows, columns = t.shape
    parameter = name in ("W1", "W2")
    height = rows * PIXEL
    ax = fig.add_axes((left / 900, (165 - height / 2) / 320, columns * PIXEL / 900, height / 320))
    signed = {"cmap": DIVERGING, "vmin": -2, "vmax": 2}
    colours = {"cmap": SEQUENTIAL, "vmin": 0} if name == "probs" else signed
    image = ax.imshow(t, interpolation="nearest", aspect="auto", **colours)
    ax.set_title(f"{name}  {rows} × {columns}", fontsize=9.5, color=PARAMETER_INK if parameter else "black")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=PARAMETER if parameter else FORWARD, linewidth=2 if parameter else 1)
    if parameter:
        ax.set_xlabel("one copy", fontsize=9, color=PARAMETER_INK)
    else:
        frame = {"edgecolor": "white" if name == "probs" else "black", "linewidth": 1.5, "clip_on": False}
        ax.add_patch(Rectangle((-0.5, 4.5), columns, 1, fill=False, **frame))
        ax.set_xlabel(f"{rows} rows", fontsize=9)
    ax.text(columns - 0.5 + 12 / PIXEL, (rows - 1) / 2, after, ha="center", va="center", fontsize=11)
    if name == "embcat":
        ax.text(-2, 5, "one\nrow", ha="right", va="center", fontsize=8.5)
    return image


def step0(losses, uniform, rule):
    """Losses of many minibatches before training, beside log 27 and the rule's value."""
    fig = figure(7.5, 3)
    ax = fig.add_subplot()
    ax.hist(losses, bins=40, color=FORWARD, alpha=0.75)
    mean = losses.mean().item()
    for x, what, colour, style in (
        (uniform, "log 27", "black", ":"),
        (rule, "log 27 + half the variance", HIGHLIGHT, "-"),
        (mean, "mean of the losses", "black", "-"),
    ):
        ax.axvline(x, color=colour, linestyle=style, linewidth=2, label=f"{what}: {x:.3f}")
    ax.set(xlabel="loss of one minibatch, before training", ylabel="minibatches")
    ax.spines[["top", "right"]].set_visible(False)
    fig.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=9)
    alt = f"Histogram of {len(losses)} losses, centred on {mean:.3f}. Log 27 stands left of the centre at {uniform:.3f}, "
    return picture(fig, alt + f"the rule at {rule:.3f}, a little left of the mean.")
