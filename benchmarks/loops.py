"""What the benchmark times: the same training, in as many ways as there are programs to run it.

Each is a class, made from the data, the number of hidden units and the seed; start() goes back to the starting
weights, steps(count) takes that many steps from there and returns their losses. All keep the running
statistics, as training does.
"""

import ctypes
import math
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from makemore_bp import train, train_numpy
from makemore_bp.model import EPS, draw, minibatch

N = 32
RATE = 0.1


class Missing(Exception):
    """What a loop needs is not on this machine; the message says what."""


class Loop:
    """In PyTorch, one step at a time."""

    def __init__(self, data, hidden, seed):
        self.data, self.hidden, self.seed = data, hidden, seed
        self.start()

    def start(self):
        params, self.g = draw(self.hidden, self.seed)
        self.params = list(params)
        self.mean, self.var = torch.zeros_like(params.bnbias), torch.ones_like(params.bngain)

    def steps(self, count):
        return [self.step(*minibatch(self.data.Xtr, self.data.Ytr, self.g, N)) for _ in range(count)]

    def forward(self, X, Y):
        C, W1, b1, W2, b2, bngain, bnbias = self.params
        self.emb = C[X]
        self.embcat = self.emb.view(self.emb.shape[0], -1)
        hprebn = self.embcat @ W1 + b1
        self.bnmeani, self.bnvar = hprebn.mean(0, keepdim=True), hprebn.var(0, keepdim=True)
        self.bnvar_inv = (self.bnvar + EPS) ** -0.5
        self.bnraw = (hprebn - self.bnmeani) * self.bnvar_inv
        self.h = torch.tanh(bngain * self.bnraw + bnbias)
        self.logits = self.h @ W2 + b2
        return F.cross_entropy(self.logits, Y)

    @torch.no_grad()
    def update(self, grads):
        for p, grad in zip(self.params, grads, strict=True):
            p -= RATE * grad
        self.mean = 0.999 * self.mean + 0.001 * self.bnmeani
        self.var = 0.999 * self.var + 0.001 * self.bnvar


class Backward(Loop):
    """A lecture's loop: forward pass, loss.backward(), update."""

    def step(self, X, Y):
        loss = self.forward(X, Y)
        for p in self.params:
            p.grad = None
        loss.backward()
        self.update([p.grad for p in self.params])
        return loss.item()


class ByHand(Loop):
    """The same by hand; the embedding's gradient collected by index_add_."""

    @torch.no_grad()
    def step(self, X, Y):
        loss = self.forward(X, Y)
        C, W1, b1, W2, b2, bngain, bnbias = self.params
        n = X.shape[0]
        dlogits = F.softmax(self.logits, 1)
        dlogits[range(n), Y] -= 1
        dlogits /= n
        dh = dlogits @ W2.T
        dhpreact = (1 - self.h**2) * dh
        dbngain = (self.bnraw * dhpreact).sum(0, keepdim=True)
        dbnbias = dhpreact.sum(0, keepdim=True)
        spread = n * dhpreact - dbnbias - n / (n - 1) * self.bnraw * dbngain
        dhprebn = bngain * self.bnvar_inv / n * spread
        demb = (dhprebn @ W1.T).view(self.emb.shape)
        dC = self.collect(X, demb)
        dW1, db1 = self.embcat.T @ dhprebn, dhprebn.sum(0)
        self.update([dC, dW1, db1, self.h.T @ dlogits, dlogits.sum(0), dbngain, dbnbias])
        return loss.item()

    def collect(self, X, demb):
        return torch.zeros_like(self.params[0]).index_add_(0, X.flatten(), demb.flatten(0, 1))


class ByHandLoop(ByHand):
    """The same, with a Python loop over the embedding's rows."""

    def collect(self, X, demb):
        dC = torch.zeros_like(self.params[0])
        for row in range(X.shape[0]):
            for place in range(X.shape[1]):
                dC[X[row, place]] += demb[row, place]
        return dC


class CourseBackward(Loop):
    """This project's train.py."""

    by = "backward"

    def steps(self, count):
        return train.train(self.data, self.by, count, self.seed, self.hidden, progress=False).losses


class CourseByHand(CourseBackward):
    by = "hand"


class CourseNumPy(Loop):
    """This project's train_numpy.py."""

    def steps(self, count):
        return train_numpy.train(self.data, count, self.seed, self.hidden, progress=False).losses


class Blocks:
    """Not in PyTorch: a block of minibatches at a time, from the same stream."""

    def __init__(self, data, hidden, seed):
        self.X, self.Y = data.Xtr.numpy(), data.Ytr.numpy()
        self.hidden, self.seed = hidden, seed
        self.start()

    def start(self):
        params, self.g = draw(self.hidden, self.seed)
        self.arrays = [p.detach().numpy() for p in params]

    def steps(self, count):
        losses = []
        for first in range(0, count, train_numpy.BLOCK):
            size = min(train_numpy.BLOCK, count - first)
            ix = torch.randint(0, len(self.X), (size, N), generator=self.g).numpy()
            losses += self.block(self.X[ix], self.Y[ix])
        return losses


