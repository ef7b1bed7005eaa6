"""What every run starts from: the weights as they are drawn, the batches, the split."""

import pytest
import torch
from conftest import make_batch, make_params

from makemore_bp import data, draw, forward, load
from makemore_bp.model import SEED, calibrate, forward_merged, minibatch, sample


def drawn_anew(hidden, seed):
    """The same draws without a scale: the generator gives them in this order, BatchNorm's from another one."""
    g, g_bn = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed + 1)
    shapes = {"C": (27, 10), "W1": (30, hidden), "b1": (hidden,), "W2": (hidden, 27), "b2": (27,)}
    plain = {name: torch.randn(shape, generator=g) for name, shape in shapes.items()}
    return plain | {name: torch.randn((1, hidden), generator=g_bn) for name in ("bngain", "bnbias")}, g


@pytest.mark.parametrize("hidden, seed", [(64, SEED), (200, SEED), (5, 0)])
def test_the_weights_are_the_lectures(hidden, seed):
    params, g = draw(hidden, seed)
    plain, g_anew = drawn_anew(hidden, seed)
    scale = {"C": 1, "W1": 5 / 3 / 30**0.5, "b1": 0.1, "W2": 0.1, "b2": 0.1, "bngain": 0.1, "bnbias": 0.1}
    for name, p in params._asdict().items():
        true = plain[name] * scale[name] + (name == "bngain")
        assert p.shape == true.shape and p.requires_grad and p.dtype == torch.float32
        torch.testing.assert_close(p.detach(), true, rtol=1e-6, atol=1e-6)
    assert torch.equal(g.get_state(), g_anew.get_state())  # and goes on from here to the batches


def test_what_is_drawn_if_nothing_is_said():
    params, default = draw()[0], draw(64, SEED, torch.float32, "cpu")[0]
    assert all(torch.equal(a, b) for a, b in zip(params, default, strict=True))


def test_the_same_numbers_in_every_dtype():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        single, double = draw(8)[0], draw(8, dtype=torch.float64)[0]
    finally:
        torch.set_default_dtype(before)
    for a, b in zip(single, double, strict=True):
        assert a.dtype == torch.float32 and b.dtype == torch.float64 and torch.equal(a.double(), b)


def test_another_activation_changes_what_comes_after_it_only():
    params, batch = make_params(), make_batch()
    tanh, relu = forward(params, *batch), forward(params, *batch, activation=torch.relu)
    assert torch.equal(tanh.hpreact, relu.hpreact) and torch.equal(relu.h, relu.hpreact.clamp(min=0))
    assert torch.equal(relu.logits, relu.h @ params.W2 + params.b2)
    relu.loss.backward()
    torch.testing.assert_close(relu.hpreact.grad, relu.h.grad * (relu.hpreact > 0), rtol=1e-12, atol=0)


def test_a_minibatch_holds_pairs_and_takes_all_rows():
    X, Y = torch.arange(10)[:, None].expand(-1, 3), torch.arange(10)
    g = torch.Generator().manual_seed(0)
    Xb, Yb = minibatch(X, Y, g, n=400)
    assert Xb.shape == (400, 3) and torch.equal(Xb[:, 0], Yb) and torch.equal(Yb.unique(), Y)
    assert minibatch(X, Y, g)[1].shape == (32,)


def test_the_split_is_shuffled_with_seed_42(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("\n".join("abcdefghijklmnopqrst"))
    train, val, test = load(path).names
    assert ("".join(train), "".join(val), "".join(test)) == ("tfoejnpsgmrkblcq", "hi", "ad")


@pytest.mark.parametrize(
    "line, says",
    [
        ("", "a blank line between names."),
        ("a.b", "'a.b' holds '.'; '.' marks a name's start and end, so no name may hold it."),
        ("Zoë", "'Zoë' holds 'ë'; only the letters a-z are known."),
    ],
)
def test_what_is_wrong_with_a_line(line, says):
    assert data._complaint(line) == says


def test_names_are_drawn_by_the_seed():
    (params, _), loaded = draw(8), load()
    stats = calibrate(params, loaded.Xtr[:500])
    a, again, b = (sample(params, stats, 5, seed) for seed in (1, 1, 2))
    assert a == again != b and len(a) == 5
    assert all(set(name) <= set(data.VOCAB[1:]) for name in a)


@pytest.mark.parametrize("constant", [0.0, 0.1, 12345.678])
def test_a_constant_column_without_eps(constant):
    """Its variance is 0, or the rounding noise of its mean."""
    params = make_params()
    with torch.no_grad():
        params.W1.zero_()
        params.b1.fill_(constant)
    with pytest.raises(ValueError) as refused:
        forward(params, *make_batch(n=3), eps=0)
    assert str(refused.value) == (
        "a column of hprebn is constant over the batch: with eps = 0 BatchNorm divides by 0."
    )


def test_a_column_that_hardly_varies_is_no_constant_one():
    params = make_params()
    with torch.no_grad():
        params.W1.mul_(1e-9)
        params.b1.fill_(1.0)
    v = forward(params, *make_batch(n=32), eps=0)
    assert v.bnraw.isfinite().all() and v.bnvar.max() < 1e-14


def test_every_value_of_a_merged_pass_is_retained():
    v = forward_merged(make_params(), *make_batch())
    v.loss.backward()
    assert v.hpreact.grad is not None
