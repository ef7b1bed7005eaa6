"""cmp: what it accepts, what it refuses, what it cannot judge, and the sentence it says each time."""

import numpy as np
import pytest
import torch
from conftest import make_batch, make_params, make_pass
from hypothesis import HealthCheck, settings
from hypothesis import given as given_any
from hypothesis import strategies as st

from makemore_bp import backward_all, cmp, draw, forward, given, load
from makemore_bp.backward import bn_backward, cross_entropy_backward
from makemore_bp.compare import Compare
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


def test_all_lines_of_a_refused_row(v):
    cmp.watch(v)
    assert str(cmp("bnmeani", v.bnmeani.grad.squeeze(0), v.bnmeani)).splitlines() == [
        "bnmeani            | exact: False | approximate: False | maxdiff: -       | relative: -",
        "    the shape is (16,) and should be (1, 16): a gradient has the shape of its variable.",
        "    the values are right; it has lost a dimension of length 1 (keepdim).",
    ]
    row, cause = str(cmp("counts", 2 * v.counts.grad, v.counts)).splitlines()
    assert row.startswith("counts             | exact: False | approximate: False | maxdiff: ")
    assert row.endswith(" | relative: 1.0e+00") and cause.startswith("    ") and "2 times" in cause


def test_given_without_a_pass_and_with_a_mistyped_name(v):
    with pytest.raises(KeyError, match=r"hand the pass over with cmp\.watch\(v\)\."):
        given("counts")
    cmp.watch(v)
    with pytest.raises(KeyError, match=r"did you mean 'counts_sum'\?"):
        given("counts_sun")


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
    assert "the order is cmp(name, yours, tensor)" in cmp("h", v.h, v.h.grad).note
    cmp.watch(v)
    carrying = v.h.grad * v.bngain  # a gradient computed outside no_grad()
    assert "your gradient comes second" in cmp("h", v.h, carrying).note
    assert "order" not in cmp("h", carrying, v.h).note
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
    own = v.bndiff2.grad[:1].clone()
    assert cmp("bndiff2", own.expand(32, -1), v.bndiff2)


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


def test_what_given_handed_out_does_not_count(v):
    cmp.watch(v)
    d = given("W1")
    for yours in (d, d.view_as(d), given("W1")[:], given("W1").view(-1).view(v.W1.shape)):
        row = cmp("W1", yours, v.W1)
        assert row.exact and row.approximate is None and "given('W1')" in row.note
    assert "W1" in cmp.ledger().todo
    assert cmp("emb", given("embcat").view(v.emb.shape), v.emb) and cmp("W1", d.clone(), v.W1)
    assert cmp("logit_maxes", -given("logit_maxes"), v.logit_maxes)
    d *= 2  # written over: judged, and named
    assert cmp("W1", d, v.W1).cause.startswith("every entry is 2 times the true one.")


def test_the_third_argument_may_be_left_out(v):
    assert "third argument is missing" in cmp("h", v.h.grad.clone()).note
    cmp.watch(v)
    assert cmp("h", v.h.grad.clone()) and cmp("counts, one use", v.counts.grad.clone())
    assert not cmp("h", 2 * v.h.grad) and "missing" in cmp("mine", v.h.grad).note
    assert "a name comes first" in cmp(v.h.grad, v.h).note and "does not count" in cmp("h", v.h.grad).note


def test_a_sum_too_many_and_a_lost_keepdim_besides(v):
    for watched in (False, True):
        if watched:
            cmp.watch(v)
        row = cmp("bnraw", (v.bngain * v.hpreact.grad).sum(0, keepdim=True).detach(), v.bnraw)
        assert row.cause == "a sum too many: this is the right gradient, summed over axis 0."
        row = cmp("bnmeani", v.bndiff.grad.sum(0), v.bnmeani)
        assert "lost a dimension" in row.cause and "besides, the sign is wrong in every entry" in row.cause
        row = cmp("bngain", 3 * v.bngain.grad[0], v.bngain)
        assert "(keepdim), and besides, every entry is 3 times the true one." in row.cause


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


# --- a truth that was copied, or has changed


