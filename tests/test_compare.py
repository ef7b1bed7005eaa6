"""cmp: what it accepts, what it refuses, what it cannot judge, and the sentence it says each time."""

import pytest
import torch
from conftest import make_pass

from makemore_bp import backward_all, cmp, draw, forward, given, load
from makemore_bp.backward import bn_backward, cross_entropy_backward
from makemore_bp.model import minibatch
from makemore_bp.rules import GRADIENTS


def lectures_check(yours, tensor):
    """What the lecture's own comparison decides: allclose, which broadcasts."""
    return torch.allclose(yours, tensor.grad)


@pytest.fixture
def v():
    return make_pass(n=32, hidden=16, dtype=torch.float32)


def test_the_row(v, capsys):
    row = cmp("counts", v.counts.grad.clone(), v.counts)
    assert capsys.readouterr().out == (
        "counts             | exact: True  | approximate: True  | maxdiff: 0.0e+00 | relative: 0.0e+00\n"
    )
    assert row and row.name == "counts" and row.exact and row.approximate
    assert row.maxdiff == row.relative == 0 and row.note == ""


def test_figures_of_a_wrong_row(v):
    row = cmp("counts", 1.5 * v.counts.grad, v.counts)
    assert not row and not row.exact
    assert row.relative == pytest.approx(0.5)
    assert row.maxdiff == pytest.approx(0.5 * v.counts.grad.abs().max().item())


def test_shown_once_in_a_notebook(v):
    assert cmp("counts", v.counts.grad, v.counts)._ipython_display_() is None


@pytest.mark.parametrize("wrong", ["bnmeani", "bndiff2", "b1", "b2", "counts_sum"])
def test_a_shape_that_only_broadcasting_accepts(v, wrong):
    tensor = getattr(v, wrong)
    yours = {
        "bnmeani": lambda g: g.squeeze(0),
        "bndiff2": lambda g: g[:1],
        "b1": lambda g: g[None],
        "b2": lambda g: g[None],
        "counts_sum": lambda g: g.expand(-1, 27),
    }[wrong](tensor.grad)
    assert lectures_check(yours, tensor)
    row = cmp(wrong, yours, tensor)
    assert not row and row.maxdiff is None
    assert row.note.startswith(f"the shape is {tuple(yours.shape)} and should be {tuple(tensor.shape)}")


def test_same_number_of_entries_is_not_the_same_shape(v):
    assert not cmp("W1", v.W1.grad.T.contiguous(), v.W1)
    assert not cmp("counts_sum", v.counts_sum.grad.flatten(), v.counts_sum)


def test_dtype_device_layout_finiteness(v):
    g = v.h.grad
    assert "dtype is torch.float64" in cmp("h", g.double(), v.h).note
    assert "lies on meta" in cmp("h", torch.empty_like(g, device="meta"), v.h).note
    assert "layout" in cmp("h", g.to_sparse(), v.h).note
    for bad in (float("nan"), float("inf"), -float("inf")):
        yours = g.clone()
        yours[3, 4] = yours[5, 6] = bad
        row = cmp("h", yours, v.h)
        assert not row and row.note == f"2 of {g.numel()} entries are nan or inf."


def test_not_a_tensor(v, capsys):
    assert "to do" in cmp("h", None, v.h).note
    assert "to do" in cmp("h", ..., v.h).note
    assert cmp("h", 3.0, v.h).note == "yours is not a tensor but a float."
    assert cmp("h", v.h.grad.numpy(), v.h).note == "yours is not a tensor but a ndarray."
    assert cmp("h", 3, v.h).note == "yours is not a tensor but an int."
    assert "third argument is a str" in cmp("h", v.h.grad, "h").note


def test_arguments_out_of_order(v):
    assert "a name comes first" in cmp(v.h, v.h.grad, "h").note
    assert "does not require a gradient" in cmp("h", v.h, v.h.grad).note
    for wrong in (None, [v], v.h):
        with pytest.raises(TypeError, match="cmp.watch takes a forward pass"):
            cmp.watch(wrong)


def test_no_gradient_to_compare_with():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    assert "retain_grad()" in cmp("y", torch.ones(3), y).note
    assert "loss.backward()" in cmp("x", torch.ones(3), x).note
    y.retain_grad()
    assert "retain_grad()" in cmp("y", torch.ones(3), y).note
    assert "does not require a gradient" in cmp("z", torch.ones(3), torch.ones(3)).note
    y.sum().backward()
    assert cmp("y", torch.ones(3), y) and cmp("x", 2 * torch.ones(3), x)


def test_no_warning_from_a_tensor_without_gradient(recwarn):
    y = torch.ones(3, requires_grad=True) * 2
    cmp("y", torch.ones(3), y)
    assert not recwarn.list


def test_true_gradient_not_finite_or_of_a_strange_dtype():
    x = torch.zeros(2, requires_grad=True)
    x.sqrt().sum().backward()
    assert "overflowed" in cmp("x", torch.ones(2), x).note
    x = torch.zeros(2, requires_grad=True, dtype=torch.float16)
    x.sum().backward()
    assert "use float32 or float64" in cmp("x", torch.ones(2, dtype=torch.float16), x).note


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_tolerance_is_relative(dtype, tolerance):
    for size in (1e-9, 1.0, 1e9):
        x = torch.ones(100, dtype=dtype, requires_grad=True)
        (size * x).sum().backward()
        assert cmp("x", x.grad * (1 + 0.5 * tolerance), x)
        assert not cmp("x", x.grad * (1 + 2 * tolerance), x)


