"""The 26 gradients by hand, one function each, and the two fused forms.

Each of the 26 reads v, the forward values (a `Pass`), and d, the gradients found so far, and returns
the gradient of the loss with respect to the value it is named after, in that value's shape.
"""

from types import SimpleNamespace

import torch
from torch.nn import functional as F

from . import checks
from .model import Params, Pass
from .rules import GRADIENTS

# --- cross-entropy: eight


def dlogprobs(v, d):
    g = torch.zeros_like(v.logprobs)
    g[range(v.n), v.Yb] = -1.0 / v.n
    return g


def dprobs(v, d):
    return d.logprobs / v.probs


def dcounts_sum_inv(v, d):
    return (v.counts * d.probs).sum(1, keepdim=True)


def dcounts_sum(v, d):
    return -(v.counts_sum**-2) * d.counts_sum_inv


def dcounts(v, d):
    return v.counts_sum_inv * d.probs + d.counts_sum


def dnorm_logits(v, d):
    return v.counts * d.counts


def dlogit_maxes(v, d):
    return -d.norm_logits.sum(1, keepdim=True)


def dlogits(v, d):
    # of several equal maxima only the one that max() returned gets the gradient
    return d.norm_logits + F.one_hot(v.logits.max(1).indices, v.logits.shape[1]) * d.logit_maxes


# --- second layer and tanh: four


def dh(v, d):
    return d.logits @ v.W2.T


def dW2(v, d):
    return v.h.T @ d.logits


def db2(v, d):
    return d.logits.sum(0)


def dhpreact(v, d):
    # 1 - h² rounded as PyTorch's own kernel rounds it: once where the machine fuses multiply and add
    return torch.addcmul(torch.ones_like(v.h), v.h, v.h, value=-1) * d.h


# --- BatchNorm: nine


def dbngain(v, d):
    return (v.bnraw * d.hpreact).sum(0, keepdim=True)


def dbnbias(v, d):
    return d.hpreact.sum(0, keepdim=True)


def dbnraw(v, d):
    return v.bngain * d.hpreact


def dbnvar_inv(v, d):
    return (v.bndiff * d.bnraw).sum(0, keepdim=True)


def dbnvar(v, d):
    return -0.5 * (v.bnvar + v.eps) ** -1.5 * d.bnvar_inv


def dbndiff2(v, d):
    return (d.bnvar / (v.n - 1)).expand_as(v.bndiff2)


def dbndiff(v, d):
    return v.bnvar_inv * d.bnraw + 2 * v.bndiff * d.bndiff2


def dbnmeani(v, d):
    return -d.bndiff.sum(0, keepdim=True)


def dhprebn(v, d):
    return d.bndiff + d.bnmeani / v.n


# --- first layer and embedding: five


def dembcat(v, d):
    return d.hprebn @ v.W1.T


def dW1(v, d):
    return v.embcat.T @ d.hprebn


def db1(v, d):
    return d.hprebn.sum(0)


def demb(v, d):
    return d.embcat.view(v.emb.shape)


def dC(v, d):
    # a letter that occurs twice collects twice: scatter-add
    return torch.zeros_like(v.C).index_add_(0, v.Xb.flatten(), d.emb.flatten(0, 1))


RULES = {name: globals()["d" + name] for name in GRADIENTS}


@torch.no_grad()
def backward_all(v: Pass) -> SimpleNamespace:
    """The 26 gradients of a `forward` pass, in order, each from those before it; attributes by name."""
    checks.has(v, checks.ATOMIC, "what forward() returns")
    d = SimpleNamespace()
    for name, rule in RULES.items():
        setattr(d, name, rule(v, d))
    return d


# --- the two fused forms; backward_six does without their checks, since its values come from one pass


def cross_entropy_backward(logits: torch.Tensor, Yb: torch.Tensor) -> torch.Tensor:
    """dlogits (n, V) in one line, softmax minus one-hot over n, for logits (n, V) and targets Yb (n,)."""
    checks.targets(logits, Yb)
    return _softmax_minus_one_hot(logits, Yb)


def _softmax_minus_one_hot(logits, Yb):
    n, V = logits.shape
    return (F.softmax(logits, 1) - F.one_hot(Yb, V)) / n


def bn_backward(
    dhpreact: torch.Tensor,
    bnraw: torch.Tensor,
    bngain: torch.Tensor,
    bnvar_inv: torch.Tensor,
    divisor: int | None = None,
) -> torch.Tensor:
    """dhprebn (n, H) in one line, from dhpreact (n, H), bnraw (n, H), bngain and bnvar_inv (1, H).

    divisor is what the variance was divided by: n - 1 (the default, this course) or n (PyTorch's BatchNorm).
    """
    checks.batchnorm(dhpreact, bnraw, bngain, bnvar_inv, divisor)
    return _three_terms(dhpreact, bnraw, bngain, bnvar_inv, divisor or len(dhpreact) - 1)


def _three_terms(dhpreact, bnraw, bngain, bnvar_inv, divisor):
    n = dhpreact.shape[0]
    return (bngain * bnvar_inv / n) * (
        n * dhpreact  # x itself
        - dhpreact.sum(0)  # through the mean
        - (n / divisor) * bnraw * (dhpreact * bnraw).sum(0)  # through the variance
    )


@torch.no_grad()
def backward_six(v: Pass) -> Params:
    """The parameters' gradients after `forward_merged`, in six groups; returns them in the order of `Params`."""
    checks.has(v, checks.MERGED, "what forward_merged() returns")
    # 1 logits
    dlogits = _softmax_minus_one_hot(v.logits, v.Yb)
    # 2 second layer
    dh = dlogits @ v.W2.T
    dW2 = v.h.T @ dlogits
    db2 = dlogits.sum(0)
    # 3 tanh
    dhpreact = (1 - v.h**2) * dh
    # 4 BatchNorm
    dbngain = (v.bnraw * dhpreact).sum(0, keepdim=True)
    dbnbias = dhpreact.sum(0, keepdim=True)
    dhprebn = _three_terms(dhpreact, v.bnraw, v.bngain, v.bnvar_inv, len(dhpreact) - 1)
    # 5 first layer
    dembcat = dhprebn @ v.W1.T
    dW1 = v.embcat.T @ dhprebn
    db1 = dhprebn.sum(0)
    # 6 embedding
    demb = dembcat.view(v.emb.shape)
    dC = torch.zeros_like(v.C).index_add_(0, v.Xb.flatten(), demb.flatten(0, 1))
    return Params(dC, dW1, db1, dW2, db2, dbngain, dbnbias)