@pytest.mark.parametrize(
    "yours", [lambda g: g, lambda g: g.view(-1).view_as(g), lambda g: g.detach(), lambda g: g.T.T]
)
def test_autograds_own_does_not_count(v, yours, capsys):
    row = cmp("h", yours(v.h.grad), v.h)
    assert not row and row.exact and row.approximate is None and "does not count" in row.note
    assert "| approximate: ?     |" in capsys.readouterr().out
    yours = yours(v.h.grad)
    yours += 1  # the truth goes along
    assert not cmp("h", yours, v.h)


def test_a_view_of_another_gradient_does_count(v):
    assert cmp("emb", v.embcat.grad.view(v.emb.shape), v.emb)


def test_a_stale_pass_does_not_judge(v):
    """The parameters stay the same tensors; their gradients do not."""
    cmp.watch(v)
    assert cmp("b1", torch.zeros_like(v.b1), v.b1)
    for p in (v.C, v.W1, v.b1, v.W2, v.b2, v.bngain, v.bnbias):
        p.grad = None
    params = type(make_params())(v.C, v.W1, v.b1, v.W2, v.b2, v.bngain, v.bnbias)
    forward(params, *make_batch(n=32, seed=9)).loss.backward()
    assert cmp("b1", torch.zeros_like(v.b1), v.b1).approximate is None
    assert cmp("W1", v.W1.grad.clone(), v.W1)
    assert "hand the pass over again" in cmp("W1", 2 * v.W1.grad, v.W1).note
    v.b2.grad.add_(1)
    forward(params, *make_batch(n=32, seed=9)).loss.backward()  # adds to what is there
    assert cmp("b1", torch.zeros_like(v.b1), v.b1).approximate is None


def test_backward_called_twice(v):
    """What one backward() gives is not wrong where .grad holds two, and neither is it right."""
    params = type(make_params())(v.C, v.W1, v.b1, v.W2, v.b2, v.bngain, v.bnbias)
    forward_pass = forward(params, *make_batch(n=32, seed=0))
    for tensor in vars(forward_pass).values():
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            tensor.grad = None
    forward_pass.loss.backward(retain_graph=True)
    once = {name: getattr(forward_pass, name).grad.clone() for name in ("logits", "W2", "h", "C")}
    forward_pass.loss.backward()
    cmp.watch(forward_pass)
    for name, mine in once.items():
        row = cmp(name, mine, getattr(forward_pass, name))
        assert row.approximate is None and row.note == (
            f"{name}.grad is 2 times what one backward() gives, and yours is not: was backward() called 2 times? "
            "Run forward and backward anew, and hand the pass over again."
        )
    row = cmp("W2", 3 * once["W2"], forward_pass.W2)  # wrong either way
    assert row.approximate is False


def test_a_leaf_that_holds_an_earlier_passs_gradient(v):
    params = type(make_params())(v.C, v.W1, v.b1, v.W2, v.b2, v.bngain, v.bnbias)
    now = forward(params, *make_batch(n=32, seed=9))
    now.loss.backward()  # the parameters' .grad were not set to None
    cmp.watch(now)
    row = cmp("W2", now.h.T @ now.logits.grad, now.W2)
    assert row.approximate is None and row.note == (
        "yours is what `logits = h @ W2 + b2` gives, and W2.grad holds more: an earlier pass's (set it to None "
        "before backward()), or what another use of W2 adds."
    )
    assert cmp("W2", now.W2.grad * 0.5, now.W2).approximate is False
    assert cmp("logits", now.logits.grad + 0.0, now.logits)


def test_watched_before_backward():
    params, (Xb, Yb) = make_params(), make_batch()
    v = forward(params, Xb, Yb)
    cmp.watch(v)
    assert "loss.backward()" in cmp("b1", torch.zeros_like(v.b1), v.b1).note
    v.loss.backward()
    assert cmp("b1", torch.zeros_like(v.b1), v.b1)


# --- what a single norm does not see


