"""Each wrong derivation is wrong as it says, and right in all the rest: against PyTorch lines of its own."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from conftest import make_batch, make_params

from makemore_bp import load, trial
from makemore_bp.backward import bn_backward, cross_entropy_backward
from makemore_bp.model import Params, forward_merged
from makemore_bp.train_numpy import Step, train
from makemore_bp.trial import WRONG, run_trials

RATE = 0.1


def take(step, Xb, Yb):
    """One step; returns the loss before it."""
    step.begin(Xb[None].numpy(), Yb[None].numpy(), [RATE])
    step()
    return step.end()[0]


@torch.no_grad()
def gradients(v, wrong=None):
    """backward_six written out once more, with the mistakes in it."""
    n = v.n
    dlogits = cross_entropy_backward(v.logits, v.Yb) * (n if wrong == "sum for mean" else 1)
    dh, dW2, db2 = dlogits @ v.W2.T, v.h.T @ dlogits, dlogits.sum(0)
    dhpreact = dh if wrong == "no tanh derivative" else (1 - v.h**2) * dh
    dbngain = (v.bnraw * dhpreact).sum(0, keepdim=True)
    dbnbias = dhpreact.sum(0, keepdim=True)
    scale, through_variance = v.bngain * v.bnvar_inv, v.bnraw * dbngain
    if wrong == "n for n - 1":
        dhprebn = scale * (dhpreact - dbnbias / n - through_variance / n)
    elif wrong == "no variance term":
        dhprebn = scale * (dhpreact - dbnbias / n)
    elif wrong == "no mean term":
        dhprebn = scale * (dhpreact - through_variance / (n - 1))
    else:
        dhprebn = bn_backward(dhpreact, v.bnraw, v.bngain, v.bnvar_inv)
    dembcat = dhprebn @ v.W1.T
    dW1 = (dembcat if wrong == "dW1 from dembcat" else v.embcat).T @ dhprebn
    dC = torch.zeros_like(v.C)
    rows, letters = dembcat.view(-1, v.C.shape[1]), v.Xb.flatten()
    if wrong == "dC assigned":
        for row, letter in zip(rows, letters):
            dC[letter] = row
    else:
        dC.index_add_(0, letters, rows)
    if wrong == "dbngain, dbnbias swapped":
        dbngain, dbnbias = dbnbias, dbngain
    return Params(dC, dW1, dhprebn.sum(0), dW2, db2, dbngain, dbnbias)


@pytest.mark.parametrize("wrong", [None, *WRONG])
def test_one_step(wrong):
    params, (Xb, Yb) = make_params(hidden=12), make_batch()
    v = forward_merged(params, Xb, Yb)
    expected = [(p - RATE * d).detach() for p, d in zip(params, gradients(v, wrong))]
    step = WRONG.get(wrong, Step)(params)
    loss = take(step, Xb, Yb)
    found, stats = step.result(1)
    assert loss == pytest.approx(v.loss.item(), rel=1e-12)
    for name, mine, theirs in zip(Params._fields, found, expected):
        assert (mine - theirs).norm() <= 1e-13 * theirs.norm(), name
    assert (stats.mean - 0.001 * v.bnmeani).norm() <= 1e-13 * stats.mean.norm()
    assert (stats.var - 0.999 - 0.001 * v.bnvar).norm() <= 1e-13 * stats.var.norm()


@pytest.mark.parametrize("wrong", WRONG)
def test_each_is_wrong(wrong):
    v = forward_merged(make_params(hidden=12), *make_batch())
    right, other = gradients(v), gradients(v, wrong)
    changed = max(((a - b).norm() / b.norm()).item() for a, b in zip(other, right) if b.norm() > 1e-10)
    assert changed > 1e-3


@pytest.mark.parametrize("wrong", WRONG)
def test_two_steps_follow_the_wrong_gradient(wrong):
    """The second step starts from what the first one left, b1 and running mean included."""
    params, (Xb, Yb) = make_params(hidden=12), make_batch()
    step = WRONG[wrong](params)
    mean = torch.zeros_like(params.bnbias)
    for _ in range(2):
        v = forward_merged(params, Xb, Yb)
        mean = (0.999 * mean + 0.001 * v.bnmeani).detach()
        stepped = [(p - RATE * d).detach().requires_grad_() for p, d in zip(params, gradients(v, wrong))]
        params = Params(*stepped)
        take(step, Xb, Yb)
    found, stats = step.result(2)
    for name, mine, theirs in zip(Params._fields, found, params):
        assert (mine - theirs).norm() <= 1e-12 * theirs.norm(), name
    assert (stats.mean - mean).norm() <= 1e-12 * mean.norm()


# --- the trials


@pytest.fixture(scope="module")
def data():
    return load()


def same(one, other):
    return (
        all(torch.equal(a, b) for a, b in zip((*one.params, *one.stats), (*other.params, *other.stats)))
        and list(one.losses) == list(other.losses)
        and one.diverged is other.diverged is None
    )


def test_neither_order_nor_processes_change_a_trial(data):
    cases = [("right", 1), ("no mean term", 1), ("dC assigned", 3), ("right", 3)]
    one = run_trials(data, cases, steps=150, hidden=12, processes=1)
    two = run_trials(data, cases[::-1], steps=150, hidden=12)
    assert list(one) == cases and list(two) == cases[::-1]
    assert all(same(one[case], two[case]) for case in cases)
    assert not same(one["right", 1], one["right", 3]) and not same(one["right", 1], one["no mean term", 1])
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("name", ["right", *WRONG])
def test_a_trial_is_what_train_returns(data, name, monkeypatch):
    monkeypatch.setattr(trial, "_data", data, raising=False)
    found = trial._with_tensors(trial._run(name, 5, 120, 12))
    run = train(data, 120, 5, 12, progress=False, step_class=WRONG.get(name, Step))
    assert same(found, trial.Trial(run.params, run.stats, run.losses, None))


class Explodes(Step):
    def update(self):
        super().update()
        self.b2 += np.float32(2e38)  # the second time it overflows


def test_a_diverging_trial_is_a_result(data, monkeypatch):
    monkeypatch.setattr(trial, "_data", data, raising=False)
    monkeypatch.setitem(WRONG, "explodes", Explodes)
    found = trial._with_tensors(trial._run("explodes", 5, 250, 12))
    assert found.params is None and found.stats is None
    assert len(found.losses) == found.diverged + 1 and found.diverged > 0
    assert np.isfinite(found.losses[:-1]).all() and not np.isfinite(found.losses[-1])


def test_a_trial_cut_short_is_none(data, monkeypatch):
    monkeypatch.setattr(trial, "_data", data, raising=False)
    monkeypatch.setattr(trial, "train", lambda *a, **k: train(*a, **k)._replace(finished=False))
    with pytest.raises(KeyboardInterrupt):
        trial._run("right", 5, 10, 12)


def test_unknown_derivation(data):
    with pytest.raises(ValueError, match="no derivation is named 'left'"):
        run_trials(data, [("right", 1), ("left", 1)])


SCRIPT = """
from makemore_bp import load
from makemore_bp.trial import run_trials
if __name__ == "__main__":
    print("ready", flush=True)
    run_trials(load(), [("right", seed) for seed in range(1, 9)])
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals to send")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_interrupted_trials_do_not_linger(tmp_path, name):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as script:
        script.stdout.readline()
        time.sleep(8)
        script.send_signal(getattr(signal, name))
        # until every process has closed it; eight whole runs take minutes
        script.communicate(timeout=20)
        assert script.returncode == -getattr(signal, name)
