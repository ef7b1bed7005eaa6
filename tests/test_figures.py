"""The figures that move: the same bytes each time, small enough to store, and with a still picture first."""

import io

import pytest
import torch
from PIL import Image

from makemore_bp.figures import graph, projection
from makemore_bp.figures.style import figure, moving
from makemore_bp.rules import GRADIENTS


def projected():
    one, a_hat = torch.ones(3), torch.tensor([-1.0, 0.0, 1.0])
    points = torch.randn(3, 60, generator=torch.Generator().manual_seed(9))
    without_one, normal = points - points.mean(0), torch.tensor([1.0, -2.0, 1.0])
    left = torch.outer(normal, normal @ points) / 6
    return projection.taken_away(one, a_hat, points, without_one, left, stops=4)


@pytest.mark.parametrize(
    "draw, frames", [(graph.flowing_back, 1 + len(GRADIENTS)), (projected, 21)], ids=["flowing", "taken away"]
)
def test_animations(draw, frames):
    shown, again = draw(), draw()
    assert shown.data == again.data and len(shown.data) < 400_000
    picture = Image.open(io.BytesIO(shown.data))
    assert picture.format == "PNG" and picture.n_frames == frames and picture.info["loop"] == 0
    assert len(shown.alt) > 100 and 1.5 * shown.width == picture.width


def test_a_still_first_picture_and_the_time_of_each():
    figures = [figure(1, 1) for _ in range(3)]
    figures[1].set_facecolor("black")
    picture = Image.open(io.BytesIO(moving(figures, "white, black, white", [300, 100, 200]).data))
    colours, times = [], []
    for k in range(3):
        picture.seek(k)
        colours.append(picture.convert("L").getpixel((50, 50)))
        times.append(picture.info["duration"])
    assert colours[0] > 250 > 5 > colours[1] and colours[2] > 250 and times == [300, 100, 200]