def heavy(dtype=torch.float32):
    """The course's batch with W2 ten times as large: dcounts reaches over eleven orders of magnitude."""
    params, g = draw(dtype=dtype)
    with torch.no_grad():
        params.W2.mul_(10)
    data = load()
    v = forward(params, *minibatch(data.Xtr, data.Ytr, g))
    v.loss.backward()
    return v


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_few_large_entries_hide_nothing(dtype, watched):
    v = heavy(dtype)
    if watched:
        cmp.watch(v)
    wrong = (
        v.counts_sum_inv * v.probs.grad
    )  # the path through counts_sum is missing: 26 of 27 entries are wrong
    row = cmp("counts", wrong.detach(), v.counts)
    assert not row and row.relative < 1e-3
    if watched:
        assert "counts also stands on the right of `counts_sum" in row.cause
    assert cmp("counts", (wrong + v.counts_sum.grad).detach(), v.counts)


def test_hidden_in_a_single_row():
    v = heavy()
    cmp.watch(v)
    yours = v.counts.grad.clone()
    sizes = yours.norm(dim=1)
    small = int(sizes.argmin())
    assert sizes[small] < 1e-6 * sizes.max()
    yours[small] *= 2
    row = cmp("counts", yours, v.counts)
    assert (
        not row
        and "hide the others" in row.note
        and row.entry.startswith(f"the largest difference is at [{small}, ")
    )


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_the_fused_form_is_not_refused_where_the_terms_cancel(n, seed):
    v = make_pass(n=n, hidden=16, dtype=torch.float32, seed=seed)
    cmp.watch(v)
    with torch.no_grad():
        dhprebn = bn_backward(v.hpreact.grad, v.bnraw, v.bngain, v.bnvar_inv)
        assert cmp("hprebn (fused)", dhprebn, v.hprebn)
        assert cmp("W1", v.embcat.T @ dhprebn, v.W1) and cmp("b1", dhprebn.sum(0), v.b1)
        assert not cmp("hprebn (fused)", dhprebn + 1e-3 * v.bnvar_inv * v.bnraw.grad, v.hprebn)


@pytest.mark.parametrize("size", [1e-200, 1e200, 1e-308, 1e300])
def test_float64_gradients_near_the_ends_of_its_range(size):
    x = torch.ones(100, dtype=torch.float64, requires_grad=True)
    (size * x).sum().backward()
    row = cmp("x", x.grad * (1 + 1e-13), x)
    assert row and row.relative < 1e-12
    row = cmp("x", x.grad * 1.01, x)
    assert not row and row.relative == pytest.approx(0.01, rel=1e-4)


def test_eps_left_out_is_always_refused():
    for seed in range(3):
        v = make_pass(n=32, hidden=64, dtype=torch.float32, seed=seed)
        cmp.watch(v)
        with torch.no_grad():
            row = cmp("bnvar", -0.5 * v.bnvar**-1.5 * v.bnvar_inv.grad, v.bnvar)
        assert not row and row.cause.startswith("eps is missing")


# --- what cmp says instead of a traceback


def test_sentences_instead_of_tracebacks(v, capsys):
    params = make_params()
    with pytest.raises(TypeError, match=r"not a Params. .*what forward\(params, Xb, Yb\) returned"):
        cmp.watch(params)
    for strange in ([1], None, 3, v.h):
        with pytest.raises(KeyError, match="is being watched"):
            given(strange)
    cmp.watch(v)
    with pytest.raises(KeyError, match="did you mean 'counts'"):
        given("cuonts")
    x = torch.ones(5, 2, requires_grad=True)
    torch.nn.functional.embedding(torch.tensor([1, 2]), x, sparse=True).sum().backward()
    assert "sparse" in cmp("x", torch.ones(5, 2), x).note
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    assert "nested" in cmp("h", nested, v.h).note
    nameless = type("", (), {})()
    assert "not a tensor but a " in cmp("h", nameless, v.h).note
    capsys.readouterr()
    cmp("two\nlines", v.h.grad.clone(), v.h)
    assert capsys.readouterr().out.count("\n") == 1


