"""One hand for all figures: colours that keep their meaning, sizes, and the way a figure becomes an output."""

import io
from re import sub

import numpy as np
from IPython.display import Image
from matplotlib import rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image as Pixels

# Okabe and Ito's palette, told apart by colour-blind readers and in print
FORWARD = "#0072B2"  # forward values
GRADIENT = "#D55E00"  # gradients
PARAMETER = "#009E73"  # parameters
BATCH_SUM = "#CC79A7"  # sums over the batch
FLOAT32, FLOAT64 = "#595959", "black"  # with square and round marks
HIGHLIGHT = "#E69F00"  # what the text is about right now
MUTED = "#8C8C8C"  # everything in the background
# darker, for words in these colours: enough contrast for small letters
GRADIENT_INK, PARAMETER_INK, BATCH_SUM_INK, MUTED_INK = "#B34E00", "#00694C", "#A34E80", "#595959"
DIVERGING = "PuOr"  # signed values, centred on zero: orange and purple
SEQUENTIAL = "cividis"  # values of one sign

STYLE = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",  # opaque, so that it stays readable on a dark page
    "legend.frameon": False,
}
rcParams.update(STYLE)


def minus(text):
    """The text with a true minus sign for each hyphen that stands before a number or between spaces."""
    return sub(r"(?<![\w.])-(?=\d)| - ", lambda found: found[0].replace("-", "\u2212"), text)


DPI = 150  # shown at 100, so that it is sharp on a fine screen


def figure(width=7.5, height=3.5, **layout):
    """An empty matplotlib Figure of the house's style, width and height in inches."""
    return Figure(figsize=(width, height), layout="constrained", **layout)


def picture(fig, alt):
    """The finished figure as a PNG output with its alternative text; last expression of a cell."""
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=DPI)
    return Image(buffer.getvalue(), width=round(fig.get_figwidth() * 100), alt=minus(alt))


def moving(figures, alt, milliseconds):
    """A short animation, repeated without end, as a PNG output; where PNGs don't move, its first figure.

    milliseconds: how long each figure stays, a number, or a list with one for each.
    """
    first, *others = _few_colours([_pixels(fig) for fig in figures])
    how = {"save_all": True, "append_images": others, "duration": milliseconds, "loop": 0, "optimize": True}
    buffer = io.BytesIO()
    first.save(buffer, format="png", **how)
    return Image(buffer.getvalue(), width=round(figures[0].get_figwidth() * 100), alt=minus(alt))


def _pixels(fig):
    fig.set_dpi(DPI)
    canvas = FigureCanvasAgg(fig)
    canvas.draw()  # once; savefig draws twice
    return np.asarray(canvas.buffer_rgba())[..., :3]


def _few_colours(frames, many=96):
    """The frames in their commonest colours, each pixel in the nearest of them: a tenth of the size."""
    codes = np.stack(frames) @ np.array([1 << 16, 1 << 8, 1])  # one number a colour
    count = np.bincount(codes.ravel())
    used = np.flatnonzero(count)
    used = used[np.argsort(-count[used], kind="stable")]
    colours = np.stack([used >> 16, used >> 8 & 255, used & 255], axis=1)
    common = colours[:many]
    place = np.zeros(len(count), np.uint8)
    place[used] = ((colours[:, None] - common) ** 2).sum(2).argmin(1)
    for frame in place[codes]:
        shown = Pixels.fromarray(frame)
        shown.putpalette(common.astype(np.uint8).tobytes())
        yield shown
