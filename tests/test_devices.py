"""Another device, or another default: everything is drawn on the CPU, so that each starts from the same numbers."""

import pytest
import torch

from makemore_bp import cmp, draw, forward, load
from makemore_bp.backward import backward_all, backward_six
from makemore_bp.loop import StepCheck
from makemore_bp.model import calibrate, evaluate, forward_merged, minibatch, sample
from makemore_bp.rules import GRADIENTS
from makemore_bp.train import train
from makemore_bp.train_numpy import train as train_numpy

DATA = load()


def missing(device):
    """Why nothing can be computed there, if so."""
    try:
        torch.ones(1, device=device) + 1
    except Exception as error:  # by the device: AssertionError, RuntimeError, NotImplementedError
        return f"no {device} here ({str(error).strip().splitlines()[0]})"


MISSING = {device: missing(device) for device in ("cuda", "mps")}


def everything(device="cpu", dtype=torch.float32):
    """All that the package computes, as tensors on the CPU and texts."""
    params, g = draw(6, dtype=dtype, device=device)
    start = [p.detach().clone() for p in params]
    Xb, Yb = (t.to(device) for t in minibatch(DATA.Xtr, DATA.Ytr, g))
    v = forward(params, Xb, Yb)
    v.loss.backward()
    cmp.watch(v)
    hand = backward_all(v)
    results = {name: cmp(name, getattr(hand, name), getattr(v, name)) for name in GRADIENTS}
    wrong = cmp("hpreact", cmp.given("h"), v.hpreact)
    m = forward_merged(params, Xb, Yb)
    check = StepCheck(params)
    check.begin(Xb, Yb)
    six = backward_six(m)
    with torch.no_grad():
        for p, gradient in zip(params, six, strict=True):
            p -= 0.1 * gradient
    check.end(list(six), 0.1)
    stats = calibrate(params, DATA.Xtr[:500].to(device))
    val = evaluate(params, stats, DATA.Xval[:500].to(device), DATA.Yval[:500].to(device))
    assert check, check  # every gradient true, and the update by it
    of_note = [
        gradient for name, gradient in six._asdict().items() if name != "b1"
    ]  # whose own is rounding noise
    tensors = [*start, Xb, Yb, *params, v.loss, *of_note, *stats]
    agree = sum(bool(result) for result in results.values())
    return [t.detach().cpu() for t in tensors], val, sample(params, stats, 3), agree, bool(wrong), wrong.cause


def same(first, second):
    return first[1:] == second[1:] and all(
        torch.equal(a, b) for a, b in zip(first[0], second[0], strict=True)
    )


def test_whatever_pytorchs_default_device_is():
    usual = everything()
    assert usual[3:5] == (26, False)
    with torch.device("meta"):  # where there are no numbers
        assert same(everything(), usual)


@pytest.mark.parametrize("how", ["hand", "numpy"])
def test_a_training_whatever_the_default_device_is(how):
    run = (
        (lambda: train_numpy(DATA, 5, progress=False))
        if how == "numpy"
        else lambda: train(DATA, how, 5, progress=False)
    )
    usual = run()
    with torch.device("meta"):
        other = run()
    for a, b in zip([*usual.params, *usual.stats], [*other.params, *other.stats], strict=True):
        assert torch.equal(a, b)


def up_to_rounding(first, second):
    """The same weights and batch to the last bit; then the same up to rounding, which is each device's own."""
    (here, val, *_), (there, val_there, *_) = first, second
    assert all(torch.equal(a, b.to(a.dtype)) for a, b in zip(here[:9], there[:9], strict=True))
    for a, b in zip(here, there, strict=True):
        a, b = a.double(), b.double()
        assert (a - b).norm() <= 1e-4 * b.norm()
    assert val == pytest.approx(val_there, rel=1e-4)


def test_in_another_dtype():
    up_to_rounding(everything(dtype=torch.float64), everything())


@pytest.mark.parametrize("device", MISSING)
def test_on_an_accelerator(device):
    if MISSING[device]:
        pytest.skip(MISSING[device])
    dtype = torch.float64 if device == "cuda" else torch.float32  # MPS has no float64
    up_to_rounding(everything(dtype=dtype), everything(device, dtype))


@pytest.mark.skipif(MISSING["mps"] is not None, reason="no MPS device here")
def test_float64_on_mps_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="device 'mps' cannot be used here: "):
        draw(device="mps", dtype=torch.float64)


def test_a_dtype_the_device_does_not_have(monkeypatch):
    def empty(*_, device, dtype):
        raise TypeError("this device has no float64.\nMore lines.")

    monkeypatch.setattr(torch, "empty", empty)
    with pytest.raises(ValueError, match="^device 'cpu' cannot be used here: this device has no float64.$"):
        draw(dtype=torch.float64)