def test_globals_with_the_same_names_but_other_shapes(v):
    names = dict(
        vars(v), h=torch.ones(3), bnraw=v.bnraw, embcat=torch.ones(2, 2), probs=7, C=torch.ones(1, 1, 1)
    )
    cmp.watch(names)
    assert cmp("b1", torch.zeros_like(v.b1), v.b1)
    assert not cmp("W1", 2 * v.W1.grad, v.W1) and not cmp("hprebn", -v.hprebn.grad, v.hprebn)


class Odd(torch.Tensor):
    """A subclass, as some libraries make them."""


def anything():
    shapes = st.sampled_from([(), (0,), (1,), (16,), (1, 16), (32, 16), (16, 32), (32, 16, 1), (32, 1)])
    dtypes = st.sampled_from(
        [torch.float32, torch.float64, torch.float16, torch.int64, torch.bool, torch.complex64]
    )
    made = st.builds(
        lambda shape, dtype, how: how(torch.ones(shape).to(dtype)),
        shapes,
        dtypes,
        st.sampled_from(
            [
                lambda t: t,
                lambda t: t * 0,
                lambda t: t.to("meta"),
                lambda t: t.to_sparse(),
                lambda t: t.as_subclass(Odd),
                lambda t: t.clone().requires_grad_() if t.is_floating_point() else t,
                lambda t: (t + t).expand(t.shape),
                lambda t: t / 0 if t.is_floating_point() else t,
                lambda t: t.numpy(),
                lambda t: torch.nn.Parameter(t, requires_grad=False),
            ]
        ),
    )
    plain = st.sampled_from(
        [None, ..., 3, 2.5, "h", b"", [], (), {}, object(), type, np.ones(3), float("nan"), Odd]
    )
    return st.one_of(made, plain)


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given_any(
    yours=anything(),
    tensor=st.one_of(anything(), st.sampled_from(["h", "b1", "W1", "counts"])),
    name=st.text(),
    watched=st.booleans(),
)
def test_it_never_raises(yours, tensor, name, watched):
    cmp.forget()
    if watched:
        cmp.watch(PASS)
    if isinstance(tensor, str) and hasattr(PASS, tensor):
        tensor = getattr(PASS, tensor)
    row = cmp(name, yours, tensor)
    assert not row or row.approximate is True
    assert "could not be compared" not in row.note
    assert "\n" not in row.name and str(cmp.ledger())


PASS = make_pass(n=32, hidden=16, dtype=torch.float32)


# --- the ledger


def derive(v, names=GRADIENTS):
    d = backward_all(v)
    for name in names:
        cmp(name, getattr(d, name), getattr(v, name))
    return d


def test_the_score(v, capsys):
    cmp.watch(v)
    derive(v, GRADIENTS[:20])
    cmp("hprebn", 2 * v.hprebn.grad, v.hprebn)
    cmp("W1", None, v.W1)
    capsys.readouterr()
    ledger = cmp.ledger()
    assert capsys.readouterr().out == str(ledger) + "\n"
    assert (len(ledger.right), ledger.wrong) == (20, ["hprebn"]) and "W1" in ledger.todo
    assert str(ledger).splitlines()[0] == "20 right, 1 wrong, 1 to do (20 of 26)" and not ledger
    assert ledger.missing == ["embcat", "b1", "emb", "C"]
    derive(v)
    assert cmp.ledger() and str(cmp.ledger()).splitlines() == [
        "26 right, 0 wrong, 0 to do (26 of 26)",
        "    (logit_maxes, b1: true value zero, so a sign or a factor can't be seen in them)",
    ]
    cmp.watch(v)
    assert len(cmp.ledger().missing) == 26


def test_the_score_of_some(v):
    cmp.watch(v)
    some = GRADIENTS[-9:]
    derive(v, some[:4])
    cmp("W1", ..., v.W1)
    ledger = cmp.ledger(some)
    assert str(ledger).splitlines()[0] == "4 right, 0 wrong, 5 to do (4 of 9)" and not ledger
    derive(v, some)
    assert str(cmp.ledger(some)).endswith("(b1: true value zero, so a sign or a factor can't be seen in it)")
    assert cmp.ledger(some) and not cmp.ledger()
    with pytest.raises(ValueError, match="26 gradients by name, and not dW1."):
        cmp.ledger(["dW1", "W1"])


