"""The benchmark compares what computes the same; and what is missing is left out with a word."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
import loops  # noqa: E402

from makemore_bp import load  # noqa: E402

COMPILED_LATE = ("torch.compile", "JAX")  # minutes of compiling: `make bench` checks these itself


@pytest.fixture(scope="module")
def data():
    return load()


@pytest.fixture(scope="module")
def reference(data):
    return loops.Backward(data, 20, 1).steps(150)


@pytest.mark.parametrize("name", [name for name in loops.LOOPS if not name.startswith(COMPILED_LATE)])
def test_the_same_losses(data, reference, name):
    try:
        loop = loops.LOOPS[name](data, 20, 1)
    except loops.Missing as error:
        pytest.skip(str(error))
    assert loop.steps(150) == pytest.approx(reference, abs=1e-4)
    loop.start()
    assert loop.steps(3) == pytest.approx(reference[:3], abs=1e-4)  # from the beginning again


def test_no_compiler(data, monkeypatch):
    monkeypatch.setenv("PATH", "")
    for loop in (loops.InC, loops.Compiled):
        with pytest.raises(loops.Missing, match="there is no C"):
            loop(data, 20, 1)


def test_the_multiply_adds_are_those_of_the_six_products():
    assert loops.multiply_adds(200) == 1_094_400
    loops.products(200)()
