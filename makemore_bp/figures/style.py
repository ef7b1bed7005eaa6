"""One hand for all figures: colours that keep their meaning, sizes, and the way a figure becomes an output."""

import io

from IPython.display import Image
from matplotlib import rcParams
from matplotlib.figure import Figure
from PIL import Image as Pixels

# Okabe and Ito's palette, told apart by colour-blind readers and in print
FORWARD = "#0072B2"  # forward values
GRADIENT = "#D55E00"  # gradients
PARAMETER = "#009E73"  # parameters
BATCH_SUM = "#CC79A7"  # sums over the batch
HIGHLIGHT = "#E69F00"  # what the text is about right now
MUTED = "#8C8C8C"  # everything in the background
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


def figure(width=7.5, height=3.5, **layout):
    """An empty matplotlib Figure of the house's style, width and height in inches."""
    return Figure(figsize=(width, height), layout="constrained", **layout)


def picture(fig, alt):
    """The finished figure as a PNG output with its alternative text; last expression of a cell."""
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=150)
    return Image(buffer.getvalue(), width=round(fig.get_figwidth() * 100), alt=alt)


def moving(figures, alt, milliseconds):
    """A short animation, repeated without end, as a PNG output; where PNGs don't move, its first figure.

    milliseconds: how long each figure stays, a number, or a list with one for each.
    """
    frames = [_frame(fig) for fig in figures]
    # few colours, the same in all frames: a tenth of the size
    palette = _together(frames).quantize(64)
    first, *others = (frame.quantize(palette=palette, dither=Pixels.Dither.NONE) for frame in frames)
    buffer = io.BytesIO()
    first.save(
        buffer,
        format="png",
        save_all=True,
        append_images=others,
        duration=milliseconds,
        loop=0,
        optimize=True,
    )
    return Image(buffer.getvalue(), width=first.width, alt=alt)


def _frame(fig):
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=100)
    return Pixels.open(buffer).convert("RGB")


def _together(frames):
    """All frames below one another."""
    width, height = frames[0].size
    tall = Pixels.new("RGB", (width, height * len(frames)))
    for k, frame in enumerate(frames):
        tall.paste(frame, (0, k * height))
    return tall