def test_a_row_of_its_own_name_counts_before_others(v):
    cmp.watch(v)
    derive(v)
    cmp("counts, one use", v.counts_sum_inv.detach() * v.probs.grad, v.counts)
    cmp("logits (fused)", torch.zeros_like(v.logits), v.logits)
    cmp("hprebn (n for n - 1)", 2 * v.hprebn.grad, v.hprebn)
    cmp("h", v.h.grad, v.h)  # copied: no longer right, and not wrong
    ledger = cmp.ledger()
    assert ledger.wrong == [] and ledger.todo == ["h"]


def test_a_gradient_spoiled_after_it_was_compared(v):
    cmp.watch(v)
    dbndiff = v.bndiff.grad.clone()
    assert cmp("bndiff", dbndiff, v.bndiff)
    dhprebn = dbndiff
    dhprebn += v.bnmeani.grad / v.n
    assert cmp("hprebn", dhprebn, v.hprebn)
    ledger = cmp.ledger()
    assert ledger.right == ["hprebn"] and ledger.wrong == ["bndiff"]
    (change,) = ledger.changed
    assert change.name == "dbndiff" and change.through == ("dhprebn",)
    assert "through dhprebn: both are one tensor in memory" in str(ledger)


def test_through_a_name_of_the_notebook(v):
    names = dict(vars(v))
    cmp.watch(names)
    names["dnorm_logits"] = v.norm_logits.grad.clone()
    cmp("norm_logits", names["dnorm_logits"], v.norm_logits)
    names["dlogits"] = names["dnorm_logits"]
    names["dlogits"] += 1
    assert cmp.ledger().changed[0].through == ("dlogits",)


def test_a_forward_value_spoiled(v):
    cmp.watch(v)
    dcounts = v.counts.detach()  # one tensor in memory
    dcounts *= 0.5
    cmp("counts", dcounts, v.counts)
    change = cmp.ledger().changed[0]
    assert (change.name, change.through) == ("counts", ("dcounts",)) and "forward value" in change.what


def test_a_true_gradient_spoiled(v):
    cmp.watch(v)
    dbndiff = v.bndiff.grad
    dbndiff += 1
    assert not cmp("bndiff", dbndiff, v.bndiff)
    assert any(change.name == "bndiff.grad" for change in cmp.ledger().changed)


def test_right_in_another_way_is_no_change(v):
    cmp.watch(v)
    dlogits = v.norm_logits.grad.clone()
    cmp("norm_logits", dlogits, v.norm_logits)
    dlogits += 0 * v.logit_maxes.grad
    assert cmp.ledger().changed == [] and cmp.ledger().right == ["norm_logits"]


def test_two_comparers_do_not_mix(v):
    other = Compare()
    other.watch(v)
    other("h", v.h.grad.clone(), v.h)
    assert cmp.ledger().right == [] and other.ledger().right == ["h"]


# --- every sentence, word for word: a reader has nothing else to go by


def a_tensor_with(grad, **options):
    x = torch.ones(2, requires_grad=True, **options)
    x.grad = grad
    return x


X, Y = torch.ones(2), torch.ones(2, requires_grad=True)
TIMES_2 = Y * 2
NESTED = torch.nested.as_nested_tensor([torch.ones(2)], layout=torch.jagged)
ORDER = (
    "the order is cmp(name, yours, tensor): your gradient comes second, and third the forward value, "
    "one that requires a gradient."
)


