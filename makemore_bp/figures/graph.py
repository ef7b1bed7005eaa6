"""The graph of the forward pass: a map (`where`), and the large drawing with every shape (`model_graph`)."""

from typing import NamedTuple

from matplotlib.colors import to_rgb
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from ..rules import GRADIENTS, STEPS
from .style import (
    BATCH_SUM,
    FORWARD,
    GRADIENT,
    HIGHLIGHT,
    MUTED,
    MUTED_INK,
    PARAMETER,
    figure,
    moving,
    picture,
)

# Where each node stands on the map: x and y of its centre, in pixels, before `_fold`.
PLACES = {
    "C": (22, 150), "emb": (22, 100), "embcat": (77, 100), "hprebn": (139, 100),
    "W1": (120, 150), "b1": (150, 150), "bnmeani": (202, 58), "bndiff": (234, 100),
    "bndiff2": (265, 58), "bnvar": (305, 22), "bnvar_inv": (355, 58), "bnraw": (324, 100),
    "bngain": (345, 150), "bnbias": (402, 150), "hpreact": (396, 100), "h": (450, 100),
    "W2": (480, 150), "b2": (511, 150), "logits": (499, 100), "logit_maxes": (580, 58),
    "norm_logits": (596, 100), "counts": (676, 100), "counts_sum": (676, 58),
    "counts_sum_inv": (782, 58), "probs": (744, 100), "logprobs": (808, 100), "loss": (873, 100),
}  # fmt: skip
REGIONS = {  # the parts of the model: left and right edge
    "first layer": (2, 166),
    "BatchNorm": (170, 428),
    "tanh, second layer": (432, 528),
    "cross-entropy": (532, 842),
    "loss": (846, 898),
}
CROSS_ENTROPY = GRADIENTS[:8]
BATCHNORM = GRADIENTS[14:21]  # the seven that become one line; gain and bias keep their own
TOGETHER = {7: CROSS_ENTROPY, 8: BATCHNORM, 9: BATCHNORM} | dict.fromkeys(range(10, 14), GRADIENTS)


def where(notebook, lit=None):
    """The map of the graph, for the top of a notebook.

    Lit is what the notebook derives (or the names given as `lit`), filled what is derived already.
    """
    if lit is None:
        lit = TOGETHER.get(notebook) or [name for name in GRADIENTS if STEPS[name].notebook == notebook]
    done = [name for name in GRADIENTS if STEPS[name].notebook < notebook and name not in lit]
    looks = dict.fromkeys(PLACES, VALUE if notebook == 1 else TO_COME)
    looks |= dict.fromkeys(done, DERIVED) | dict.fromkeys(lit, LIT)
    if notebook > 2:
        looks["loss"] = DERIVED  # its own gradient is 1
    return _map(looks, _alt(notebook, lit, done + ["loss"] * (notebook > 2)))


def stored(names):
    """The map with those values lit that autograd keeps for the backward pass."""
    kept = [name for name in PLACES if name in names]
    looks = dict.fromkeys(PLACES, LEFT_OUT) | dict.fromkeys(kept, KEPT)
    return _map(looks, f"Map of the forward pass with the values lit that are kept: {', '.join(kept)}.")


def flowing_back():
    """The gradient on its way back through the map, a gradient at a time; an animation."""
    now, known = LIT._replace(what="gradient: computed now"), DERIVED._replace(what="gradient: known")
    legend = known, now, VALUE
    figures = [_drawn(dict.fromkeys(PLACES, known), legend)]
    for k, name in enumerate(GRADIENTS):
        looks = {"loss": known} | dict.fromkeys(GRADIENTS[:k], known) | {name: now}
        figures.append(_drawn(dict.fromkeys(PLACES, VALUE) | looks, legend))
    alt = "Map of the forward pass. Beginning at the loss, one box after the other is lit: "
    return moving(figures, alt + ", ".join(GRADIENTS) + ".", [2500] + [600] * len(GRADIENTS))