def test_small_and_huge_gradients_do_not_under_or_overflow():
    for size in (1e-30, 1e30):
        x = torch.ones(100, requires_grad=True)
        (size * x).sum().backward()
        assert cmp("x", x.grad.clone(), x)
        row = cmp("x", x.grad * 1.01, x)
        assert not row and row.relative == pytest.approx(0.01, rel=1e-4)


def test_yours_may_carry_a_graph_or_be_expanded(v):
    assert cmp("h", v.h.grad * torch.ones(1, requires_grad=True), v.h)
    assert cmp("bndiff2", v.bndiff2.grad[:1].expand(32, -1), v.bndiff2)


def test_true_gradient_of_exact_zeros():
    x = torch.ones(3, requires_grad=True)
    (0 * x).sum().backward()
    assert cmp("x", torch.zeros(3), x)
    row = cmp("x", torch.full((3,), 1e-20), x)
    assert not row and row.relative == float("inf")


# --- gradients whose true value is zero


@pytest.mark.parametrize("name", ["logit_maxes", "b1"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_true_zero_is_judged_by_what_flows_in(name, dtype):
    v = make_pass(n=32, hidden=16, dtype=dtype)
    tensor = getattr(v, name)
    for right in (tensor.grad, torch.zeros_like(tensor), -tensor.grad):
        cmp.watch(v)
        row = cmp(name, right.clone(), tensor)
        assert row and "relative to what flows into it" in row.note
        cmp.forget()
        row = cmp(name, right.clone(), tensor)
        if not row.exact:
            assert row.approximate is None and not row and "cmp.watch" in row.note
    cmp.watch(v)
    wrong = {"logit_maxes": v.norm_logits.grad[:, :1], "b1": v.hprebn.grad[0]}[name]
    assert not cmp(name, wrong.clone(), tensor)


def test_cannot_judge_is_printed_as_a_question_mark(v, capsys):
    cmp("b1", torch.zeros_like(v.b1), v.b1)
    assert "| approximate: ?     |" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["hprebn", "embcat", "W1", "b1", "emb", "C"])
def test_two_rows_leave_nothing_but_eps(name):
    v = make_pass(n=2, hidden=16)
    cmp.watch(v)
    tensor = getattr(v, name)
    # another route to the same value: rounds differently, by far more than 1e-12 of so small a gradient
    row = cmp(name, tensor.grad * (1 + 1e-11), tensor)
    assert row and row.note.endswith("zero up to eps.")
    if name != "b1":  # b1's is zero, eps or not
        assert not cmp(name, torch.zeros_like(tensor), tensor)
    assert not cmp(name, torch.ones_like(tensor), tensor)


def test_watch_takes_a_notebooks_globals_and_the_name_may_be_another(v):
    cmp.watch(dict(vars(v), unrelated=3, _hidden=v.h))
    assert cmp("my b1", torch.zeros_like(v.b1), v.b1)
    assert torch.equal(given("counts"), v.counts.grad)


def test_a_new_pass_is_not_mistaken_for_the_watched_one(v):
    cmp.watch(v)
    other = make_pass(n=32, hidden=16, dtype=torch.float32, seed=1)
    assert cmp("b1", torch.zeros_like(other.b1), other.b1).approximate is None


def test_given(v):
    with pytest.raises(KeyError, match="cmp.watch"):
        given("counts")
    cmp.watch(v)
    given("counts").zero_()  # a copy: the truth stays whole
    assert v.counts.grad.any()
    with pytest.raises(KeyError, match="'cuonts'"):
        given("cuonts")
    with pytest.raises(ValueError, match="requires? a gradient|require a gradient"):
        cmp.watch({"counts": torch.ones(3)})
        given("counts")


# --- mistakes whose size is known


def test_one_bessel_mistake_that_assert_close_lets_pass():
    params, g = draw()
    data = load()
    minibatch(data.Xtr, data.Ytr, g)  # on the second minibatch it passes, as on most
    v = forward(params, *minibatch(data.Xtr, data.Ytr, g))
    v.loss.backward()
    d = backward_all(v)
    wrong = (d.bnvar / v.n).expand_as(v.bndiff2)
    torch.testing.assert_close(
        wrong, v.bndiff2.grad
    )  # passes: its absolute tolerance is larger than the error
    row = cmp("bndiff2", wrong, v.bndiff2)
    assert not row and row.relative == pytest.approx(1 / 32, rel=1e-3)


def test_fused_routes_agree_and_are_not_exact():
    v = make_pass(n=32, hidden=64, dtype=torch.float32)
    with torch.no_grad():
        logits = cmp("logits", cross_entropy_backward(v.logits, v.Yb), v.logits)
        hprebn = cmp("hprebn", bn_backward(v.hpreact.grad, v.bnraw, v.bngain, v.bnvar_inv), v.hprebn)
    assert logits and hprebn and not logits.exact and not hprebn.exact


def test_every_gradient_doubled_or_sign_flipped_is_refused(v):
    cmp.watch(v)
    zeros = {"logit_maxes", "b1"}
    for name in GRADIENTS:
        g, tensor = getattr(v, name).grad, getattr(v, name)
        assert cmp(name, g.clone(), tensor)
        if name not in zeros:
            assert not cmp(name, 2 * g, tensor) and not cmp(name, -g, tensor) and not cmp(name, 0 * g, tensor)
