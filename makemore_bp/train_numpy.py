"""The same 200,000 steps with no PyTorch in the loop: it only draws the starting weights and the batches.

Group by group beside train.py. What is left out of the loop is what the mathematics allows: the input is
centred instead of the hidden layer, so that b1 drops out; the mean's correction acts on 30 columns instead
of H; the learning rate multiplies dlogits once, since every later gradient is linear in it.
"""

import math
import time

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

from .model import EPS, SEED, Params, Stats, draw
from .train import BATCH, STEPS, Diverged, Run, rate

BLOCK = 1000  # steps whose batches are drawn at once


class Step:
    """One training step on arrays made once. Shapes: n rows, H hidden units, V = 27 letters, D = 30 inputs."""

    def __init__(self, params, n=BATCH):
        arrays = [p.detach().numpy() for p in params]
        C, W1, b1, W2, b2, gain, bias = arrays
        (V, E), (D, H), dtype = C.shape, W1.shape, C.dtype
        self.n, self.H, self.D = n, H, D
        self.variance_share = 1 / (n - 1)  # of the scale direction, in BatchNorm's backward
        # parameters and gradients: two flat arrays and views into them, so that the update is one subtraction
        sizes = [C.shape, W1.shape, W2.shape, (V, 1), (H,), (H,)]
        self.theta, self.grads = np.empty((2, sum(map(math.prod, sizes))), dtype)
        self.C, self.W1, self.W2, self.b2, self.gain, self.bias = _views(self.theta, sizes)
        self.dC, self.dW1, self.dW2, self.db2, self.dgain, self.dbias = _views(self.grads, sizes)
        for view, array in zip(_views(self.theta, sizes), (C, W1, W2, b2, gain, bias)):
            view[:] = array.reshape(view.shape)
        self.b1 = b1.copy()
        self.stats = np.stack([np.zeros(H, dtype), np.ones(H, dtype)])  # running mean (less b1) and variance
        self.batch_stats = np.empty_like(self.stats)
        # forward values
        self.emb = np.empty((n, D // E, E), dtype)
        self.X = self.emb.reshape(n, D)  # the same numbers: embcat, then centred
        self.x_mean, self.dx_mean = np.empty((2, D), dtype)
        self.hc, self.h, self.work, self.dh = np.empty((4, n, H), dtype)
        self.inv, self.scale, self.coefficient = np.empty((3, H), dtype)
        # letters down, rows across: what is done to each row of the batch then runs along the memory
        self.logits, self.dlogits = np.empty((2, V, n), dtype)
        self.top, self.counts_sum, self.picked = np.empty((3, n), dtype)
        self.demb = np.empty((n * D // E, E), dtype)
        self.dX = self.demb.reshape(n, D)
        # sums over rows as products with a row of ones: faster than sum(0)
        self.ones, self.over_n, self.bessel = (np.full(n, k, dtype) for k in (1, 1 / n, 1 / (n - 1)))
        self.ones_V, self.eye = np.ones(V, dtype), np.eye(V, dtype=dtype)
        self.onehot = np.empty((n * D // E, V), dtype)
        self.rows = np.arange(n)

    def __call__(self, Xb, Yb, rate):
        """One step on Xb (n, 3) and Yb (n,); returns the loss before it."""
        loss = self.forward(Xb, Yb)
        self.logits_group(Yb, rate)
        self.second_layer()
        self.tanh()
        self.batchnorm()
        self.first_layer()
        self.embedding(Xb)
        self.running()
        self.theta -= self.grads
        return loss

    def forward(self, Xb, Yb):
        np.take(self.C, Xb, 0, out=self.emb, mode="clip")
        np.dot(self.over_n, self.X, out=self.x_mean)
        self.X -= self.x_mean
        np.dot(self.X, self.W1, out=self.hc)  # hprebn less its mean: no b1 needed
        np.multiply(self.hc, self.hc, out=self.work)
        var = np.dot(self.bessel, self.work, out=self.batch_stats[1])
        np.add(var, EPS, out=self.inv)
        np.sqrt(self.inv, out=self.inv)
        np.reciprocal(self.inv, out=self.inv)
        np.multiply(self.gain, self.inv, out=self.scale)
        np.multiply(self.hc, self.scale, out=self.h)
        self.h += self.bias
        tanh(self.h)
        np.dot(self.W2.T, self.h.T, out=self.logits)
        self.logits += self.b2
        np.max(self.logits, 0, out=self.top)
        self.logits -= self.top
        self.target = Yb * self.n + self.rows  # where each row's target lies, counted flat
        np.take(self.logits.ravel(), self.target, out=self.picked, mode="clip")
        np.exp(self.logits, out=self.logits)  # from here on: counts
        np.dot(self.ones_V, self.logits, out=self.counts_sum)
        np.log(self.counts_sum, out=self.top)
        self.top -= self.picked
        return float(np.dot(self.over_n, self.top))

    def logits_group(self, Yb, rate):
        step = rate / self.n
        np.divide(step, self.counts_sum, out=self.counts_sum)
        np.multiply(self.logits, self.counts_sum, out=self.dlogits)
        self.dlogits.ravel()[self.target] -= step

    def second_layer(self):
        np.dot(self.dlogits.T, self.W2.T, out=self.dh)
        np.dot(self.h.T, self.dlogits.T, out=self.dW2)
        np.dot(self.dlogits, self.ones, out=self.db2[:, 0])

    def tanh(self):
        np.multiply(self.h, self.h, out=self.work)
        np.subtract(1, self.work, out=self.work)
        self.dh *= self.work  # from here on: dhpreact

    def batchnorm(self):
        np.dot(self.ones, self.dh, out=self.dbias)
        np.multiply(self.hc, self.dh, out=self.work)
        np.dot(self.ones, self.work, out=self.dgain)
        self.dgain *= self.inv
        np.multiply(self.scale, self.inv, out=self.coefficient)
        self.coefficient *= self.dgain
        self.coefficient *= self.variance_share
        self.dh *= self.scale
        np.multiply(self.hc, self.coefficient, out=self.work)
        self.dh -= self.work  # from here on: dhprebn before the mean's correction

    def first_layer(self):
        np.dot(self.X.T, self.dh, out=self.dW1)  # the centred input takes the mean's correction along
        np.dot(self.dh, self.W1.T, out=self.dX)
        np.dot(self.over_n, self.dX, out=self.dx_mean)
        self.dX -= self.dx_mean  # the mean's correction, on 30 columns

    def embedding(self, Xb):
        np.take(self.eye, Xb.ravel(), 0, out=self.onehot, mode="clip")
        np.dot(self.onehot.T, self.demb, out=self.dC)  # scatter-add as a product

    def running(self):
        np.dot(self.x_mean, self.W1, out=self.batch_stats[0])
        self.batch_stats *= 0.001
        self.stats *= 0.999
        self.stats += self.batch_stats

    def b1_share(self, steps):
        """What b1, which stays as it is, would have added to a running mean that started at 0."""
        return self.b1 * (1 - 0.999**steps)

    def result(self, steps):
        """Params and Stats as tensors (copies)."""
        mean, var = self.stats
        mean = mean + self.b1_share(steps)
        arrays = self.C, self.W1, self.b1, self.W2, self.b2[:, 0], self.gain[None], self.bias[None]
        return Params(*map(torch.tensor, arrays)), Stats(torch.tensor(mean[None]), torch.tensor(var[None]))


def tanh(x):
    """tanh in place, as 1 - 2/(e^2x + 1): NumPy's exp is several times as fast as its tanh. Right to 1e-7."""
    x += x
    np.exp(x, out=x)
    x += 1
    np.divide(-2, x, out=x)
    x += 1


def _views(flat, shapes):
    ends = np.cumsum([math.prod(s) for s in shapes])
    return [part.reshape(s) for part, s in zip(np.split(flat, ends[:-1]), shapes, strict=True)]


def train(
    data, steps=STEPS, seed=SEED, hidden=200, dtype=torch.float32, b1=True, progress=True, step_class=Step
):
    """Train as train.train does, in NumPy; return a Run. step_class may exchange single groups for wrong ones."""
    params, g = draw(hidden, seed, dtype)
    if not b1:
        params = params._replace(b1=torch.zeros_like(params.b1))
    one_step, losses, finished = step_class(params), [], False
    X, Y = data.Xtr.numpy(), data.Ytr.numpy()
    start = time.perf_counter()
    bar = tqdm(total=steps, desc="train by numpy", unit="step", disable=not progress)
    try:
        # where e^2x overflows, tanh is 1 as it should be
        with threadpool_limits(1, user_api="blas"), np.errstate(over="ignore"):
            for first in range(0, steps, BLOCK):
                count = min(BLOCK, steps - first)
                ix = torch.randint(0, len(X), (count, BATCH), generator=g).numpy()
                for step, (Xb, Yb) in enumerate(zip(X[ix], Y[ix], strict=True), first):
                    losses.append(one_step(Xb, Yb, rate(step)))
                    if not math.isfinite(losses[-1]):
                        raise Diverged(
                            f"the loss is {losses[-1]} at step {step}: the gradients or the learning rate are wrong."
                        )
                bar.update(count)
        finished = True
    except KeyboardInterrupt:
        pass
    finally:
        bar.close()
    return Run(*one_step.result(len(losses)), losses, finished, time.perf_counter() - start)
