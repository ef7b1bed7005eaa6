"""The model: its parameters, and the forward pass in atomic steps and in merged ones."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch.nn import functional as F

from . import checks
from .data import CONTEXT, VOCAB

EMBEDDING = 10  # numbers a letter is embedded in
SEED = 2147483647  # the lecture's, for weights and minibatches
EPS = 1e-5  # BatchNorm's epsilon
LONGEST = 100  # letters of a drawn name: a model may have learned no end


class Params(NamedTuple):
    """The parameters, in the lecture's order. V = 27 letters, H hidden units."""

    C: torch.Tensor  # (V, 10) embedding table
    W1: torch.Tensor  # (30, H)
    b1: torch.Tensor  # (H,)
    W2: torch.Tensor  # (H, V)
    b2: torch.Tensor  # (V,)
    bngain: torch.Tensor  # (1, H) gamma
    bnbias: torch.Tensor  # (1, H) beta


class Pass(SimpleNamespace):
    """One forward pass: every intermediate as an attribute, under the name it has all through the course."""


def draw(
    hidden: int = 64,
    seed: int = SEED,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
) -> tuple[Params, torch.Generator]:
    """Draw the parameters; return them with the generator that goes on to draw the minibatches.

    Always drawn in float32 on the CPU and then cast or moved, so that every dtype and device starts
    from the same numbers. C, W1, b1, W2, b2 are the lecture's; it draws BatchNorm's two from the
    unseeded global generator, here they come from a second one. Raises ValueError.
    """
    checks.whole("hidden", hidden, 1)
    checks.whole("seed", seed, 0)
    checks.dtype(dtype)
    checks.device(device, dtype)
    g, g_bn = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed + 1)
    normal = partial(torch.randn, dtype=torch.float32, device="cpu")  # whatever PyTorch's defaults are set to
    fan_in = CONTEXT * EMBEDDING
    C = normal((len(VOCAB), EMBEDDING), generator=g)
    # this order of operations, else the last bits differ from the lecture's
    W1 = normal((fan_in, hidden), generator=g) * (5 / 3) / fan_in**0.5
    b1 = normal(hidden, generator=g) * 0.1
    W2 = normal((hidden, len(VOCAB)), generator=g) * 0.1
    b2 = normal(len(VOCAB), generator=g) * 0.1
    bngain = normal((1, hidden), generator=g_bn) * 0.1 + 1.0
    bnbias = normal((1, hidden), generator=g_bn) * 0.1
    drawn = C, W1, b1, W2, b2, bngain, bnbias
    return Params(*(p.to(device=device, dtype=dtype).requires_grad_() for p in drawn)), g


def minibatch(
    X: torch.Tensor, Y: torch.Tensor, g: torch.Generator, n: int = 32
) -> tuple[torch.Tensor, torch.Tensor]:
    """n examples drawn with replacement: Xb (n, 3) and Yb (n,). Drawn on the CPU, the same for every device."""
    checks.examples(X, Y, g, n)
    ix = torch.randint(0, X.shape[0], (n,), generator=g, device="cpu")
    return X[ix], Y[ix]


def _check_variance(v):
    # a constant column's variance is rounding noise of its mean, where it is not 0
    if v.eps > 0:
        return
    noise = v.n * torch.finfo(v.bnvar.dtype).eps * v.bnmeani.abs()
    if (v.bnvar <= noise**2).any():
        raise ValueError(
            "a column of hprebn is constant over the batch: with eps = 0 BatchNorm divides by 0."
        )


def forward(
    params: Params,
    Xb: torch.Tensor,
    Yb: torch.Tensor,
    eps: float = EPS,
    activation: Callable[[torch.Tensor], torch.Tensor] = torch.tanh,
) -> Pass:
    """The forward pass in atomic steps, for Xb (n, 3) and Yb (n,); returns a Pass.

    The rules of `backward` and what `cmp` says are for tanh; notebook 13 puts another `activation` in its place.
    Keeps every intermediate; each retains its gradient, so that after `v.loss.backward()` the
    attribute `v.counts.grad`, say, is the truth to compare with. Raises TypeError or ValueError for what does not
    fit together, for n = 1, and for a column without variance at eps = 0.
    """
    checks.batch(params, Xb, Yb, eps, least=2)
    checks.kind("activation", activation, "a function of hpreact", Callable)
    n = Xb.shape[0]
    v = Pass(Xb=Xb, Yb=Yb, n=n, eps=eps, **params._asdict())
    # embedding and first layer
    v.emb = v.C[Xb]
    v.embcat = v.emb.view(n, -1)
    v.hprebn = v.embcat @ v.W1 + v.b1
    # BatchNorm
    v.bnmeani = v.hprebn.sum(0, keepdim=True) / n
    v.bndiff = v.hprebn - v.bnmeani
    v.bndiff2 = v.bndiff**2
    v.bnvar = v.bndiff2.sum(0, keepdim=True) / (n - 1)
    _check_variance(v)
    v.bnvar_inv = (v.bnvar + eps) ** -0.5
    v.bnraw = v.bndiff * v.bnvar_inv
    v.hpreact = v.bngain * v.bnraw + v.bnbias
    # tanh and second layer
    v.h = activation(v.hpreact)
    v.logits = v.h @ v.W2 + v.b2
    # cross-entropy
    v.logit_maxes = v.logits.max(1, keepdim=True).values
    v.norm_logits = v.logits - v.logit_maxes
    v.counts = v.norm_logits.exp()
    v.counts_sum = v.counts.sum(1, keepdim=True)
    v.counts_sum_inv = v.counts_sum**-1
    v.probs = v.counts * v.counts_sum_inv
    v.logprobs = v.probs.log()
    v.loss = -v.logprobs[range(n), Yb].mean()
    _retain(v)
    return v


