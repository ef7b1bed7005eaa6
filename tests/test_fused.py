"""The two fused forms, against autograd and the atomic route, and BatchNorm's backward as a projection."""

import pytest
import torch
from conftest import make_batch, make_params, make_pass
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from makemore_bp import backward_all
from makemore_bp.backward import bn_backward, cross_entropy_backward
from makemore_bp.model import forward, forward_merged

seeds = st.integers(0, 2**32 - 1)
epsilons = st.sampled_from([0.0, 1e-5, 1e-3])
fast = settings(max_examples=60, deadline=None, derandomize=True)


def randn(*shape, seed, scale=1.0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


@fast
@given(
    n=st.integers(1, 40), vocab=st.integers(1, 40), scale=st.sampled_from([1e-3, 1.0, 30.0, 1e4]), seed=seeds
)
def test_cross_entropy_against_pytorchs_own(n, vocab, scale, seed):
    logits = (randn(n, vocab, seed=seed).clamp(-1, 1) * scale).requires_grad_()
    Yb = torch.randint(vocab, (n,), generator=torch.Generator().manual_seed(seed))
    F.cross_entropy(logits, Yb).backward()
    before = logits.detach().clone()
    found = cross_entropy_backward(logits.detach(), Yb)
    assert found.isfinite().all() and found.shape == logits.shape
    # measured against 1/n, the size of one row's pull: where every row is already certain the truth is 0
    assert (found - logits.grad).norm() <= 1e-12 * max(logits.grad.norm().item(), 1 / n)
    assert torch.equal(before, logits)


@fast
@given(n=st.integers(2, 40), hidden=st.integers(1, 12), vocab=st.integers(2, 30), seed=st.integers(0, 10**6))
def test_fused_against_the_atomic_route(n, hidden, vocab, seed):
    v = make_pass(n=n, hidden=hidden, vocab=vocab, seed=seed)
    d = backward_all(v)
    with torch.no_grad():
        dlogits = cross_entropy_backward(v.logits, v.Yb)
        dhprebn = bn_backward(d.hpreact, v.bnraw, v.bngain, v.bnvar_inv)
    assert (dlogits - d.logits).norm() <= 1e-12 * d.logits.norm()
    assert (dhprebn - d.hprebn).norm() <= 1e-12 * (v.bngain * v.bnvar_inv * d.hpreact).norm()


def batchnorm(x, gain, bias, eps, divisor):
    centred = x - x.mean(0, keepdim=True)
    inverse = ((centred**2).sum(0, keepdim=True) / divisor + eps) ** -0.5
    return gain * centred * inverse + bias, centred * inverse, inverse


@fast
@given(
    n=st.integers(2, 40),
    hidden=st.integers(1, 12),
    gain=st.sampled_from([1.0, -0.7, 1e-8, 0.0]),
    eps=epsilons,
    spread=st.sampled_from([1.0, 1e-2, 1e-4]),
    biased=st.booleans(),
    seed=seeds,
)
def test_batchnorm_against_autograd(n, hidden, gain, eps, spread, biased, seed):
    """Both conventions; with spread small the column is nearly constant around 1."""
    x = (randn(n, hidden, seed=seed, scale=spread) + 1).requires_grad_()
    gains = torch.full((1, hidden), gain, dtype=torch.float64)
    dy, divisor = randn(n, hidden, seed=seed + 1), n if biased else n - 1
    y, raw, inverse = batchnorm(x, gains, 0.0, eps, divisor)
    y.backward(dy)
    with torch.no_grad():
        found = bn_backward(dy, raw, gains, inverse, divisor)
        # nearly constant columns lose digits when the mean is taken away
        lost = 1 + (x.mean(0).abs() / x.std(0)).max()
        assert (found - x.grad).norm() <= 1e-12 * lost * (gains * inverse * dy).norm()


@fast
@given(n=st.integers(2, 40), hidden=st.integers(1, 12), eps=st.sampled_from([1e-12, 1e-5, 1e-3]), seed=seeds)
def test_biased_batchnorm_against_pytorchs_own(n, hidden, eps, seed):
    x, dy = randn(n, hidden, seed=seed).requires_grad_(), randn(n, hidden, seed=seed + 1)
    gain = randn(1, hidden, seed=seed + 2)
    F.batch_norm(x, None, None, gain[0], None, training=True, eps=eps).backward(dy)
    with torch.no_grad():
        _, raw, inverse = batchnorm(x, gain, 0.0, eps, n)
        found = bn_backward(dy, raw, gain, inverse, divisor=n)
        lost = 1 + (x.mean(0).abs() / x.std(0)).max()
        assert (found - x.grad).norm() <= 1e-12 * lost * (gain * inverse * dy).norm()


def matrix(n, eps, divisor, seed=0):
    """BatchNorm's backward for one column as an (n, n) matrix: one fused backward pass per unit vector."""
    a = randn(n, 1, seed=seed)
    _, raw, inverse = batchnorm(a, 1.0, 0.0, eps, divisor)
    ones = torch.ones(1, n, dtype=torch.float64)
    columns = bn_backward(torch.eye(n, dtype=torch.float64), raw.expand(n, n), ones, ones * inverse, divisor)
    return columns / inverse, inverse.item()


@pytest.mark.parametrize("n", [2, 3, 32])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("eps", [0.0, 1e-5, 1e-3])
def test_projection(n, biased, eps):
    P, inverse = matrix(n, eps, n if biased else n - 1)
    assert torch.allclose(P, P.T, rtol=0, atol=1e-13)
    eigenvalues = torch.linalg.eigvalsh(P)
    expected = torch.tensor([0.0, eps * inverse**2] + [1.0] * (n - 2), dtype=torch.float64)
    assert torch.allclose(eigenvalues, expected, rtol=0, atol=1e-13)
    if eps == 0:
        assert torch.allclose(P @ P, P, rtol=0, atol=1e-13)
    else:
        assert not torch.allclose(P @ P, P, rtol=0, atol=eps / 100)


def test_what_is_left_along_the_scale_is_eps_over_s_cubed():
    n, eps = 32, 1e-5
    v = make_pass(n=n, hidden=8)
    with torch.no_grad():
        found = bn_backward(v.hpreact.grad, v.bnraw, v.bngain, v.bnvar_inv)
        left = (v.bnraw * found).sum(0)
        exact = v.bngain[0] * eps * v.bnvar_inv[0] ** 3 * (v.bnraw * v.hpreact.grad).sum(0)
    assert (left - exact).norm() <= 1e-9 * exact.norm()


def test_merged_forward_is_the_atomic_one():
    params, (Xb, Yb) = make_params(hidden=16), make_batch()
    atomic, merged = forward(params, Xb, Yb), forward_merged(params, Xb, Yb)
    for name in vars(merged):
        mine, theirs = getattr(merged, name), getattr(atomic, name)
        if isinstance(mine, torch.Tensor) and mine.dtype == torch.float64:
            assert mine.shape == theirs.shape, name
            assert (mine - theirs).norm() <= 1e-13 * theirs.norm(), name


@pytest.mark.parametrize("n", [2, 32, 33])
def test_a_constant_column_without_eps_is_refused(n):
    params, (Xb, Yb) = make_params(hidden=4), make_batch(n)
    with torch.no_grad():
        params.W1[:, 2] = 0
    with pytest.raises(ValueError, match="constant over the batch"):
        forward_merged(params, Xb, Yb, eps=0)
    with pytest.raises(ValueError, match="constant over the batch"):
        forward(params, Xb, Yb, eps=0)
    assert forward(params, Xb, Yb).loss.isfinite()
