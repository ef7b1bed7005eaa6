"""The same 200,000 steps with no PyTorch in the loop: it only draws the starting weights and the batches.

Group by group beside train.py. What is left out of the loop is what the mathematics allows: centring commutes
with every linear layer, so the one-hot letters are centred in place of the hidden layer; b1 and both paths
through the mean then drop out. The learning rate is in the targets, since every later gradient is linear in
dlogits. And what no later step reads (losses, running statistics) is reckoned for a block of steps at once.
"""

import math
import time

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from .data import Data
from .model import EPS, SEED, Params, Stats, draw
from .train import BATCH, STEPS, Diverged, Run, check, rate

BLOCK = 100  # steps whose batches are drawn and whose records are settled at once


class Step:
    """Training steps on arrays made once. Shapes: n rows, H hidden units, V = 27 letters, D = 30 inputs.

    begin(X, Y, rates) takes a block of minibatches, each call then does one step, end() returns the losses.
    """

    def __init__(self, params: Params, n: int = BATCH):
        arrays = [p.detach().numpy() for p in params]
        C, W1, b1, W2, b2, gain, bias = arrays
        (V, E), (D, H), dtype = C.shape, W1.shape, C.dtype
        self.n, self.V = n, V
        # parameters and gradients: two flat arrays and views into them, so that the update is one subtraction
        sizes = [C.shape, W1.shape, W2.shape, (V, 1), (H,), (H,)]
        self.theta, self.grads = np.empty((2, sum(map(math.prod, sizes))), dtype)
        self.C, self.W1, self.W2, self.b2, self.gain, self.bias = _views(self.theta, sizes)
        self.dC, self.dW1, self.dW2, self.db2, self.dgain, self.dbias = _views(self.grads, sizes)
        for view, array in zip(_views(self.theta, sizes), (C, W1, W2, b2, gain, bias)):
            view[:] = array.reshape(view.shape)
        self.b1, self.eps = b1.copy(), np.full(H, EPS, dtype)
        # forward values
        self.emb = np.empty((n * D // E + D // E, E), dtype)
        self.X = self.emb[: n * D // E].reshape(n, D)  # embcat, centred
        self.x_mean = self.emb[n * D // E :].reshape(D)  # what it was centred by
        self.hc, self.h, self.work, self.dh = np.empty((4, n, H), dtype)
        self.var_eps, self.std, self.scale, self.along = np.empty((4, H), dtype)
        # letters down, rows across: what is done to each row of the batch then runs along the memory
        self.logits, self.dlogits = np.empty((2, V, n), dtype)
        self.top, self.factor = np.empty((2, n), dtype)
        self.demb = np.empty((n * D // E, E), dtype)
        self.dX = self.demb.reshape(n, D)
        # sums over rows as products with a row of ones: faster than sum(0)
        self.ones, self.bessel = np.ones(n, dtype), np.full(n, 1 / (n - 1), dtype)
        self.ones_V = np.ones(V, dtype)
        # a block's letters, one-hot and centred, with the rows that were taken off below them; its targets; its records
        self.letters = np.empty((BLOCK, len(self.emb), V), dtype)
        self.targets = np.empty((BLOCK, V, n), dtype)
        self.flat_targets, self.flat_logits = self.targets.reshape(BLOCK, -1), self.logits.ravel()
        self.picked = np.empty(BLOCK, dtype)
        self.counts_sum = np.empty((BLOCK, n), dtype)
        self.batch_stats = np.empty((BLOCK, 2, H), dtype)
        self.stats = np.stack([np.zeros(H, dtype), np.ones(H, dtype)])  # running mean (less b1) and variance

    def begin(self, X: np.ndarray, Y: np.ndarray, rates: list[float]) -> None:
        """Take up to BLOCK minibatches, X (K, n, 3) and Y (K, n), and their learning rates (K,)."""
        (K, n, places), V = X.shape, self.V
        self.k, self.rates = 0, np.asarray(rates, self.C.dtype)
        self.rates_over_n = self.rates / n
        step, row, place = np.ogrid[:K, :n, :places]
        # the mean of one-hot rows is how often each letter occurs
        counts = np.bincount(((step * places + place) * V + X).ravel(), minlength=K * places * V)
        mean = (counts / n).reshape(K, 1, places, V)
        centred = self.letters[:K, :-places].reshape(K, n, places, V)  # a view
        centred[:] = -mean
        centred[step, row, place, X] += 1
        self.letters[:K, -places:] = mean[:, 0]
        self.targets[:K] = 0
        self.targets[step[..., 0], Y, row[..., 0]] = self.rates_over_n[:, None]

    def __call__(self):
        """One step: the next minibatch of the block."""
        self.forward_to_h()
        self.forward_to_loss()
        self.logits_group()
        self.second_layer()
        self.tanh()
        self.batchnorm()
        self.first_layer()
        self.embedding()
        self.running()
        self.update()
        self.k += 1

    def end(self) -> list[float]:
        """The losses of the block's steps so far, a list; their statistics go into the running ones."""
        k = self.k
        losses = np.log(self.counts_sum[:k]).mean(1) - self.picked[:k] / self.rates[:k]
        weights = 0.001 * 0.999 ** np.arange(k)[::-1]
        news = np.tensordot(weights.astype(self.C.dtype), self.batch_stats[:k], 1)
        self.stats = 0.999**k * self.stats + news
        return losses.tolist()

    def forward_to_h(self):
        k = self.k
        np.dot(self.letters[k], self.C, out=self.emb)
        np.dot(self.X, self.W1, out=self.hc)  # hprebn less its mean, b1 with it
        np.multiply(self.hc, self.hc, out=self.work)
        var = np.dot(self.bessel, self.work, out=self.batch_stats[k, 1])
        np.add(var, self.eps, out=self.var_eps)
        np.sqrt(self.var_eps, out=self.std)
        np.divide(self.gain, self.std, out=self.scale)
        np.multiply(self.hc, self.scale, out=self.h)
        self.h += self.bias
        np.tanh(self.h, out=self.h)

    def forward_to_loss(self):
        k = self.k
        np.dot(self.W2.T, self.h.T, out=self.logits)
        self.logits += self.b2
        np.maximum.reduce(self.logits, 0, out=self.top)
        self.logits -= self.top
        self.picked[k] = np.dot(self.flat_targets[k], self.flat_logits)
        np.exp(self.logits, out=self.logits)  # from here on: counts
        np.dot(self.ones_V, self.logits, out=self.counts_sum[k])

    def logits_group(self):
        k = self.k
        np.divide(self.rates_over_n[k], self.counts_sum[k], out=self.factor)
        np.multiply(self.logits, self.factor, out=self.dlogits)
        self.dlogits -= self.targets[k]

    def second_layer(self):
        np.dot(self.dlogits.T, self.W2.T, out=self.dh)
        np.dot(self.h.T, self.dlogits.T, out=self.dW2)
        np.dot(self.dlogits, self.ones, out=self.db2[:, 0])

    def tanh(self):
        np.multiply(self.h, self.h, out=self.work)
        self.work *= self.dh
        self.dh -= self.work  # from here on: dhpreact

    def batchnorm(self):
        np.dot(self.ones, self.dh, out=self.dbias)
        np.multiply(self.hc, self.dh, out=self.work)
        np.dot(self.ones, self.work, out=self.dgain)
        self.dgain /= self.std
        np.dot(self.bessel, self.work, out=self.along)
        self.along *= self.scale
        self.along /= self.var_eps
        self.dh *= self.scale
        np.multiply(self.hc, self.along, out=self.work)
        self.dh -= self.work  # from here on: dhprebn but for the path through the mean

    def first_layer(self):
        np.dot(self.X.T, self.dh, out=self.dW1)  # the centred input takes the mean's correction along
        np.dot(self.dh, self.W1.T, out=self.dX)

    def embedding(self):
        np.dot(self.letters[self.k, : len(self.demb)].T, self.demb, out=self.dC)  # so do the centred letters

    def running(self):
        np.dot(self.x_mean, self.W1, out=self.batch_stats[self.k, 0])

    def update(self):
        self.theta -= self.grads

    def b1_share(self, steps):
        """What b1, which stays as it is, would have added to a running mean that started at 0."""
        return self.b1 * (1 - 0.999**steps)

    def result(self, steps: int) -> tuple[Params, Stats]:
        """Params and Stats as tensors (copies)."""
        mean, var = self.stats
        mean = mean + self.b1_share(steps)
        arrays = self.C, self.W1, self.b1, self.W2, self.b2[:, 0], self.gain[None], self.bias[None]
        *params, mean, var = [torch.tensor(array, device="cpu") for array in (*arrays, mean[None], var[None])]
        return Params(*params), Stats(mean, var)


def _views(flat, shapes):
    ends = np.cumsum([math.prod(s) for s in shapes])
    return [part.reshape(s) for part, s in zip(np.split(flat, ends[:-1]), shapes, strict=True)]


def _check(losses, first):
    for step, loss in enumerate(losses[first:], first):
        if not math.isfinite(loss):
            raise Diverged(
                f"the loss is {loss} at step {step}: the gradients or the learning rate are wrong."
            )


def train(
    data: Data,
    steps: int = STEPS,
    seed: int = SEED,
    hidden: int = 200,
    dtype: torch.dtype = torch.float32,
    b1: bool = True,
    progress: bool = True,
    batch: int = BATCH,
    step_class: type[Step] = Step,
) -> Run:
    """Train as train.train does, in NumPy; return a Run. step_class may exchange single groups for wrong ones."""
    check(data, steps, seed, hidden, dtype, batch)
    params, g = draw(hidden, seed, dtype)
    if not b1:
        params = params._replace(b1=torch.zeros_like(params.b1))
    one_step, losses, finished = step_class(params, batch), [], False
    X, Y = data.Xtr.numpy(), data.Ytr.numpy()
    start = time.perf_counter()
    bar = tqdm(total=steps, desc="train by numpy", unit="step", disable=not progress)
    try:
        # what overflows shows in the losses
        with threadpool_limits(1, user_api="blas"), np.errstate(all="ignore"):
            for first in range(0, steps, BLOCK):
                block = range(first, min(first + BLOCK, steps))
                ix = torch.randint(0, len(X), (len(block), batch), generator=g, device="cpu").numpy()
                one_step.begin(X[ix], Y[ix], [rate(step) for step in block])
                try:
                    for step in block:
                        one_step()
                finally:
                    losses += one_step.end()
                _check(losses, first)
                bar.update(len(block))
        finished = True
    except KeyboardInterrupt:
        pass
    finally:
        bar.close()
    return Run(*one_step.result(len(losses)), losses, finished, time.perf_counter() - start)