def _retain(v):
    for t in vars(v).values():
        if isinstance(t, torch.Tensor) and t.requires_grad:
            t.retain_grad()


def forward_merged(
    params: Params, Xb: torch.Tensor, Yb: torch.Tensor, eps: float = EPS, retain: bool = True
) -> Pass:
    """The same pass with BatchNorm and cross-entropy in one step each; returns a Pass.

    Keeps what the fused backward pass reads: emb, embcat, hprebn, bnmeani, bnvar, bnvar_inv, bnraw,
    hpreact, h, logits and loss. Raises as `forward` does.
    """
    checks.batch(params, Xb, Yb, eps, least=2)
    v = merged(params, Xb, Yb, eps)
    if retain:
        _retain(v)
    return v


def merged(params: Params, Xb: torch.Tensor, Yb: torch.Tensor, eps: float = EPS) -> Pass:
    """What `forward_merged` computes, for a loop that has looked at all its examples beforehand."""
    v = Pass(Xb=Xb, Yb=Yb, n=Xb.shape[0], eps=eps, **params._asdict())
    v.emb = v.C[Xb]
    v.embcat = v.emb.view(v.n, -1)
    v.hprebn = v.embcat @ v.W1 + v.b1
    v.bnmeani = v.hprebn.mean(0, keepdim=True)
    v.bnvar = v.hprebn.var(0, keepdim=True, unbiased=True)
    _check_variance(v)
    v.bnvar_inv = (v.bnvar + eps) ** -0.5
    v.bnraw = (v.hprebn - v.bnmeani) * v.bnvar_inv
    v.hpreact = v.bngain * v.bnraw + v.bnbias
    v.h = torch.tanh(v.hpreact)
    v.logits = v.h @ v.W2 + v.b2
    v.loss = F.cross_entropy(v.logits, Yb)
    return v


class Stats(NamedTuple):
    """What evaluation normalises with in place of a batch's own: BatchNorm's mean and variance, (1, H)."""

    mean: torch.Tensor
    var: torch.Tensor


@torch.no_grad()
def logits_eval(params: Params, stats: Stats, X: torch.Tensor, eps: float = EPS) -> torch.Tensor:
    """The logits (N, V) for X (N, 3). One line differs from training: where mean and variance come from."""
    checks.evaluation(params, stats, X, eps=eps)
    p = params
    hprebn = p.C[X].view(X.shape[0], -1) @ p.W1 + p.b1
    bnraw = (hprebn - stats.mean) * (stats.var + eps) ** -0.5
    return torch.tanh(p.bngain * bnraw + p.bnbias) @ p.W2 + p.b2


def evaluate(
    params: Params, stats: Stats, X: torch.Tensor, Y: torch.Tensor, chunk: int | None = None
) -> float:
    """The mean loss over all of X (N, 3) and Y (N,), a float; in chunks, to stay small in memory."""
    checks.evaluation(params, stats, X, Y)
    if chunk is not None:
        checks.whole("chunk", chunk, 1)
    chunk = chunk or max(1, 4_000_000 // params.W1.shape[1])  # 20,000 examples for 200 hidden units
    total = sum(
        F.cross_entropy(logits_eval(params, stats, x), y, reduction="sum").item()
        for x, y in zip(X.split(chunk), Y.split(chunk), strict=True)
    )
    return total / X.shape[0]


@torch.no_grad()
def calibrate(params: Params, X: torch.Tensor) -> Stats:
    """Stats over all of X (N, 3) at once, under the parameters as they are now. N is at least 2."""
    checks.batch(params, X, names="X", least=2)
    hprebn = params.C[X].view(X.shape[0], -1) @ params.W1 + params.b1
    return Stats(hprebn.mean(0, keepdim=True), hprebn.var(0, keepdim=True, unbiased=True))


def sample(params: Params, stats: Stats, count: int, seed: int = SEED + 2) -> list[str]:
    """Draw `count` new names, letter by letter; one that does not end is cut after LONGEST letters."""
    checks.stats(stats, params, checks.params(params)["H"])
    checks.whole("count", count, 0)
    checks.whole("seed", seed, 0)
    g = torch.Generator().manual_seed(seed)
    names = []
    for _ in range(count):
        context, letters = [0] * CONTEXT, []
        while len(letters) < LONGEST:
            logits = logits_eval(params, stats, torch.tensor([context], device=params.C.device))
            if not logits.isfinite().all():
                raise ValueError("the model's logits are nan or inf: no name can be drawn from it.")
            letter = torch.multinomial(F.softmax(logits.cpu(), 1), 1, generator=g).item()
            if letter == 0:
                break
            letters.append(VOCAB[letter])
            context = context[1:] + [letter]
        names.append("".join(letters))
    return names