class Compiled(Backward):
    """The lecture's loop with its forward pass, and so its backward(), through torch.compile."""

    def __init__(self, *options):
        super().__init__(*options)
        if not (shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")):
            raise Missing("there is no C++ compiler")
        self.compiled = torch.compile(_merged, fullgraph=True)

    def forward(self, X, Y):
        loss, self.bnmeani, self.bnvar = self.compiled(*self.params, X, Y)
        return loss


def _merged(C, W1, b1, W2, b2, bngain, bnbias, X, Y):
    hprebn = C[X].view(X.shape[0], -1) @ W1 + b1
    mean, var = hprebn.mean(0, keepdim=True), hprebn.var(0, keepdim=True)
    h = torch.tanh(bngain * (hprebn - mean) * (var + EPS) ** -0.5 + bnbias)
    return F.cross_entropy(h @ W2 + b2, Y), mean, var


class CompiledByHand(Compiled):
    """The whole step by hand, update and running statistics too, through torch.compile."""

    def __init__(self, *options):
        super().__init__(*options)
        self.whole = torch.compile(_step_by_hand, fullgraph=True)

    @torch.no_grad()
    def step(self, X, Y):
        loss, self.mean, self.var, *self.params = self.whole(self.mean, self.var, *self.params, X, Y)
        return loss.item()


def _step_by_hand(mean, var, C, W1, b1, W2, b2, bngain, bnbias, X, Y):
    n, embcat = X.shape[0], C[X].view(X.shape[0], -1)
    hprebn = embcat @ W1 + b1
    bnmeani, bnvar = hprebn.mean(0, keepdim=True), hprebn.var(0, keepdim=True)
    bnvar_inv = (bnvar + EPS) ** -0.5
    bnraw = (hprebn - bnmeani) * bnvar_inv
    h = torch.tanh(bngain * bnraw + bnbias)
    logits = h @ W2 + b2
    loss = F.cross_entropy(logits, Y)
    dlogits = (F.softmax(logits, 1) - F.one_hot(Y, logits.shape[1])) / n
    dhpreact = (1 - h**2) * (dlogits @ W2.T)
    dbngain, dbnbias = (bnraw * dhpreact).sum(0, keepdim=True), dhpreact.sum(0, keepdim=True)
    dhprebn = bngain * bnvar_inv * (dhpreact - dbnbias / n - bnraw * dbngain / (n - 1))
    demb = (dhprebn @ W1.T).view(-1, C.shape[1])
    dC = torch.zeros_like(C).index_add_(0, X.flatten(), demb)
    grads = [dC, embcat.T @ dhprebn, dhprebn.sum(0), h.T @ dlogits, dlogits.sum(0), dbngain, dbnbias]
    new = [p - RATE * grad for p, grad in zip((C, W1, b1, W2, b2, bngain, bnbias), grads)]
    return loss, 0.999 * mean + 0.001 * bnmeani, 0.999 * var + 0.001 * bnvar, *new


class Jax(Blocks):
    """JAX: lax.scan over jax.grad of the loss, compiled as one program."""

    def __init__(self, *options):
        try:
            import jax
        except ImportError:
            raise Missing("JAX is not installed (it comes with the extra `bench`)") from None
        super().__init__(*options)
        self.scan = jax.jit(lambda state, XY: jax.lax.scan(self.one_step(jax), state, XY))

    def start(self):
        super().start()
        row = (1, self.hidden)
        self.state = tuple(self.arrays), np.zeros(row, "f4"), np.ones(row, "f4")

    def block(self, X, Y):
        self.state, losses = self.scan(self.state, (X.astype("i4"), Y.astype("i4")))
        return np.asarray(losses).tolist()

    def one_step(self, jax):
        jnp = jax.numpy

        def forward(params, X):
            C, W1, b1, W2, b2, bngain, bnbias = params
            hprebn = C[X].reshape(len(X), -1) @ W1 + b1
            bnmeani, bnvar = hprebn.mean(0, keepdims=True), hprebn.var(0, keepdims=True, ddof=1)
            h = jnp.tanh(bngain * (hprebn - bnmeani) * (bnvar + EPS) ** -0.5 + bnbias)
            return jax.nn.log_softmax(h @ W2 + b2), (bnmeani, bnvar)

        def loss_of(params, X, Y):
            logprobs, kept = forward(params, X)
            return -jnp.take_along_axis(logprobs, Y[:, None], 1).mean(), kept

        def step(state, XY):
            params, mean, var = state
            (loss, (bnmeani, bnvar)), grads = jax.value_and_grad(loss_of, has_aux=True)(params, *XY)
            return (_descend(params, grads), *_running(mean, var, bnmeani, bnvar)), loss

        return step


def _descend(params, grads):
    return tuple(p - RATE * grad for p, grad in zip(params, grads))


def _running(mean, var, bnmeani, bnvar):
    return 0.999 * mean + 0.001 * bnmeani, 0.999 * var + 0.001 * bnvar


class JaxByHand(Jax):
    """JAX: lax.scan over the gradients derived by hand, compiled as one program."""

    def one_step(self, jax):
        jnp = jax.numpy

        def step(state, XY):
            (params, mean, var), (X, Y) = state, XY
            C, W1, b1, W2, b2, bngain, bnbias = params
            n, embcat = len(X), C[X].reshape(len(X), -1)
            hprebn = embcat @ W1 + b1
            bnmeani, bnvar = hprebn.mean(0, keepdims=True), hprebn.var(0, keepdims=True, ddof=1)
            bnvar_inv = (bnvar + EPS) ** -0.5
            bnraw = (hprebn - bnmeani) * bnvar_inv
            h = jnp.tanh(bngain * bnraw + bnbias)
            logprobs = jax.nn.log_softmax(h @ W2 + b2)
            loss = -jnp.take_along_axis(logprobs, Y[:, None], 1).mean()
            dlogits = (jnp.exp(logprobs) - jax.nn.one_hot(Y, W2.shape[1])) / n
            dhpreact = (1 - h**2) * (dlogits @ W2.T)
            dbngain, dbnbias = (bnraw * dhpreact).sum(0, keepdims=True), dhpreact.sum(0, keepdims=True)
            dhprebn = bngain * bnvar_inv * (dhpreact - dbnbias / n - bnraw * dbngain / (n - 1))
            dC = jnp.zeros_like(C).at[X].add((dhprebn @ W1.T).reshape(*X.shape, -1))
            grads = dC, embcat.T @ dhprebn, dhprebn.sum(0), h.T @ dlogits, dlogits.sum(0), dbngain, dbnbias
            return (_descend(params, grads), *_running(mean, var, bnmeani, bnvar)), loss

        return step


class InC(Blocks):
    """The floor: step.c, built on the spot."""

    flags = ["-O3", "-march=native"]
    groups = None  # six doubles, where the time is to be told apart

    def __init__(self, *options):
        super().__init__(*options)
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not compiler:
            raise Missing("there is no C compiler")
        # a library in use may be removed, but for Windows, which keeps it
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            library = Path(folder, "step.so")
            command = [compiler, *self.flags, "-shared", "-fPIC", f"-DN={N}", f"-DH={self.hidden}"]
            command += ["-o", library, Path(__file__).with_name("step.c"), "-lm"]
            built = subprocess.run(command, capture_output=True, text=True)
            if built.returncode:
                raise Missing(f"{compiler} does not build it ({built.stderr.strip().splitlines()[-1]})")
            self.program = ctypes.CDLL(str(library)).steps
        self.program.restype = None

    def start(self):
        super().start()
        C, W1, b1, W2, b2, gain, bias = self.arrays
        self.theta = np.concatenate([a.ravel() for a in (C, W1, W2, b2, gain, bias)])
        self.mean, self.var = np.zeros(self.hidden, "f4"), np.ones(self.hidden, "f4")

    def block(self, X, Y):
        losses = np.empty(len(X), "f4")
        X, Y = (np.ascontiguousarray(a, dtype="i8") for a in (X, Y))
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (self.theta, self.mean, self.var, X, Y)]
        count, rate = ctypes.c_int64(len(X)), ctypes.c_float(RATE)
        self.program(*pointers, count, rate, ctypes.c_void_p(losses.ctypes.data), self.groups)
        return losses.tolist()