@pytest.mark.parametrize(
    "arguments, note",
    [
        ((Y, X, "W1"), "the order is cmp(name, yours, tensor): a name comes first, as a string."),
        (("W1", ..., Y), "to do: nothing to compare yet."),
        (
            ("W1", X),
            'a third argument is missing: the forward value, as in cmp("W1", dW1, W1); or hand the pass over '
            "with cmp.watch(v).",
        ),
        (("W1", NESTED, Y), "nested tensors are not compared; use an ordinary one."),
        (
            ("W1", X, X),
            "the tensor does not require a gradient, so backward() computes none; was it made under no_grad()?",
        ),
        (("W1", X, TIMES_2), "the tensor keeps no .grad: call its retain_grad() before loss.backward()."),
        (("W1", X, Y), "there is no .grad yet: call loss.backward() first (and retain_grad() before it)."),
        (
            ("W1", X, a_tensor_with(torch.ones(2, device="meta"), device="meta")),
            "the true gradient lies on meta, where there are no numbers.",
        ),
        (
            ("W1", X, a_tensor_with(torch.tensor([1, torch.nan]))),
            "the true gradient itself holds nan or inf: the forward pass has overflowed.",
        ),
        (
            ("b1", X, a_tensor_with(torch.zeros(2))),
            "its true value may be zero, so its own size is no measure; hand the pass over with cmp.watch(v).",
        ),
        (("W1", TIMES_2, X), ORDER),  # it carries a graph, and what it is compared with does not
        (("W1", Y, TIMES_2), ORDER),  # it keeps a .grad, and what it is compared with does not
    ],
)
def test_the_sentence(arguments, note):
    row = cmp(*arguments)
    assert row.note == note and not row
    assert row.name == ("?" if note.endswith("as a string.") else arguments[0])
    assert row.cause == row.entry == "" and row.blind is False


def test_where_pytorch_itself_gives_up(monkeypatch):
    def fails(yours, tensor):
        raise RuntimeError(said)

    monkeypatch.setattr("makemore_bp.compare._unusable", fails)
    for said, why in [(" no kernel for this.\nSee ...", "no kernel for this"), ("", "")]:
        row = cmp("W1", X, Y)
        assert row.name == "W1" and not row
        assert row.note == f"the two could not be compared (RuntimeError: {why})."


def test_what_zero_is_relative_to():
    note = "relative to what flows into it, since its true value is zero"
    for n, ends in [(32, {"b1": ".", "logit_maxes": "."}), (2, {"b1": " up to eps.", "logit_maxes": "."})]:
        v = make_pass(n=n, hidden=16)
        cmp.watch(v)
        for name, end in ends.items():
            row = cmp(name, getattr(v, name).grad * 0.5, getattr(v, name))
            assert row and row.note == note + end and row.blind
    row = cmp("W1", v.W1.grad * 0.5, v.W1)
    assert row.note == note + " up to eps." and not row.blind


def test_where_terms_cancel_by_chance():
    notes = set()
    for seed in range(40):
        v = make_pass(n=3, hidden=1, dtype=torch.float32, seed=seed)
        cmp.watch(v)
        with torch.no_grad():
            row = cmp("hprebn", bn_backward(v.hpreact.grad, v.bnraw, v.bngain, v.bnvar_inv), v.hprebn)
        assert row and (row.note != "") == (row.relative > 1e-6)
        notes.add(row.note)
    assert notes == {"", "its terms cancel here, so it is held against their size, not its own."}


def test_a_true_gradient_changed_since_it_was_seen(v):
    cmp.watch(v)
    v.h.grad.mul_(3)
    assert cmp("h", v.h.grad / 3, v.h).note == (
        "h.grad is not what it was when it was first seen after cmp.watch; "
        "run forward and backward anew, and hand the pass over again."
    )


# --- what a single change of cmp's own lines would break


def test_nothing_to_compare():
    x = torch.zeros(0, requires_grad=True)
    x.sum().backward()
    row = cmp("x", torch.zeros(0), x)
    assert row and row.exact and row.maxdiff == row.relative == 0


def test_what_came_in_and_what_went_wrong_here(v):
    cmp.watch(v)
    wrong = 2 * v.logits.grad
    cmp("logits", wrong, v.logits)
    came_in = "the step itself is right; what is wrong came in with your dlogits."
    assert cmp("W2", (v.h.T @ wrong).detach(), v.W2).cause == came_in
    true = given("logits")  # who begins from the true one made the mistake here
    assert cmp("W2", 2 * (v.h.T @ true).detach(), v.W2).cause == (
        "every entry is 2 times the true one. Look again at `logits = h @ W2 + b2`."
    )
    del true
    assert cmp("W2", (v.h.T @ wrong).detach(), v.W2).cause == came_in


