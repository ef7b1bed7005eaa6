"""Each of the 26 gradients: against autograd, against finite differences, and by its adjoint."""

from types import SimpleNamespace

import pytest
import torch
from conftest import make_batch, make_params, make_pass

from makemore_bp import backward_all, cmp
from makemore_bp.backward import RULES
from makemore_bp.model import forward
from makemore_bp.rules import GRADIENTS, STEPS, uses


def repeated_letters(params, Xb, Yb):
    Xb[:] = Xb % 2


def repeated_maxima(params, Xb, Yb):
    # equal columns of W2 and entries of b2 make equal logits, here the largest
    params.W2[:, 5] = params.W2[:, 6]
    params.b2[5] = params.b2[6] = 9.0


def large_logits(params, Xb, Yb):
    params.W2.mul_(200)


CASES = {
    "course": dict(n=32, hidden=64),
    "n=2": dict(n=2, hidden=8),
    "one hidden unit": dict(n=32, hidden=1),
    "n no power of two": dict(n=33, hidden=5),
    "n=3, one unit": dict(n=3, hidden=1),
    "other sizes": dict(n=10, hidden=7, vocab=4, embedding=3, context=2),
    "repeated letters": dict(n=16, hidden=8, change=repeated_letters),
    "repeated maxima": dict(n=16, hidden=8, change=repeated_maxima),
    "large logits": dict(n=32, hidden=8, change=large_logits),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", CASES)
def test_against_autograd(case, seed):
    v = make_pass(**CASES[case], seed=seed)
    assert v.loss.isfinite()
    d = backward_all(v)
    cmp.watch(v)
    rows = [cmp(name, getattr(d, name), getattr(v, name)) for name in GRADIENTS]
    assert len(rows) == 26
    assert all(rows), [str(row) for row in rows if not row]


def test_cases_are_what_they_say():
    v = make_pass(**CASES["repeated maxima"])
    assert (v.logits == v.logit_maxes).sum(1).eq(2).all()
    v = make_pass(**CASES["large logits"])
    gap = (v.logit_maxes[:, 0] - v.logits[range(v.n), v.Yb]).max()
    assert 100 < gap < 745


def test_float32_is_exact_on_the_course_batch():
    v = make_pass(n=32, hidden=64, dtype=torch.float32)
    d = backward_all(v)
    assert [name for name in GRADIENTS if not torch.equal(getattr(d, name), getattr(v, name).grad)] == []


@pytest.mark.parametrize("n, hidden", [(6, 4), (2, 3), (5, 1)])
def test_against_finite_differences(n, hidden):
    """Central differences of the loss with respect to every parameter, all through the 26 rules."""
    params, (Xb, Yb) = make_params(hidden, seed=1), make_batch(n, seed=1)
    d = backward_all(forward(params, Xb, Yb))
    step = 1e-6
    for name, p in params._asdict().items():
        estimate = torch.zeros_like(p)
        with torch.no_grad():
            for i in range(p.numel()):
                flat, losses = p.view(-1), []
                for shift in (step, -step):
                    old = flat[i].item()
                    flat[i] = old + shift
                    losses.append(forward(params, Xb, Yb).loss.item())
                    flat[i] = old
                estimate.view(-1)[i] = (losses[0] - losses[1]) / (2 * step)
        found = getattr(d, name)
        # the loss is of the order of 1: its rounding alone moves an estimate by 1e-16 / step
        assert (found - estimate).norm() <= 1e-7 * found.norm() + 2e-9 * found.numel() ** 0.5, name


@pytest.mark.parametrize("name", [n for n in GRADIENTS if not STEPS[n].group == "parameter"])
def test_intermediates_against_finite_differences(name):
    """Nudge one intermediate, run the lines after it again, and see the loss move as the rule says."""
    v = make_pass(n=5, hidden=3, seed=2)
    true = getattr(backward_all(v), name)
    g = torch.Generator().manual_seed(3)
    step = 1e-6
    for _ in range(3):
        direction = torch.randn(true.shape, generator=g, dtype=torch.float64)
        up, down = (_loss_after(v, name, sign * step * direction) for sign in (1, -1))
        assert (up - down) / (2 * step) == pytest.approx((true * direction).sum().item(), rel=1e-6, abs=2e-9)


def _loss_after(v, name, nudge):
    """The loss when `name` is nudged; every later line is evaluated from rules.STEPS as it is written."""
    values = {k: t.detach() if isinstance(t, torch.Tensor) else t for k, t in vars(v).items()}
    values[name] = values[name] + nudge
    moved = {name}
    for step in STEPS.values():
        if moved & set(step.reads):
            values[step.name] = eval(step.line, {"torch": torch, "range": range}, values)
            moved.add(step.name)
    return values["loss"].item()


def test_the_steps_written_as_data_are_the_forward_pass():
    v = make_pass()
    values = {k: getattr(v, k) for k in ("Xb", "Yb", "n", "eps")}
    for step in STEPS.values():
        values[step.name] = eval(step.line, {"torch": torch}, values) if step.line else getattr(v, step.name)
        assert torch.equal(values[step.name], getattr(v, step.name)), step.name


# --- each rule by its adjoint: <J t, w> = <t, transpose(J) w>, with no autograd anywhere.
# TANGENTS[y][x](v, t) is J t for the step that computes y: how y moves when its input x moves along t.

TANGENTS = {
    "emb": {"C": lambda v, t: t[v.Xb]},
    "embcat": {"emb": lambda v, t: t.reshape(v.n, -1)},
    "hprebn": {
        "embcat": lambda v, t: t @ v.W1,
        "W1": lambda v, t: v.embcat @ t,
        "b1": lambda v, t: t.expand(v.n, -1),
    },
    "bnmeani": {"hprebn": lambda v, t: t.mean(0, keepdim=True)},
    "bndiff": {"hprebn": lambda v, t: t, "bnmeani": lambda v, t: -t.expand(v.n, -1)},
    "bndiff2": {"bndiff": lambda v, t: 2 * v.bndiff * t},
    "bnvar": {"bndiff2": lambda v, t: t.sum(0, keepdim=True) / (v.n - 1)},
    "bnvar_inv": {"bnvar": lambda v, t: -0.5 * v.bnvar_inv**3 * t},
    "bnraw": {"bndiff": lambda v, t: v.bnvar_inv * t, "bnvar_inv": lambda v, t: v.bndiff * t},
    "hpreact": {
        "bngain": lambda v, t: t * v.bnraw,
        "bnraw": lambda v, t: v.bngain * t,
        "bnbias": lambda v, t: t.expand(v.n, -1),
    },
    "h": {"hpreact": lambda v, t: t / v.hpreact.cosh() ** 2},
    "logits": {
        "h": lambda v, t: t @ v.W2,
        "W2": lambda v, t: v.h @ t,
        "b2": lambda v, t: t.expand(v.n, -1),
    },
    "logit_maxes": {"logits": lambda v, t: t.gather(1, v.logits.argmax(1, keepdim=True))},
    "norm_logits": {"logits": lambda v, t: t, "logit_maxes": lambda v, t: -t.expand(v.logits.shape)},
    "counts": {"norm_logits": lambda v, t: v.counts * t},
    "counts_sum": {"counts": lambda v, t: t.sum(1, keepdim=True)},
    "counts_sum_inv": {"counts_sum": lambda v, t: -(v.counts_sum**-2) * t},
    "probs": {"counts": lambda v, t: v.counts_sum_inv * t, "counts_sum_inv": lambda v, t: v.counts * t},
    "logprobs": {"probs": lambda v, t: t / v.probs},
    "loss": {"logprobs": lambda v, t: -t[range(v.n), v.Yb].mean()},
}


def test_every_use_has_a_tangent():
    assert {y: set(x) for y, x in TANGENTS.items()} == {
        s.name: set(s.reads) for s in STEPS.values() if s.reads
    }


@pytest.mark.parametrize("sizes", [dict(n=6, hidden=4), dict(n=2, hidden=1), dict(n=9, hidden=3, vocab=4)])
@pytest.mark.parametrize("name", GRADIENTS)
@torch.no_grad()
def test_adjoint(name, sizes):
    v = forward(
        make_params(sizes["hidden"], sizes.get("vocab", 27)), *make_batch(sizes["n"], sizes.get("vocab", 27))
    )
    g = torch.Generator().manual_seed(4)

    def noise(like):
        return torch.randn(like.shape, generator=g, dtype=torch.float64)

    t = noise(getattr(v, name))
    w = SimpleNamespace(**{y: noise(getattr(v, y)) for y in uses(name)})
    if name == "logprobs":
        w.loss = torch.tensor(1.0, dtype=torch.float64)  # the backward pass starts from dloss = 1
    forward_side = [(TANGENTS[y][name](v, t) * getattr(w, y)).sum().item() for y in uses(name)]
    backward_side = (t * RULES[name](v, w)).sum().item()
    assert backward_side == pytest.approx(
        sum(forward_side), rel=1e-12, abs=1e-12 * sum(map(abs, forward_side))
    )


def test_one_row_is_refused():
    with pytest.raises(ValueError, match="a single row has no variance"):
        make_pass(n=1)


@pytest.mark.parametrize("dtype, finite, overflow", [(torch.float32, 85, 104), (torch.float64, 705, 746)])
def test_where_the_atomic_route_ends(dtype, finite, overflow):
    """A target far below its row's maximum: first 1/probs overflows in the backward pass, then probs is 0."""
    near, far = (make_pass(n=4, dtype=dtype, change=target_below_maximum(gap)) for gap in (finite, overflow))
    assert near.logits.grad.isfinite().all() and near.loss.isfinite()
    assert far.loss.isinf() and far.logits.grad.isnan().any()


def target_below_maximum(gap):
    def change(params, Xb, Yb):
        params.W2.zero_()
        params.b2.zero_()
        params.b2[Yb[0]] = -gap

    return change