class InCFast(InC):
    """The same, with leave to reorder sums."""

    flags = [*InC.flags, "-ffast-math"]


LOOPS = {
    "lecture's loop, backward()": Backward,
    "lecture's loop by hand, Python loop over dC": ByHandLoop,
    "lecture's loop by hand, index_add_": ByHand,
    "this course, backward()": CourseBackward,
    "this course, by hand": CourseByHand,
    "this course, NumPy": CourseNumPy,
    "torch.compile, backward()": Compiled,
    "torch.compile, by hand": CompiledByHand,
    "JAX, jax.grad": Jax,
    "JAX, by hand": JaxByHand,
    "C": InC,
    "C, -ffast-math": InCFast,
}


def multiply_adds(H, n=N, V=27, D=30):
    """Of one step's six products: forward pass, and two gradients each, of both layers."""
    return 3 * n * H * (D + V)


def products(H, dtype="f4"):
    """The six products alone, as a function to be timed: the limit that the arithmetic itself sets."""
    rng = np.random.default_rng(0)
    shapes = [(N, 30, H), (N, H, 27), (N, 27, H), (H, N, 27), (30, N, H), (N, H, 30)]
    assert sum(map(math.prod, shapes)) == multiply_adds(H)
    triples = [
        (rng.random((a, b)).astype(dtype), rng.random((b, c)).astype(dtype), np.empty((a, c), dtype))
        for a, b, c in shapes
    ]

    def once():
        for a, b, out in triples:
            np.dot(a, b, out=out)

    return once