def model_graph(v):
    """The large drawing, on two lines: every value of the pass v with its own shape, the batch axis marked."""
    fig, ax = _canvas(900, 550)
    for name, (left, right) in REGIONS.items():
        (x, y), (x2, y2) = _unfold(left, 0), _unfold(right - 1, 180)
        _region(ax, x, x2, y, y2)
        ax.text(x + 8, y + 6, name, ha="left", va="bottom", fontsize=10, color="#404040")
    boxes = {}
    for name, place in PLACES.items():
        shape = tuple(getattr(v, name).shape)
        batch = STEPS[name].shape.startswith("n")
        if batch and shape[0] != v.n:
            raise ValueError(f"{name} should have one row per example and has the shape {shape}.")
        place = (WIDER.get(name, place[0]), place[1])
        size = {"size": 10, "height": 38, "shape": shape, "batch": batch}
        look = PLAIN_PARAMETER if STEPS[name].group == "parameter" else VALUE
        boxes[name] = _box(ax, *_unfold(*place), name, look, **size)
    _arrows(ax, boxes, but=("hpreact", "h"))
    _wrap(ax, boxes["hpreact"], boxes["h"], y=274)
    ax.text(28, 10, "n", **CHIP, fontsize=10, ha="center", va="center")
    ax.text(44, 10, "batch axis: one entry per example", fontsize=10, va="center", color="#404040")
    _legend_box(ax, 310, 10, "white", PARAMETER, "round: a parameter, one copy for all rows", 10, round=True)
    with_batch = [name for name in PLACES if STEPS[name].shape.startswith("n")]
    alt = (
        f"The graph of the forward pass on two lines, each node with its shape. A batch axis of {v.n} have: "
    )
    return picture(fig, alt + ", ".join(with_batch) + ". All others have none.")


WIDER = {"C": 29, "emb": 29, "embcat": 88, "h": 453, "W2": 477, "b2": 512}  # shapes need more room than names


def _unfold(x, y):
    """A place on the map becomes one on the large drawing: its right half goes below its left half."""
    return (2 + 2.08 * x, 286 + 1.44 * y) if x < 430 else (12 + 1.9 * (x - 432), 24 + 1.36 * y)


def _map(looks, alt):
    return picture(_drawn(looks), alt)


def _drawn(looks, legend=None):
    fig, ax = _canvas(476, 360)
    for name, (left, right) in REGIONS.items():
        (x, bottom), (x2, top) = _fold(left, 6 if left < 430 else 24), _fold(right - 1, 168)
        _region(ax, x, x2, bottom, top)
        name = name.replace(", ", ",\n")
        ax.text(x + 5, bottom + 4, name, ha="left", va="bottom", fontsize=8.5, color="#404040")
    boxes = {name: _box(ax, *_fold(*place), name, looks[name]) for name, place in PLACES.items()}
    _arrows(ax, boxes, but=("hpreact", "h"))
    _wrap(ax, boxes["hpreact"], boxes["h"], y=187)
    entries = [
        (look.face, look.edge, look.what, 8.5, False) for look in legend or dict.fromkeys(looks.values())
    ]
    entries.append(("white", PARAMETER, "round: a parameter", 8.5, True))
    for k, entry in enumerate(entries):
        _legend_box(ax, 6 + 236 * (k % 2), 11 + 18 * (k < 2), *entry)
    return fig


def _fold(x, y):
    """A place on a map of one line becomes one on two, narrow enough for a telephone."""
    return (x + 23, y + 188) if x < 430 else (x - 427, y + 12)


class Look(NamedTuple):
    what: str  # said in the legend
    face: object
    edge: str
    text: str = "black"
    weight: str = "normal"


def _tint(colour, strength):
    """The colour mixed with white."""
    return tuple(1 - (1 - channel) * strength for channel in to_rgb(colour))


LIT = Look("gradient: this notebook", HIGHLIGHT, "black", weight="bold")
DERIVED = Look("gradient: derived already", _tint(GRADIENT, 0.3), GRADIENT)
VALUE = Look("value of the forward pass", _tint(FORWARD, 0.12), FORWARD)
PLAIN_PARAMETER = Look("parameter", _tint(PARAMETER, 0.12), PARAMETER)
TO_COME = Look("gradient: still to come", "white", MUTED, text=MUTED_INK)
KEPT = Look("kept for the backward pass", _tint(FORWARD, 0.4), FORWARD, weight="bold")
LEFT_OUT = TO_COME._replace(what="not kept")
CHIP = {
    "bbox": {"facecolor": _tint(BATCH_SUM, 0.6), "edgecolor": "none", "boxstyle": "round,pad=0.15"},
    "fontfamily": "DejaVu Sans Mono",
    "fontweight": "bold",
}


