"""The graph of the forward pass: a map (`where`), and the large drawing with every shape (`model_graph`)."""

from typing import NamedTuple

from matplotlib.colors import to_rgb
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from ..rules import GRADIENTS, STEPS
from .style import FORWARD, GRADIENT, HIGHLIGHT, MUTED, PARAMETER, figure, picture

# Where each node stands on the map: x and y of its centre, in pixels of a map 900 wide.
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
TOGETHER = {7: CROSS_ENTROPY, 8: BATCHNORM, 9: BATCHNORM, 10: GRADIENTS, 11: GRADIENTS, 12: GRADIENTS}


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
    fig, ax = _canvas(900, 222)
    for name, edges in REGIONS.items():
        _region(ax, name, *edges, 24, 200)
    boxes = {
        name: _box(ax, x, y + 24, name, looks[name], STEPS[name].group == "parameter")
        for name, (x, y) in PLACES.items()
    }
    _arrows(ax, boxes)
    _legend(ax, {look.what: look for look in looks.values()})
    return picture(fig, _alt(notebook, lit, done))


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
TO_COME = Look("gradient: still to come", "white", MUTED, text="#595959")


def _canvas(width, height):
    fig = figure(width / 100, height / 100)
    fig.set_layout_engine("none")
    ax = fig.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(0, height))
    ax.axis("off")
    return fig, ax


def _region(ax, name, left, right, bottom, top):
    style = {"boxstyle": "round,pad=0,rounding_size=6", "facecolor": "#F2F2F2", "edgecolor": "none"}
    ax.add_patch(FancyBboxPatch((left, bottom), right - left, top - bottom, zorder=0, **style))
    ax.text((left + right) / 2, top + 4, name, ha="center", va="bottom", fontsize=8.5, color="#404040")


def _box(ax, x, y, name, look, parameter=False, size=8, height=20):
    width = max(0.84 * size * len(name) + 6, height)
    style = f"round,pad=0,rounding_size={0.49 * height if parameter else 1}"
    box = FancyBboxPatch((x - width / 2, y - height / 2), width, height, boxstyle=style, zorder=2)
    edge = PARAMETER if parameter else look.edge
    box.set(facecolor=look.face, edgecolor=edge, linewidth=1.8 if parameter or look is LIT else 1)
    ax.add_patch(box)
    font = {"family": "DejaVu Sans Mono", "fontsize": size, "color": look.text, "fontweight": look.weight}
    ax.text(x, y, name, ha="center", va="center", zorder=3, **font)
    return box


def _arrows(ax, boxes):
    for step in STEPS.values():
        for source in step.reads:
            _arrow(ax, boxes[source], boxes[step.name])


def _arrow(ax, a, b):
    centres = [(p.get_x() + p.get_width() / 2, p.get_y() + p.get_height() / 2) for p in (a, b)]
    look = {"arrowstyle": "-|>", "mutation_scale": 7, "color": "#606060", "linewidth": 0.8, "zorder": 1}
    ax.add_patch(FancyArrowPatch(*centres, patchA=a, patchB=b, shrinkA=0, shrinkB=1, **look))


def _legend(ax, looks, y=11):
    x = 10
    for what, look in looks.items():
        box = FancyBboxPatch((x, y - 5), 16, 10, boxstyle="round,pad=0,rounding_size=1")
        box.set(facecolor=look.face, edgecolor=look.edge, linewidth=1.6 if look is LIT else 1)
        ax.add_patch(box)
        ax.text(x + 22, y, what, ha="left", va="center", fontsize=8.5, color="#404040")
        x += 190
    box = FancyBboxPatch((x, y - 5), 16, 10, boxstyle="round,pad=0,rounding_size=4.9")
    box.set(facecolor="white", edgecolor=PARAMETER, linewidth=1.6)
    ax.add_patch(box)
    ax.text(x + 22, y, "round: a parameter", ha="left", va="center", fontsize=8.5, color="#404040")


def _alt(notebook, lit, done):
    text = f"Map of the forward pass: {len(PLACES)} nodes from C and emb on the left to loss on the right."
    if notebook == 1:
        return text + " All of them are this notebook's subject."
    text += f" Lit, this notebook's gradients: {', '.join(lit) or 'none'}."
    return text + f" Filled, derived already: {', '.join(done) or 'none'}."
