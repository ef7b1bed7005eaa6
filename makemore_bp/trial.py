"""Eight wrong derivations, each as a training step that is right but for one thing; and their trials, in processes."""

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from . import checks
from .data import Data
from .model import Params, Stats
from .train import STEPS, Diverged, check
from .train_numpy import Step, train


class BesselForgotten(Step):
    """BatchNorm's backward divides by n where the forward pass divided by n - 1."""

    def batchnorm(self):
        self.var_eps *= self.n / (self.n - 1)
        super().batchnorm()


class NoVarianceTerm(Step):
    """BatchNorm's backward without the path through the variance."""

    def batchnorm(self):
        self.var_eps[:] = np.inf
        super().batchnorm()


class NoMeanTerm(Step):
    """BatchNorm's backward without the path through the mean; b1's gradient is then not zero."""

    def __init__(self, params, *sizes):
        super().__init__(params, *sizes)
        self.share = np.zeros_like(self.b1)

    def first_layer(self):
        self.X += self.x_mean  # not centred: nothing takes the mean along
        super().first_layer()
        self.db1 = self.dh.sum(0)

    def embedding(self):
        letters, mean = np.split(self.letters[self.k], [len(self.demb)])
        plain = letters.reshape(self.n, *mean.shape) + mean  # one-hot again
        np.dot(plain.reshape(letters.shape).T, self.demb, out=self.dC)

    def running(self):
        super().running()
        self.share = 0.999 * self.share + 0.001 * self.b1
        self.b1 -= self.db1

    def b1_share(self, steps):
        return self.share


class NoTanhDerivative(Step):
    """dhpreact = dh."""

    def tanh(self):
        pass


class Assigned(Step):
    """dC[Xb] = demb: of a letter that occurs more than once, only the last row counts."""

    def begin(self, X, Y, rates):
        super().begin(X, Y, rates)
        self.Xb = X.reshape(len(X), -1)

    def embedding(self):
        self.dX -= self.dX.mean(0)
        self.dC[:] = 0
        self.dC[self.Xb[self.k]] = self.demb


class Swapped(Step):
    """dbngain and dbnbias change places in the update; their shapes are the same."""

    def batchnorm(self):
        super().batchnorm()
        self.dgain[:], self.dbias[:] = self.dbias.copy(), self.dgain.copy()


class FromDembcat(Step):
    """dW1 = dembcat.T @ dhprebn in place of embcat.T @ dhprebn; the shapes fit."""

    def first_layer(self):
        super().first_layer()
        dhprebn, dembcat = self.dh - self.dh.mean(0), self.dX - self.dX.mean(0)
        self.dW1[:] = dembcat.T @ dhprebn / self.rates[self.k]  # both factors carry the learning rate


class SummedLoss(Step):
    """The gradient of the loss summed over the batch, at the learning rate of the mean."""

    def logits_group(self):
        super().logits_group()
        self.dlogits *= self.n


WRONG = {
    "n for n - 1": BesselForgotten,
    "no variance term": NoVarianceTerm,
    "no mean term": NoMeanTerm,
    "no tanh derivative": NoTanhDerivative,
    "dC assigned": Assigned,
    "dbngain, dbnbias swapped": Swapped,
    "dW1 from dembcat": FromDembcat,
    "sum for mean": SummedLoss,
}


class Trial(NamedTuple):
    """What one derivation on one seed came to. Where it diverged, params and stats are None."""

    params: Params | None
    stats: Stats | None
    losses: np.ndarray  # one minibatch loss a step, up to the first nan or inf
    diverged: int | None  # the step whose loss is that nan or inf


def run_trials(
    data: Data, cases: list[tuple[str, int]], steps: int = STEPS, hidden: int = 200, processes: int = 2
) -> dict[tuple[str, int], Trial]:
    """Train every case, a pair (name, seed) with "right" or a name of WRONG; return case -> Trial, in that order.

    Each case is a run of its own, so neither their order nor the number of processes changes a result.
    In a script it must stand under `if __name__ == "__main__"`: each process begins by importing the script.
    """
    checks.kind("cases", cases, "a list of pairs (name, seed)", (list, tuple))
    for case in cases:
        if not (isinstance(case, tuple) and len(case) == 2):
            raise TypeError(f"a case is to be a pair (name, seed), not {checks.shown(case)}.")
        if not isinstance(case[0], str) or case[0] not in ("right", *WRONG):
            raise ValueError(
                f"no derivation is named {checks.shown(case[0])}; there are: right, {', '.join(WRONG)}."
            )
        check(data, steps, case[1], hidden)
    checks.whole("processes", processes, 1)
    cases = list(dict.fromkeys(cases))
    # NumPy arrays go back and forth: torch would send its tensors through shared memory
    arrays = [part.numpy() for part in data[:6]]
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), _start_worker, (arrays, data.names)
    )
    try:
        futures = [pool.submit(_run, name, seed, steps, hidden) for name, seed in cases]
        return {case: _with_tensors(future.result()) for case, future in zip(cases, futures)}
    except BaseException:  # Ctrl-C too: what still runs is not waited for
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker(arrays, names):
    global _data
    torch.set_num_threads(1)
    _data = Data(*map(torch.from_numpy, arrays), names)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent():
    multiprocessing.parent_process().join()
    os._exit(1)  # a kernel that was killed waits for no result


def _run(name, seed, steps, hidden):
    losses = []

    class Noted(WRONG.get(name, Step)):
        def end(self):
            ended = super().end()
            losses.extend(ended)
            return ended

    try:
        run = train(_data, steps, seed, hidden, progress=False, step_class=Noted)
    except Diverged:
        step = int(np.argmin(np.isfinite(losses)))
        return None, None, np.array(losses[: step + 1]), step
    if not run.finished:  # no half run is to pass for a whole one
        raise KeyboardInterrupt
    return [p.numpy() for p in run.params], [s.numpy() for s in run.stats], np.array(losses), None


def _with_tensors(sent):
    params, stats, losses, diverged = sent
    if diverged is not None:
        return Trial(None, None, losses, diverged)
    tensor = partial(torch.tensor, device="cpu")
    return Trial(Params(*map(tensor, params)), Stats(*map(tensor, stats)), losses, None)