def _canvas(width, height):
    fig = figure(width / 100, height / 100)
    fig.set_layout_engine("none")
    ax = fig.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(0, height))
    ax.axis("off")
    return fig, ax


def _region(ax, left, right, bottom, top):
    style = {"boxstyle": "round,pad=0,rounding_size=6", "facecolor": "#F2F2F2", "edgecolor": "none"}
    ax.add_patch(FancyBboxPatch((left, bottom), right - left, top - bottom, zorder=0, **style))


def _box(ax, x, y, name, look, size=8, height=20, shape=None, batch=False):
    parameter = STEPS[name].group == "parameter"
    numbers = [str(number) for number in shape] if shape else ["scalar"]
    letter = 0.84 * size  # the width of one, in pixels
    widest = max(len(name), len(" × ".join(numbers)) if shape is not None else 0)
    width = max(letter * widest + (6 if shape is None else 14), height)
    style = f"round,pad=0,rounding_size={min(0.49 * height, 12) if parameter else 1}"
    box = FancyBboxPatch((x - width / 2, y - height / 2), width, height, boxstyle=style, zorder=2)
    edge = PARAMETER if parameter else look.edge
    box.set(facecolor=look.face, edgecolor=edge, linewidth=1.8 if parameter or look in (LIT, KEPT) else 1)
    ax.add_patch(box)
    font = {
        "fontfamily": "DejaVu Sans Mono",
        "fontsize": size,
        "color": look.text,
        "ha": "center",
        "va": "center",
    }
    ax.text(x, y + (9 if shape is not None else 0), name, zorder=3, fontweight=look.weight, **font)
    if shape is not None:
        start = x - letter * len(" × ".join(numbers)) / 2
        if batch:
            first = start + letter * len(numbers[0]) / 2
            ax.text(first, y - 9, numbers[0], zorder=3, **(font | CHIP))
            numbers[0] = " " * len(numbers[0])
        ax.text(x, y - 9, " × ".join(numbers), zorder=4, **font)
    return box


def _arrows(ax, boxes, but=()):
    for step in STEPS.values():
        for source in step.reads:
            if (source, step.name) != but:
                _arrow(ax, boxes[source], boxes[step.name])


ARROW = {"arrowstyle": "-|>", "mutation_scale": 7, "color": "#606060", "linewidth": 0.8, "zorder": 1}


def _centre(box):
    return box.get_x() + box.get_width() / 2, box.get_y() + box.get_height() / 2


def _arrow(ax, a, b):
    arrow = FancyArrowPatch(_centre(a), _centre(b), patchA=a, patchB=b, shrinkA=0, shrinkB=1, **ARROW)
    ax.add_artist(arrow)  # as add_patch, in half the time: the limits stand already


def _wrap(ax, a, b, y):
    """An arrow that goes on from one line of the drawing to the next, through the gap at height y."""
    (ax0, ay0), (bx0, by0) = _centre(a), _centre(b)
    corners = [(ax0, ay0), (ax0, y), (bx0, y), (bx0, by0 + b.get_height() / 2 + 1)]
    ax.add_patch(FancyArrowPatch(path=Path(corners), **ARROW))


def _legend_box(ax, x, y, face, edge, what, size, round=False):
    box = FancyBboxPatch((x, y - 5), 16, 10, boxstyle=f"round,pad=0,rounding_size={4.9 if round else 1}")
    box.set(facecolor=face, edgecolor=edge, linewidth=1.8 if round or face == HIGHLIGHT else 1)
    ax.add_patch(box)
    ax.text(x + 22, y, what, ha="left", va="center", fontsize=size, color="#404040")


def _alt(notebook, lit, done):
    text = f"Map of the forward pass: {len(PLACES)} nodes, on two lines, from C and emb to hpreact, from h to loss."
    if notebook == 1:
        return text + " All of them are this notebook's subject."
    text += f" Lit, this notebook's gradients: {_names(lit)}."
    return text + f" Filled, derived already: {_names(done)}."


def _names(names):
    return "all 26" if len(names) == len(GRADIENTS) else ", ".join(names) or "none"
