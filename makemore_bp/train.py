"""200,000 steps of plain gradient descent: the gradients by hand, or by loss.backward()."""

import math
import time
from contextlib import contextmanager
from typing import NamedTuple

import torch
from tqdm import tqdm  # not tqdm.auto: it warns where there is no ipywidgets

from . import checks
from .backward import backward_six
from .data import Data
from .model import SEED, Params, Stats, draw, merged, minibatch

BATCH = 32
STEPS = 200_000
DECAY_AT = 100_000  # from this step on the learning rate is a tenth


class Run(NamedTuple):
    """What a training run leaves. An interrupted one holds what it had: finished is False."""

    params: Params
    stats: Stats  # running mean and variance
    losses: list[float]  # one minibatch loss a step
    finished: bool
    seconds: float


class Diverged(ArithmeticError):
    """The loss became nan or inf; the message names the step."""


def rate(step: int) -> float:
    """The learning rate: large steps first, then refining."""
    return 0.1 if step < DECAY_AT else 0.01


@contextmanager
def one_thread():
    """PyTorch on one thread: tensors as small as these gain nothing from a second, and may wait for it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def by_hand(params, v):
    return backward_six(v)


def by_backward(params, v):
    for p in params:
        p.grad = None
    v.loss.backward()
    return Params(*(p.grad for p in params))


def check(data, steps, seed, hidden, dtype=torch.float32, batch=BATCH, by="hand"):
    """Raise TypeError or ValueError, in a sentence, for an argument that cannot be trained with."""
    if not isinstance(data, Data):
        raise TypeError(f"data is to be what load() returns, and is of type {type(data).__name__}.")
    if not isinstance(by, str) or by not in ("hand", "backward"):
        raise ValueError(
            f"by is to be 'hand' or 'backward', not {checks.shown(by)}; NumPy has train_numpy.train."
        )
    for name, value, least in (
        ("steps", steps, 1),
        ("seed", seed, 0),
        ("hidden", hidden, 1),
        ("batch", batch, 2),
    ):
        checks.whole(name, value, least)
    checks.dtype(dtype)
    checks.batch(draw(1)[0], data.Xtr, data.Ytr, names=("data.Xtr", "data.Ytr"))  # once, not at each step


@one_thread()
def train(
    data: Data,
    by: str = "hand",
    steps: int = STEPS,
    seed: int = SEED,
    hidden: int = 200,
    dtype: torch.dtype = torch.float32,
    b1: bool = True,
    progress: bool = True,
    batch: int = BATCH,
) -> Run:
    """Train on data.Xtr, data.Ytr; return a Run.

    by: who computes the gradients, "hand" or "backward". b1=False trains the model without b1.
    Ctrl-C (or the notebook's stop button) ends it early and returns what there is. Raises Diverged.
    """
    check(data, steps, seed, hidden, dtype, batch, by)
    gradients = {"hand": by_hand, "backward": by_backward}[by]
    params, g = draw(hidden, seed, dtype)
    if not b1:
        params = params._replace(b1=torch.zeros_like(params.b1))
    trained = [name for name in Params._fields if name != "b1" or b1]
    mean, var = torch.zeros_like(params.bnbias), torch.ones_like(params.bngain)
    losses, start, finished = [], time.perf_counter(), False
    bar = tqdm(total=steps, desc=f"train by {by}", unit="step", mininterval=0.5, disable=not progress)
    try:
        for step in range(steps):
            Xb, Yb = minibatch(data.Xtr, data.Ytr, g, batch)
            with torch.set_grad_enabled(by == "backward"):
                v = merged(params, Xb, Yb)
            grads = gradients(params, v)
            with torch.no_grad():
                for name in trained:
                    getattr(params, name).sub_(getattr(grads, name), alpha=rate(step))
                mean = 0.999 * mean + 0.001 * v.bnmeani
                var = 0.999 * var + 0.001 * v.bnvar
            losses.append(v.loss.item())
            if not math.isfinite(losses[-1]):
                raise Diverged(
                    f"the loss is {losses[-1]} at step {step}: the gradients or the learning rate are wrong."
                )
            bar.update()
        finished = True
    except KeyboardInterrupt:
        pass
    finally:
        bar.close()
    return Run(
        Params(*(p.detach() for p in params)), Stats(mean, var), losses, finished, time.perf_counter() - start
    )
