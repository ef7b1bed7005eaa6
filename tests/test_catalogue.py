"""The catalogue: every wrong derivation is caught and nearly every one named; no right one is refused."""

import contextlib
import importlib.util
import io
from collections import Counter
from pathlib import Path

import pytest
import torch
from catalogue import NOTHING, RIGHT, WRONG, judge, lecture, named, truths
from conftest import make_pass

from makemore_bp import compare, draw, forward, load
from makemore_bp.compare import Compare
from makemore_bp.model import minibatch
from makemore_bp.rules import GRADIENTS
from makemore_bp.terms import TERMS, Known, wide


class Strict(Compare):
    """cmp, but what goes wrong while it looks for a cause is not kept quiet."""

    def _explain(self, row, called, yours, truth, known, flow, apart=None):
        row.cause = self._cause(row.name, called, yours, truth, known, flow)
        if not row.cause and yours.shape == truth.shape:
            row.entry = compare.largest(yours, truth, apart)


def course_pass(dtype=torch.float32, seed=2147483647, hidden=64, skip=0):
    params, g = draw(hidden, seed, dtype)
    data = load()
    for _ in range(skip):
        minibatch(data.Xtr, data.Ytr, g)
    v = forward(params, *minibatch(data.Xtr, data.Ytr, g))
    v.loss.backward()
    return v


PASSES = {
    "course": course_pass,
    "float64": lambda: course_pass(torch.float64, seed=3, skip=2),
    "other sizes": lambda: make_pass(n=20, hidden=9, seed=5, dtype=torch.float32),
}


@pytest.fixture(params=PASSES, scope="module")
def v(request):
    return PASSES[request.param]()


def quietly(v, cases):
    with contextlib.redirect_stdout(io.StringIO()):
        return list(judge(v, cases, Strict()))


def test_the_catalogue_covers_what_it_promises():
    assert len(WRONG) >= 80
    labels = Counter(w.name for w in WRONG if "fused" not in w.label)
    assert min(labels[name] for name in GRADIENTS) >= 2
    fused = Counter(w.label for w in WRONG if "fused" in w.label)
    assert min(fused["logits (fused)"], fused["hprebn (fused)"]) >= 6
    assert {w.name for w in RIGHT} == set(GRADIENTS)


def test_all_are_caught_and_nearly_all_named(v):
    found = quietly(v, WRONG)
    assert [case for case, _, row in found if row.approximate is not False] == []
    assert [f"{case.label}, {case.how}: {row}" for case, _, row in found if named(case, row) is False] == []
    assert sum(named(case, row) is True for case, _, row in found) >= 0.95 * len(found)
    for case, _, row in found:  # where no cause is known, the largest difference or the shape is told
        assert row.cause or row.entry or "should be" in row.note, case.how


def test_nothing_right_is_refused_or_scolded(v):
    for case, _, row in quietly(v, NOTHING + RIGHT):
        assert row and not row.cause and not row.entry, f"{case.label}, {case.how}: {row}"


def test_the_lectures_check_lets_some_pass():
    v = course_pass()
    d = truths(v)
    with torch.no_grad():
        said = {case.how: lecture(case.value(v, d), getattr(v, case.name).grad) for case in WRONG}
    passed = {how for how, verdict in said.items() if verdict in ("exact", "agrees")}
    assert {"keepdim", "stays (1, H)"} <= passed
    assert lecture(torch.ones(2, 3), torch.ones(5, 4)) == "raises"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "n, hidden, scale", [(2, 16, 1), (3, 1, 1), (5, 64, 3), (8, 8, 10), (33, 16, 10), (512, 8, 1)]
)
def test_right_variants_at_other_sizes(n, hidden, scale, dtype):
    def larger(params, Xb, Yb):
        params.W2.mul_(scale)

    v = make_pass(n=n, hidden=hidden, dtype=dtype, seed=n + hidden, change=larger)
    for case, _, row in quietly(v, NOTHING + RIGHT):
        assert row, f"{case.label}, {case.how}: {row}"


def test_a_random_tensor_has_no_cause():
    for seed in (0,):
        v = make_pass(n=20, hidden=8, seed=seed, dtype=torch.float32)
        d, g = truths(v), torch.Generator().manual_seed(seed)
        cmp = Strict()
        cmp.watch(v)
        for name in GRADIENTS:
            t = getattr(d, name)
            noise = torch.randn(t.shape, generator=g)
            shuffled = t.flatten()[torch.randperm(t.numel(), generator=g)].view_as(t)
            for wrong in (noise, t * (1 + 0.01 * noise), t + t.norm() * noise, shuffled):
                row = cmp(name, wrong, getattr(v, name))
                assert not row.cause, f"{name}: {row}"
                assert row or row.entry