@pytest.mark.parametrize(
    "label, cause",
    [
        ("hprebn", "this is only the path through bndiff; hprebn also stands on the right of `bnmeani = "),
        ("hprebn (fused)", "the term of the mean is missing."),
        ("hprebn in one line", "the term of the mean is missing."),
    ],
)
def test_the_label_says_which_way_it_was_computed(v, label, cause):
    cmp.watch(v)
    assert cmp(label, v.bndiff.grad.clone(), v.hprebn).cause.startswith(cause)


def test_the_pass_that_is_watched_is_a_dict_too(v):
    cmp.watch({"h": v.h})
    assert cmp("h", v.h.grad.clone())
    with pytest.raises(TypeError, match=r"not a tuple\.$"):
        cmp.watch((v.h,))


def test_the_first_to_ask_for_a_true_gradient(v):
    mine = Compare()
    mine.watch(v)
    assert torch.equal(mine.given("h"), v.h.grad)


@pytest.mark.parametrize("eps", [0.0, 1e-2])
def test_the_eps_of_the_pass(eps):
    params, (Xb, Yb) = make_params(), make_batch()
    v = forward(params, Xb, Yb, eps=eps)
    v.loss.backward()
    cmp.watch(v)
    wrong = -0.5 * v.bnvar_inv * v.bnvar_inv.grad
    said = cmp("bnvar", wrong.detach(), v.bnvar)
    assert said.cause.startswith("the exponent of bnvar + eps in the backward line is not -0.5.")


def test_watched_with_zeros_left_in_the_parameters():
    params, (Xb, Yb) = make_params(), make_batch()
    for p in params:
        p.grad = torch.zeros_like(p)  # zero_grad(set_to_none=False)
    v = forward(params, Xb, Yb)
    cmp.watch(v)
    v.loss.backward()
    row = cmp("b1", torch.zeros_like(v.b1), v.b1)
    assert row and row.note == "relative to what flows into it, since its true value is zero."


def test_some_values_retained():
    params, (Xb, Yb) = make_params(), make_batch()
    v = forward(params, Xb, Yb)
    for name in ("logit_maxes", "norm_logits"):
        getattr(v, name).retain_grad()
    v.loss.backward()
    cmp.watch(v)
    assert cmp("logit_maxes", v.logit_maxes.grad * 0.5, v.logit_maxes).blind


def test_a_single_entry_is_not_hidden_by_its_row():
    v = heavy()
    cmp.watch(v)
    yours = v.counts.grad.clone()
    row, column = divmod(int((yours.abs() / yours.norm(dim=1, keepdim=True)).argmin()), 27)
    yours[row, column] *= 2
    said = cmp("counts", yours, v.counts)
    assert not said and said.entry.startswith(f"the largest difference is at [{row}, {column}]")


def test_small_rows_without_a_pass():
    v = heavy()
    true, sizes = v.counts.grad, v.counts.grad.norm(dim=1)
    large, small = int(sizes.argmax()), int(sizes.argmin())
    noise = true.clone()
    noise[large] *= 1 + 5e-7
    assert cmp("counts", noise, v.counts)  # a whole row's rounding in one row is still rounding
    wrong = true.clone()
    wrong[small] *= 1.01
    row = cmp("counts", wrong, v.counts)
    assert not row and "hide the others" in row.note
    assert row.entry.startswith(f"the largest difference is at [{small}, ")


def test_not_every_bias_is_without_effect():
    """Without BatchNorm behind it b1 has a gradient, and zeros are wrong."""
    params, (Xb, Yb) = make_params(), make_batch()
    v = forward(params, Xb, Yb)
    hprebn = v.hprebn.detach().requires_grad_()
    loss = (torch.tanh(v.embcat.detach() @ v.W1 + v.b1) * hprebn).sum()
    loss.backward()
    seen = dict(vars(v), hprebn=hprebn)
    hprebn.grad = torch.ones_like(hprebn)
    cmp.watch(seen)
    row = cmp("b1", torch.zeros_like(v.b1), v.b1)
    assert row.approximate is not True


