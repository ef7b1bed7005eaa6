"""Figures of notebook 03: what the gradient of the cross-entropy wants from each row."""

from matplotlib import colormaps
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from ..data import VOCAB
from .style import DIVERGING, FORWARD, GRADIENT, HIGHLIGHT, MUTED, figure, picture

LETTER = {"fontsize": 9, "family": "DejaVu Sans Mono"}


def boost(target_probs, target_grads, labels):
    """dprobs at each row's target over the probability of that target; labels: one per row, of its context."""
    n = len(labels)
    fig = figure(7.5, 3.6)
    ax = fig.subplots()
    low, high = target_probs.min().item(), target_probs.max().item()
    grid = [low + (high - low) * k / 200 for k in range(201)]
    ax.plot(grid, [-1 / (n * p) for p in grid], color=MUTED, linewidth=1, label="−1 / (n · p)")
    ax.plot(target_probs, target_grads, "o", color=GRADIENT, label="the rows of the minibatch")
    for row in (target_probs.argmin().item(), target_probs.argmax().item()):
        at = target_probs[row].item(), target_grads[row].item()
        side = "left" if at[0] == low else "right"
        shift = (12, -3) if side == "left" else (0, -16)
        ax.annotate(labels[row], at, shift, textcoords="offset points", ha=side, **LETTER)
    ax.set(xlabel="probability of the row's target", ylabel="dprobs at the target")
    ax.set_title("The less probability the target got, the larger its gradient")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 0.12))
    alt = (
        f"One dot per row of the minibatch: dprobs at its target over the target's probability. All {n} dots lie "
        f"on the curve -1/(n p), which falls steeply towards small probabilities. Lowest dot: "
        f"{labels[target_probs.argmin().item()]}."
    )
    return picture(fig, alt)


def _letters(ax, target):
    """One tick per letter, the target's in bold."""
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set_xticks(range(len(VOCAB)), list(VOCAB), **LETTER)
    ax.get_xticklabels()[target].set_fontweight("bold")
    ax.set_xlim(-0.7, len(VOCAB) - 0.3)


def _signed(value):
    return f"{value:+.5f}".replace("-", "−")


def pull_and_push(pull, push, target):
    """One row's dnorm_logits, apart by the use of counts that the two parts come from (V numbers each)."""
    fig = figure(8.5, 3.2)
    left, right = fig.subplots(1, 2)
    for ax, part, title in (
        (left, pull, "use in probs: pulls the target up"),
        (right, push, "use in counts_sum: pushes all down"),
    ):
        bars = ax.bar(range(len(part)), part.tolist(), color=GRADIENT)
        bars[target].set(facecolor=HIGHLIGHT, edgecolor="black", linewidth=1.5)
        _letters(ax, target)
        ax.set(xlabel="letter", title=f"{title}\nsum of the row: {_signed(part.sum().item())}")
    right.set(ylabel="part of dnorm_logits")
    left.set(ylabel="part of dnorm_logits", ylim=(1.08 * pull.min().item(), -0.1 * pull.min().item()))
    alt = (
        f"Two bar charts over the 27 letters. Left: one bar, at the target {VOCAB[target]}, pointing down, all "
        f"others zero. Right, on a finer scale: a small positive bar for each letter. The two sums are "
        f"{pull.sum().item():+.5f} and {push.sum().item():+.5f}."
    )
    return picture(fig, alt)


def heat(dlogits, contexts, Yb):
    """dlogits as an image: a row per example, a column per letter, colours centred on zero."""
    n, V = dlogits.shape
    limit = dlogits.max().item()
    fig = figure(8, 6.6)
    ax = fig.subplots()
    cmap = ListedColormap(colormaps[DIVERGING](range(128, 256))).with_extremes(under=HIGHLIGHT)
    image = ax.imshow(dlogits, cmap=cmap, vmin=0, vmax=limit, aspect="auto")
    ax.plot(Yb.tolist(), range(n), "^", color="black", markersize=4)  # so that it can be told in grey
    ax.set_xticks(range(V), list(VOCAB), **LETTER)
    ax.set_yticks(range(n), [f"{c} → {VOCAB[y]}" for c, y in zip(contexts, Yb.tolist())], **LETTER)
    ax.tick_params(length=0)
    ax.set(xlabel="letter whose logit it is", ylabel="example: context → target")
    ax.set_title("dlogits: in each row one cell is pulled up (yellow, ▲), the rest down (purple)")
    bar = fig.colorbar(image, ax=ax, extend="min", fraction=0.05, pad=0.02)
    lowest = f"{dlogits.min().item():.4f}".replace("-", "−")
    bar.set_label(f"dlogits (the yellow cells reach {lowest})")
    alt = (
        f"An image of {n} rows and {V} columns. Each row holds one yellow cell, marked with a triangle, at its target, where the "
        f"gradient is negative; the other cells are purple in different shades, where it is positive."
    )
    return picture(fig, alt)


def one_row(probs, dlogits, target, context):
    """One row of probs, and below it the same row of dlogits, over the letters."""
    fig = figure(8, 4.6)
    above, below = fig.subplots(2, 1)
    above.bar(range(len(VOCAB)), probs.tolist(), color=FORWARD)[target].set(edgecolor=HIGHLIGHT, linewidth=2)
    bars = below.bar(range(len(VOCAB)), dlogits.tolist(), color=GRADIENT)
    bars[target].set_color(HIGHLIGHT)
    for ax in (above, below):
        _letters(ax, target)
    above.set(
        ylabel="probs",
        title=f"context {context}: what the network says, the true next letter is {VOCAB[target]}",
    )
    below.set(
        ylabel="dlogits",
        xlabel="letter",
        title="what the gradient says: the bars above over n, minus 1/n at the target",
    )
    below.legend(
        handles=[Patch(color=HIGHLIGHT, label="pulled up"), Patch(color=GRADIENT, label="pushed down")],
        loc="lower right",
    )
    alt = (
        f"Above, the 27 probabilities of one row. Below, dlogits of that row: a long bar down at the target "
        f"{VOCAB[target]}; at every other letter a short bar up, in the proportions of the probabilities above."
    )
    return picture(fig, alt)