def test_one_wrong_entry_is_shown_with_its_index():
    v = course_pass()
    cmp = Strict()
    cmp.watch(v)
    yours = v.W1.grad.clone()
    yours[7, 11] += 0.125
    row = cmp("W1", yours, v.W1)
    assert not row.cause and row.entry.startswith("the largest difference is at [7, 11]: yours ")


def test_the_terms_give_the_true_gradients():
    v = make_pass(n=12, hidden=7)
    known = Known(vars_of(v), {name: getattr(v, name).grad for name in GRADIENTS})
    for key, terms in TERMS.items():
        name = key.split()[0]
        value = sum(known.value(term, name) for term in terms)
        truth = known.plain(getattr(v, name).grad, name)
        assert (value - truth).norm() <= 1e-12 * max(truth.norm(), known.flow(name).norm()), key
        assert (
            wide(getattr(v, name).grad).flatten().abs() <= known.flow(name, deep=True).flatten() * (1 + 1e-9)
        ).all() or (
            name
            in ("hprebn", "embcat", "emb", "C", "W1", "b1")  # the mean and the variance add a little to some
        ), key


def vars_of(v):
    return {name: t for name, t in vars(v).items() if isinstance(t, torch.Tensor)}


def test_what_is_wrong_upstream_is_named_as_such():
    v = course_pass()
    d, cmp = truths(v), Strict()
    cmp.watch(v)
    with torch.no_grad():
        dh = d.h * (1 + v.h)  # no common mistake
        cmp("h", dh, v.h)
        row = cmp("hpreact", (1 - v.h**2) * dh, v.hpreact)
        assert row.cause == "the step itself is right; what is wrong came in with your dh."
        cmp("h", d.h.clone(), v.h)  # put right; the other is now the reader's own mistake
        assert "came in" not in cmp("hpreact", (1 - v.h**2) * dh, v.hpreact).cause


def test_without_a_pass_the_plain_causes_are_named_too():
    v = course_pass()
    cmp = Strict()
    g = v.bndiff2.grad
    for yours, words in (
        (g * 31 / 32, "31/32 times"),
        (-g, "sign"),
        (2 * g, "2 times"),
        (g * 1.01, "1.01 times"),
        (g + 0.25, "same amount, 0.25"),
        (0 * g, "zeros"),
        (torch.ones_like(g), "same number, 1"),
        (g.T, "transposed"),
        (g[:1], "broadcasting"),
        (g.flip(0) * 0 + v.h.grad.flip(0), ""),
    ):
        assert words in cmp("bndiff2", yours, v.bndiff2).cause
    assert "reverse order" in cmp("h", v.h.grad.flip(0), v.h).cause
    assert "transposed" in cmp("W2", v.W2.grad.T.clone(), v.W2).cause
    assert "keepdim" in cmp("bngain", v.bngain.grad[0].clone(), v.bngain).cause


def test_a_forward_pass_that_divides_the_variance_by_n():
    x = torch.randn(12, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    hprebn = x.requires_grad_()
    bnmeani = hprebn.sum(0, keepdim=True) / 12
    bndiff = hprebn - bnmeani
    bndiff2 = bndiff**2
    bnvar = bndiff2.sum(0, keepdim=True) / 12
    bnvar_inv = (bnvar + 1e-5) ** -0.5
    bnraw = bndiff * bnvar_inv
    for t in (bnmeani, bndiff, bndiff2, bnvar, bnvar_inv, bnraw):
        t.retain_grad()
    (bnraw**3).sum().backward()
    cmp = Strict()
    cmp.watch(locals())
    row = cmp("bndiff2", (bnvar.grad / 11).expand_as(bndiff2), bndiff2)
    assert row.cause.startswith("every entry is n/(n - 1) = 12/11 times")
    assert cmp("bndiff2", (bnvar.grad / 12).expand_as(bndiff2), bndiff2)


def test_the_command_prints_the_table_and_the_counts(capsys, monkeypatch):
    path = Path(__file__).resolve().parent.parent / "tools" / "catalogue.py"
    spec = importlib.util.spec_from_file_location("catalogue_tool", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    monkeypatch.setattr("sys.argv", ["catalogue.py"])
    monkeypatch.setattr(tool, "WRONG", WRONG[:12])
    monkeypatch.setattr(tool, "RIGHT", RIGHT[:3])
    tool.main()
    out = capsys.readouterr().out.splitlines()
    assert out[1].startswith("logprobs         | 1/n forgotten") and "n = 32 times" in out[1]
    assert "caught: 12" in out[-4] and out[-1].endswith("refused: 0")