def test_the_latest_row_of_a_gradient_is_what_the_next_ones_came_from(v):
    cmp.watch(v)
    wrong = 2 * v.h.grad
    cmp("h", wrong, v.h)
    cmp("h, second try", v.h.grad.clone(), v.h)
    cmp("h", wrong, v.h)
    row = cmp("hpreact", wrong * (1 - v.h.detach() ** 2), v.hpreact)
    assert row.cause == "the step itself is right; what is wrong came in with your dh."


def test_the_ledger_without_a_pass(v):
    """Spoiled, or right in another way: it compares once more with the tensor that was handed in."""
    dh, dlogits = v.h.grad.clone(), v.logits.grad.clone()
    cmp("h", dh, v.h)
    cmp("logits", dlogits, v.logits)
    dh += 1
    dlogits *= 1 + 1e-7
    ledger = cmp.ledger()
    assert [change.name for change in ledger.changed] == ["dh"]
    assert (ledger.right, ledger.wrong) == (["logits"], ["h"])


def leaf(gradient):
    x = torch.zeros_like(gradient, requires_grad=True)
    x.grad = gradient
    return x


def test_the_entry_shown_is_one_of_the_rows_that_are_off():
    """And not a larger difference that is rounding, in a row a billion times as large."""
    true = torch.ones(30, 4, dtype=torch.float64)
    true[1] *= 1e-9
    yours = true.clone()
    yours[0, 2] += 5e-12
    yours[1, 3] += 3e-12
    row = cmp("probs", yours, leaf(true))
    assert not row and "hide the others" in row.note
    assert row.entry.startswith("the largest difference is at [1, 3]")


def test_a_cause_is_to_hold_in_every_row_of_one_examples_gradient():
    """Not in a row so small that the whole would not notice."""
    true = torch.ones(3, 4, dtype=torch.float64)
    true[1] *= 1e-14
    yours = 2 * true
    assert cmp("probs", yours, leaf(true)).cause == "every entry is 2 times the true one."
    yours[1] *= 3
    row = cmp("probs", yours, leaf(true))
    assert row.cause == "" and row.entry


def test_no_entry_where_the_cause_is_known(v):
    row = cmp("counts", 2 * v.counts.grad, v.counts)
    assert "2 times" in row.cause and row.entry == ""


def test_the_noise_of_a_true_zero_explains_nothing():
    v = make_pass()
    cmp.watch(v)
    row = cmp("b1", 1e8 * v.b1.grad, v.b1)
    assert row.approximate is False and row.cause == "" and row.entry


def test_another_use_of_a_value_is_no_earlier_pass():
    """A parameter's .grad may hold an earlier pass's; a value made anew in each pass can't."""
    v = forward(make_params(), *make_batch())
    for t in vars(v).values():
        if isinstance(t, torch.Tensor) and t.requires_grad and not t.is_leaf:
            t.retain_grad()
    (v.loss + 0.1 * v.h.sum()).backward()
    cmp.watch(v)
    yours = v.logits.grad @ v.W2.detach().T
    assert cmp("h", yours, v.h).approximate is False


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_a_true_value_that_is_not_zero_is_not_judged_as_one(share):
    """A second use of b1 after BatchNorm: small beside what flows in, and no rounding."""
    v = forward(make_params(), *make_batch())
    v.loss.backward()
    flow = v.hprebn.grad.abs().sum(0).norm()
    v.b1.grad = share * flow * torch.ones_like(v.b1) / v.b1.numel() ** 0.5
    cmp.watch(v)
    row = cmp("b1", 1.5 * v.b1.grad, v.b1)
    assert row.approximate is False and row.relative == pytest.approx(0.5) and not row.note


def test_a_pass_of_one_value_and_one_without_numbers(v):
    for name in ("W2", "logits"):  # neither tells how long every axis is
        cmp.watch({name: getattr(v, name)})
        row = cmp(name, 2 * getattr(v, name).grad)
        assert row.approximate is False and "2 times" in row.cause and row.note == ""
    cmp.watch({"h": torch.zeros(3, device="meta"), "W2": v.W2})
    with pytest.raises(KeyError, match="no value named 'h'"):
        given("h")
