"""Where cmp draws the line between rounding noise and a mistake: sums that cancel, and rows one by one."""

import pytest
import torch
from conftest import make_batch, make_params, make_pass

from makemore_bp.backward import backward_six
from makemore_bp.compare import TOLERANCE, Compare
from makemore_bp.model import Params, forward
from makemore_bp.terms import wide

EPS = torch.finfo(torch.float32).eps


def watched(*arguments, **options):
    v, cmp = make_pass(*arguments, **options), Compare()
    cmp.watch(v)
    return v, cmp


# --- terms that cancel


def off_by(ulps, name, n, hidden, dtype=torch.float32):
    """cmp's row for a gradient off by so many float32-eps of what flows into it, where that is far more than its
    own size allows: of twenty passes the one whose terms cancel most."""
    passes = [watched(n, hidden, seed, dtype) for seed in range(20)]

    def cancels(both):
        return getattr(both[0], name).grad.norm() / both[1]._known.flow(name, deep=True).norm()

    v, cmp = min(passes, key=cancels)
    truth, flow = getattr(v, name).grad, cmp._known.flow(name, deep=True)
    wrong = wide(truth).clone()
    wrong.view(-1)[wide(truth).abs().argmin()] += ulps * EPS * flow.norm()
    assert (wrong - wide(truth)).norm() > 1.5 * TOLERANCE[torch.float32] * wide(truth).norm()
    return cmp(name, wrong.to(dtype), getattr(v, name))


@pytest.mark.parametrize("n, hidden", [(5, 16), (16, 5), (7, 8), (8, 7), (3, 2)])
def test_with_few_rows_or_units_up_to_three_eps_of_what_flows_in(n, hidden):
    row = off_by(2.9, "bnbias", n, hidden)
    assert row and row.relative > TOLERANCE[torch.float32] and "its terms cancel here" in row.note
    row = off_by(3.1, "bnbias", n, hidden)
    assert row.approximate is False and "cancel" not in row.note


def test_with_two_rows_up_to_ten():
    assert off_by(9.8, "bnbias", 2, 16) and off_by(10.2, "bnbias", 2, 16).approximate is False


def test_not_with_more_rows_and_units_and_not_in_float64():
    assert off_by(2.9, "bnbias", 8, 8).approximate is False
    assert off_by(2.9, "bnbias", 5, 16, torch.float64).approximate is False


@pytest.mark.parametrize("name", ["bnvar", "bndiff2"])
def test_not_where_nothing_is_added_up(name):
    v, cmp = watched(5, 6, dtype=torch.float32)
    cmp._known.flow = lambda *_, **__: pytest.fail("is not asked")
    assert not cmp._cancels(cmp._known, name, torch.zeros(1), torch.float32)


def test_the_fused_route_is_right_where_its_terms_cancel():
    for n, hidden, seed in ((3, 4, 12), (5, 1, 17)):
        v, cmp = watched(n, hidden, seed, torch.float32)
        rows = {name: cmp(name, g, getattr(v, name)) for name, g in zip(Params._fields, backward_six(v))}
        assert all(rows.values())
        assert any(row.relative > 1e-4 and "its terms cancel here" in row.note for row in rows.values())
        d64 = {name: wide(g) for name, g in zip(Params._fields, backward_six(v))}
        w, cmp64 = watched(n, hidden, seed, torch.float64)
        name = max(rows, key=lambda name: rows[name].relative)
        assert not cmp64(name, d64[name], getattr(w, name))  # float64 has no such excuse


# --- a row that is off while the whole is close


def confident(dtype, scale):
    """A pass of which one row is as good as certain of its target, the others of something else."""
    params, (Xb, Yb) = make_params(16, dtype=dtype), make_batch(32)
    with torch.no_grad():
        params.W2.mul_(scale)
        best = forward(params, Xb, Yb).logits.topk(2)
        row = (best.values[:, 0] - best.values[:, 1]).argmax()
        Yb[row] = best.indices[row, 0]
    v = forward(params, Xb, Yb)
    v.loss.backward()
    return v, Compare()


def without_smallest_row(gradient):
    """The gradient without its smallest row (that is not zero), and the size of that row beside the largest."""
    size = gradient.norm(dim=1)
    row = size.masked_fill(size == 0, torch.inf).argmin()
    changed = gradient.clone()
    changed[row] = 0
    return changed, (size[row] / size.max()).item(), row.item()


@pytest.mark.parametrize("dtype, scale", [(torch.float32, 15), (torch.float64, 30)])
@pytest.mark.parametrize("watching", [True, False])
@pytest.mark.parametrize("name", ["counts", "probs", "h", "hpreact", "logits"])
def test_a_small_row_that_is_missing(name, watching, dtype, scale):
    v, cmp = confident(dtype, scale)
    if watching:
        cmp.watch(v)
    wrong, share, row = without_smallest_row(getattr(v, name).grad)
    assert share < TOLERANCE[dtype]
    judged = cmp(name, wrong, getattr(v, name))
    if name in ("counts", "probs") and (watching or share > 1e-12):
        assert judged.approximate is False and judged.entry.startswith(
            f"the largest difference is at [{row}, "
        )
        assert judged.note.startswith("as a whole it is close, but not row by row")
    else:
        assert judged  # nobody said what flows into it, or that much more does: to be certain is 1 - 1


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", ["logits", "h"])
def test_a_row_may_be_off_by_ten_tolerances_of_what_flows_into_it(name, dtype):
    v, cmp = watched(800, 9, dtype=dtype)
    truth, flow = getattr(v, name).grad, cmp._known.flow(name, deep=True).flatten(1)
    row = flow.norm(dim=1).argmin()
    for tolerances, accepted in ((9.5, True), (10.5, False)):
        wrong = wide(truth).clone()
        wrong[row, truth[row].abs().argmin()] += tolerances * TOLERANCE[dtype] * flow[row].norm()
        judged = cmp(name, wrong.to(dtype), getattr(v, name))
        assert bool(judged) == accepted and judged.relative <= TOLERANCE[dtype]
    assert judged.entry.startswith(f"the largest difference is at [{row}, ")
