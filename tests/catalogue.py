"""Wrong derivations, collected from people's notebooks and beyond, and the right ones that must not be refused.

Each wrong one: the gradient it is for, how it is wrong, a function of v (the pass) and d (the true gradients)
that computes it, and words of the cause that `cmp` has to name ("" where it may show the largest entry).
"""

from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch.nn import functional as F

from makemore_bp.backward import bn_backward, cross_entropy_backward
from makemore_bp.rules import GRADIENTS


class Wrong(NamedTuple):
    label: str  # as cmp is called: its first word is the gradient's name
    how: str
    value: object  # (v, d) -> tensor
    cause: str  # words of the sentence; | between two that are as good

    @property
    def name(self):
        return self.label.split()[0].rstrip(",")


def truths(v):
    """Copies of the true gradients of a pass, by name."""
    return SimpleNamespace(**{name: getattr(v, name).grad.clone() for name in GRADIENTS})


def put(like, index, value):
    out = torch.zeros_like(like)
    out[index] = value
    return out


def targets(v):
    return F.one_hot(v.Yb, v.logits.shape[1]).to(v.logits.dtype)


def softmax_minus(v, hot, over=None):
    p = F.softmax(v.logits, 1)
    return (p - hot) / (over or v.n)


def scatter(v, index, rows):
    return torch.zeros_like(v.C).index_add_(0, index.flatten(), rows.reshape(-1, v.C.shape[1]))


def only_position(v, d, k):
    return scatter(v, v.Xb[:, k], d.emb[:, k])


def fused_bn(v, d, direct=1, mean=1, variance=1, raw=None, scale=None, summed=None, over=None):
    """dhprebn in one line, with what may go wrong in it."""
    n, raw = v.n, v.bnraw if raw is None else raw
    summed = (d.hpreact * raw).sum(0) if summed is None else summed
    inside = direct * n * d.hpreact - mean * d.hpreact.sum(0) - variance * n / (over or n - 1) * raw * summed
    return (v.bngain * v.bnvar_inv / n if scale is None else scale) * inside


WRONG = [
    # cross-entropy
    Wrong("logprobs", "1/n forgotten", lambda v, d: put(v.logprobs, (range(v.n), v.Yb), -1.0), "n = "),
    Wrong("logprobs", "sign", lambda v, d: -d.logprobs, "sign"),
    Wrong("logprobs", "[:, Yb]: all rows", lambda v, d: put(v.logprobs, (slice(None), v.Yb), -1 / v.n), "all rows"),
    Wrong("logprobs", "mean over all entries", lambda v, d: d.logprobs / v.logprobs.shape[1], "1/V"),
    Wrong("logprobs", "everywhere", lambda v, d: torch.full_like(v.logprobs, -1 / v.n), "same number"),
    Wrong("logprobs", "nothing written", lambda v, d: torch.zeros_like(v.logprobs), "zeros"),
    Wrong("logprobs", "divided by n - 1", lambda v, d: d.logprobs * v.n / (v.n - 1), "n/(n - 1)"),
    Wrong("logprobs", "cut off: int(-1 / n)", lambda v, d: put(v.logprobs, (range(v.n), v.Yb), int(-1 / v.n)), "zeros"),
    Wrong("probs", "multiplied by probs", lambda v, d: v.probs * d.logprobs, "multiplied by probs"),
    Wrong("probs", "1/p without what comes in", lambda v, d: 1 / v.probs, "upstream"),
    Wrong("probs", "log again", lambda v, d: d.logprobs / v.logprobs, "logprobs does not"),
    Wrong("probs", "local derivative left out", lambda v, d: d.logprobs, "probs is missing"),
    Wrong("probs", "1/p twice", lambda v, d: d.logprobs / v.probs**2, "exponent of probs"),
    Wrong("probs", "divided by counts", lambda v, d: d.logprobs / v.counts, "probs"),
    Wrong("counts_sum_inv", "not summed", lambda v, d: v.counts * d.probs, "sum is missing|axis is missing"),
    Wrong("counts_sum_inv", "summed over rows", lambda v, d: (v.counts * d.probs).sum(0, True), "wrong axis"),
    Wrong("counts_sum_inv", "keepdim", lambda v, d: (v.counts * d.probs).sum(1), "keepdim"),
    Wrong("counts_sum_inv", "mean", lambda v, d: (v.counts * d.probs).mean(1, True), "mean over the class"),
    Wrong("counts_sum_inv", "counts left out", lambda v, d: d.probs.sum(1, True), "counts is missing"),
    Wrong("counts_sum_inv", "probs for counts", lambda v, d: (v.probs * d.probs).sum(1, True), "probs does not"),
    Wrong("counts_sum", "sign", lambda v, d: v.counts_sum**-2 * d.counts_sum_inv, "sign"),
    Wrong("counts_sum", "power -1", lambda v, d: -(v.counts_sum**-1) * d.counts_sum_inv, "exponent of counts_sum"),
    Wrong("counts_sum", "ln instead of a power", lambda v, d: d.counts_sum_inv / v.counts_sum, "exponent of counts_sum"),
    Wrong("counts_sum", "power 2", lambda v, d: -(v.counts_sum**2) * d.counts_sum_inv, "exponent of counts_sum"),
    Wrong("counts, one use", "second use forgotten", lambda v, d: v.counts_sum_inv * d.probs, "only the path through probs"),
    Wrong("counts, one use", "first use forgotten", lambda v, d: d.counts_sum.expand_as(v.counts), "only the path through counts_sum"),
    Wrong("counts", "second use twice", lambda v, d: v.counts_sum_inv * d.probs + 2 * d.counts_sum, "counts_sum counts twice"),
    Wrong("counts", "second use subtracted", lambda v, d: v.counts_sum_inv * d.probs - d.counts_sum, "wrong sign"),
    Wrong("counts", "mean over the classes", lambda v, d: v.counts_sum_inv * d.probs + d.counts_sum / 27, "1/V"),
    Wrong("counts", "counts_sum for its inverse", lambda v, d: v.counts_sum * d.probs + d.counts_sum, "counts_sum_inv, where|counts_sum does not"),
    Wrong("counts", "forward value", lambda v, d: v.counts.detach().clone(), "counts itself"),
    Wrong("counts", "stays (n, 1)", lambda v, d: d.counts_sum, "dcounts_sum"),
    Wrong("norm_logits", "exp left out", lambda v, d: d.counts, "counts is missing"),
    Wrong("norm_logits", "exp twice", lambda v, d: v.counts.exp() * d.counts, ""),
    Wrong("norm_logits", "divided by counts", lambda v, d: d.counts / v.counts, "divided by counts"),
    Wrong("norm_logits", "times norm_logits", lambda v, d: v.norm_logits * d.counts, "norm_logits does not"),
    Wrong("norm_logits", "probs for counts", lambda v, d: v.probs * d.counts, "probs does not"),
    Wrong("norm_logits", "counts**2", lambda v, d: v.counts**2 * d.counts, "counts stands twice"),
    Wrong("logit_maxes", "not summed", lambda v, d: -d.norm_logits, "sum is missing|axis is missing"),
    Wrong("logit_maxes", "summed over rows", lambda v, d: -d.norm_logits.sum(0, True), "wrong axis"),
    Wrong("logit_maxes", "sum of dcounts", lambda v, d: -d.counts.sum(1, True), "dcounts"),
    Wrong("logit_maxes", "sum of logits", lambda v, d: -v.norm_logits.sum(1, True), "norm_logits"),
    Wrong("logits", "sign", lambda v, d: -d.logits, "sign"),
    Wrong("logits", "through the maximum everywhere", lambda v, d: d.norm_logits + d.counts_sum, ""),
    Wrong("logits", "dcounts for dnorm_logits", lambda v, d: d.counts, "dcounts, the gradient of another"),
    Wrong("logits", "+1 at the maximum", lambda v, d: d.norm_logits + F.one_hot(v.logits.max(1).indices, 27), "upstream"),
    Wrong("logits", "1/n once more", lambda v, d: d.logits / v.n, "1/n"),
    # cross-entropy in one line
    Wrong("logits (fused)", "1 not subtracted", lambda v, d: softmax_minus(v, 0), "the target is missing"),
    Wrong("logits (fused)", "1/n forgotten", lambda v, d: softmax_minus(v, targets(v), 1), "n = "),
    Wrong("logits (fused)", "target minus softmax", lambda v, d: -softmax_minus(v, targets(v)), "sign"),
    Wrong("logits (fused)", "softmax over rows", lambda v, d: (F.softmax(v.logits, 0) - targets(v)) / v.n, "softmax runs along the wrong axis"),
    Wrong("logits (fused)", "1/n before subtracting", lambda v, d: F.softmax(v.logits, 1) / v.n - targets(v), "the target is n"),
    Wrong("logits (fused)", "1/n only on the target", lambda v, d: F.softmax(v.logits, 1) - targets(v) / v.n, "the softmax is n"),
    Wrong("logits (fused)", "[:, Yb]", lambda v, d: softmax_minus(v, (targets(v).sum(0) > 0).to(v.logits.dtype)), "all rows"),
    Wrong("logits (fused)", "plus 1", lambda v, d: softmax_minus(v, -targets(v)), "the target has the wrong sign"),
    Wrong("logits (fused)", "divided by n - 1", lambda v, d: softmax_minus(v, targets(v), v.n - 1), "n/(n - 1)"),
    Wrong("logits (fused)", "log-softmax", lambda v, d: (F.log_softmax(v.logits, 1) - targets(v)) / v.n, "logprobs does not"),
    Wrong("logits (fused)", "the maximum for the target", lambda v, d: softmax_minus(v, F.one_hot(v.logits.max(1).indices, 27)), "maxima does not"),
    Wrong("logits (fused)", "softmax twice", lambda v, d: (F.softmax(F.softmax(v.logits, 1), 1) - targets(v)) / v.n, "taken twice"),
    Wrong("logits (fused)", "not normalised", lambda v, d: (v.logits.exp() - targets(v)) / v.n, "not normalised"),
    Wrong("logits (fused)", "a sigmoid's p (1 - p)", lambda v, d: (v.probs * (1 - v.probs) - targets(v)) / v.n, "sigmoid"),
    # output layer and tanh
    Wrong("h", "sign", lambda v, d: -(d.logits @ v.W2.T), "sign"),
    Wrong("h", "dnorm_logits, halved", lambda v, d: 0.5 * d.logits @ v.W2.T, "1/2"),
    Wrong("h", "transposed result", lambda v, d: v.W2 @ d.logits.T, "transposed"),
    Wrong("h", "logits for dlogits", lambda v, d: v.logits @ v.W2.T, "logits, a forward value"),
    Wrong("h", "dW2 for W2", lambda v, d: d.logits @ d.W2.T, "dW2, a gradient"),
    Wrong("W2", "transposed", lambda v, d: d.logits.T @ v.h, "transposed"),
    Wrong("W2", "averaged over rows", lambda v, d: v.h.T @ d.logits / v.n, "mean over the batch"),
    Wrong("W2", "hpreact for h", lambda v, d: v.hpreact.T @ d.logits, "hpreact does not"),
    Wrong("W2", "dh for h", lambda v, d: d.h.T @ d.logits, "dh, a gradient"),
    Wrong("W2", "probs for dlogits", lambda v, d: v.h.T @ v.probs, "probs, a forward value"),
    Wrong("b2", "mean", lambda v, d: d.logits.mean(0), "mean over the batch"),
    Wrong("b2", "keepdim", lambda v, d: d.logits.sum(0, True), "is too many"),
    Wrong("b2", "summed over classes", lambda v, d: d.logits.sum(1), ""),
    Wrong("b2", "not summed", lambda v, d: d.logits, "sum is missing|axis is missing"),
    Wrong("b2", "sum of logits", lambda v, d: v.logits.sum(0), "logits, a forward value"),
    Wrong("hpreact", "1 - h", lambda v, d: (1 - v.h) * d.h, "1 - h is not"),
    Wrong("hpreact", "derivative left out", lambda v, d: d.h, "1 - h**2 is missing"),
    Wrong("hpreact", "of hpreact", lambda v, d: (1 - v.hpreact**2) * d.h, "1 - hpreact**2 is not"),
    Wrong("hpreact", "a sigmoid's", lambda v, d: v.h * (1 - v.h) * d.h, "h * (1 - h) is not"),
    Wrong("hpreact", "twice", lambda v, d: (1 - v.h**2) ** 2 * d.h, "1 - h**2 stands twice"),
    Wrong("hpreact", "tanh of h", lambda v, d: (1 - torch.tanh(v.h) ** 2) * d.h, "1 - tanh(h)**2 is not"),
    Wrong("hpreact", "h**2 - 1", lambda v, d: (v.h**2 - 1) * d.h, "sign"),
    # BatchNorm
    Wrong("bngain", "x not normalised", lambda v, d: (v.bndiff * d.hpreact).sum(0, True), "bndiff does not"),
    Wrong("bngain", "bnraw left out", lambda v, d: d.hpreact.sum(0, True), "bnraw is missing"),
    Wrong("bngain", "dbnraw", lambda v, d: (v.bnraw * d.bnraw).sum(0, True), "dbnraw does not"),
    Wrong("bngain", "not summed", lambda v, d: v.bnraw * d.hpreact, "sum is missing|axis is missing"),
    Wrong("bngain", "keepdim", lambda v, d: (v.bnraw * d.hpreact).sum(0), "keepdim"),
    Wrong("bngain", "mean", lambda v, d: (v.bnraw * d.hpreact).mean(0, True), "mean over the batch"),
    Wrong("bnbias", "dbngain", lambda v, d: d.bngain, "dbngain, the gradient of another"),
    Wrong("bnbias", "keepdim", lambda v, d: d.hpreact.sum(0), "keepdim"),
    Wrong("bnbias", "mean", lambda v, d: d.hpreact.mean(0, True), "mean over the batch"),
    Wrong("bnbias", "dh summed", lambda v, d: d.h.sum(0, True), "dh does not"),
    Wrong("bnraw", "bngain left out", lambda v, d: d.hpreact, "bngain is missing"),
    Wrong("bnraw", "bnbias for bngain", lambda v, d: v.bnbias * d.hpreact, "bnbias does not"),
    Wrong("bnraw", "divided by bngain", lambda v, d: d.hpreact / v.bngain, "divided by bngain"),
    Wrong("bnraw", "bngain twice", lambda v, d: v.bngain**2 * d.hpreact, "bngain stands twice"),
    Wrong("bnraw", "dbngain for bngain", lambda v, d: d.bngain * d.hpreact, "dbngain, a gradient"),
    Wrong("bnvar_inv", "bnraw for bndiff", lambda v, d: (v.bnraw * d.bnraw).sum(0, True), "bnraw does not"),
    Wrong("bnvar_inv", "dhpreact for dbnraw", lambda v, d: (v.bndiff * d.hpreact).sum(0, True), "dhpreact does not"),
    Wrong("bnvar_inv", "not summed", lambda v, d: v.bndiff * d.bnraw, "sum is missing|axis is missing"),
    Wrong("bnvar_inv", "summed over units", lambda v, d: (v.bndiff * d.bnraw).sum(1, True), "wrong axis"),
    Wrong("bnvar_inv", "keepdim", lambda v, d: (v.bndiff * d.bnraw).sum(0), "keepdim"),
    Wrong("bnvar", "eps left out", lambda v, d: -0.5 * v.bnvar**-1.5 * d.bnvar_inv, "eps is missing"),
    Wrong("bnvar", "power -1/2", lambda v, d: -0.5 * (v.bnvar + v.eps) ** -0.5 * d.bnvar_inv, "exponent of bnvar + eps"),
    Wrong("bnvar", "1/2 left out", lambda v, d: -((v.bnvar + v.eps) ** -1.5) * d.bnvar_inv, "2 times"),
    Wrong("bnvar", "sign", lambda v, d: 0.5 * (v.bnvar + v.eps) ** -1.5 * d.bnvar_inv, "sign"),
    Wrong("bnvar", "3/2 for 1/2", lambda v, d: -1.5 * (v.bnvar + v.eps) ** -1.5 * d.bnvar_inv, "3 times"),
    Wrong("bnvar", "power -5/2", lambda v, d: -0.5 * (v.bnvar + v.eps) ** -2.5 * d.bnvar_inv, "exponent of bnvar + eps"),
    Wrong("bndiff2", "n for n - 1", lambda v, d: (d.bnvar / v.n).expand_as(v.bndiff2), "(n - 1)/n"),
    Wrong("bndiff2", "stays (1, H)", lambda v, d: d.bnvar / (v.n - 1), "broadcasting"),
    Wrong("bndiff2", "1/(n - 1) left out", lambda v, d: d.bnvar.expand_as(v.bndiff2), "n - 1 = "),
    Wrong("bndiff2", "sent only to the first row", lambda v, d: put(v.bndiff2, 0, d.bnvar / (v.n - 1)), ""),
    Wrong("bndiff2", "dbnvar_inv", lambda v, d: (d.bnvar_inv / (v.n - 1)).expand_as(v.bndiff2), "dbnvar_inv does not"),
    Wrong("bndiff, one use", "through the variance forgotten", lambda v, d: v.bnvar_inv * d.bnraw, "only the path through bnraw"),
    Wrong("bndiff, one use", "direct use forgotten", lambda v, d: 2 * v.bndiff * d.bndiff2, "only the path through bndiff2"),
    Wrong("bndiff", "2 left out", lambda v, d: v.bnvar_inv * d.bnraw + v.bndiff * d.bndiff2, "bndiff2 is 1/2"),
    Wrong("bndiff", "bndiff left out", lambda v, d: v.bnvar_inv * d.bnraw + 2 * d.bndiff2, "bndiff is missing"),
    Wrong("bndiff", "bnvar_inv left out", lambda v, d: d.bnraw + 2 * v.bndiff * d.bndiff2, "bnvar_inv is missing"),
    Wrong("bndiff", "bnvar_inv twice", lambda v, d: v.bnvar_inv**2 * d.bnraw + 2 * v.bndiff * d.bndiff2, "bnvar_inv stands twice"),
    Wrong("bndiff", "a later += changed it", lambda v, d: d.hprebn, "+="),
    Wrong("bndiff", "bndiff2 for bndiff", lambda v, d: v.bnvar_inv * d.bnraw + 2 * v.bndiff2 * d.bndiff2, "bndiff2 does not|bndiff stands twice"),
    Wrong("bnmeani", "sign", lambda v, d: d.bndiff.sum(0, True), "sign"),
    Wrong("bnmeani", "keepdim", lambda v, d: -d.bndiff.sum(0), "keepdim"),
    Wrong("bnmeani", "mean", lambda v, d: -d.bndiff.mean(0, True), "mean over the batch"),
    Wrong("bnmeani", "not summed", lambda v, d: -d.bndiff, "sum is missing|axis is missing"),
    Wrong("bnmeani", "dhprebn", lambda v, d: -d.bnraw.sum(0, True), "dbnraw does not"),
    Wrong("hprebn, one use", "mean forgotten", lambda v, d: d.bndiff, "only the path through bndiff"),
    Wrong("hprebn", "1/n forgotten", lambda v, d: d.bndiff + d.bnmeani, "bnmeani is n"),
    Wrong("hprebn", "n - 1 for n", lambda v, d: d.bndiff + d.bnmeani / (v.n - 1), "n/(n - 1)"),
    Wrong("hprebn", "mean subtracted", lambda v, d: d.bndiff - d.bnmeani / v.n, "bnmeani has the wrong sign"),
    Wrong("hprebn", "mean only", lambda v, d: (d.bnmeani / v.n).expand_as(v.hprebn), "only the path through bnmeani"),
    # BatchNorm in one line
    Wrong("hprebn (fused)", "n for n - 1", lambda v, d: fused_bn(v, d, over=v.n), "the variance is (n - 1)/n"),
    Wrong("hprebn (fused)", "mean forgotten", lambda v, d: fused_bn(v, d, mean=0), "the mean is missing"),
    Wrong("hprebn (fused)", "variance forgotten", lambda v, d: fused_bn(v, d, variance=0), "the variance is missing"),
    Wrong("hprebn (fused)", "x alone", lambda v, d: fused_bn(v, d, mean=0, variance=0), "the mean is missing, and the term of the variance is missing"),
    Wrong("hprebn (fused)", "bngain left out", lambda v, d: fused_bn(v, d, scale=v.bnvar_inv / v.n), "bngain is missing"),
    Wrong("hprebn (fused)", "bnvar_inv left out", lambda v, d: fused_bn(v, d, scale=v.bngain / v.n), "bnvar_inv is missing"),
    Wrong("hprebn (fused)", "1/n left out", lambda v, d: fused_bn(v, d, scale=v.bngain * v.bnvar_inv), "n = "),
    Wrong("hprebn (fused)", "n left out", lambda v, d: fused_bn(v, d, direct=1 / v.n), "x itself is 1/n"),
    Wrong("hprebn (fused)", "mean added", lambda v, d: fused_bn(v, d, mean=-1), "the mean has the wrong sign"),
    Wrong("hprebn (fused)", "bnraw left out", lambda v, d: fused_bn(v, d, variance=0) - v.bngain * v.bnvar_inv / (v.n - 1) * d.bngain, "bnraw is missing"),
    Wrong("hprebn (fused)", "product not summed", lambda v, d: fused_bn(v, d, summed=d.hpreact * v.bnraw), "sum over the batch axis is missing"),
    Wrong("hprebn (fused)", "summed over units", lambda v, d: fused_bn(v, d, summed=(d.hpreact * v.bnraw).sum(1, True)), "wrong axis"),
    Wrong("hprebn (fused)", "sum without bnraw", lambda v, d: fused_bn(v, d, summed=d.hpreact.sum(0)), "dbnbias does not"),
    Wrong("hprebn (fused)", "bndiff for bnraw, outside", lambda v, d: fused_bn(v, d, variance=0) - v.bngain * v.bnvar_inv / (v.n - 1) * v.bndiff * d.bngain, "bnvar_inv is missing"),
    Wrong("hprebn (fused)", "bndiff for bnraw, both", lambda v, d: fused_bn(v, d, raw=v.bndiff), "bnvar_inv"),
    Wrong("hprebn (fused)", "divided by bnvar_inv", lambda v, d: fused_bn(v, d, scale=v.bngain / v.bnvar_inv / v.n), "divided by bnvar_inv"),
    # first layer and embedding
    Wrong("embcat", "halved", lambda v, d: d.hprebn @ v.W1.T / 2, "1/2"),
    Wrong("embcat", "dbndiff", lambda v, d: d.bndiff @ v.W1.T, "dbndiff does not"),
    Wrong("embcat", "dW1 for W1", lambda v, d: d.hprebn @ d.W1.T, "dW1, a gradient"),
    Wrong("W1", "from dembcat", lambda v, d: d.embcat.T @ d.hprebn, "dembcat, a gradient"),
    Wrong("W1", "transposed", lambda v, d: d.hprebn.T @ v.embcat, "transposed"),
    Wrong("W1", "dbndiff", lambda v, d: v.embcat.T @ d.bndiff, "dbndiff does not"),
    Wrong("W1", "averaged", lambda v, d: v.embcat.T @ d.hprebn / v.n, "mean over the batch"),
    Wrong("b1", "not summed", lambda v, d: d.hprebn, "sum is missing|axis is missing"),
    Wrong("b1", "dbndiff", lambda v, d: d.bndiff.sum(0), "dbndiff does not"),
    Wrong("b1", "dhpreact", lambda v, d: d.hpreact.sum(0), "dbnbias, the gradient of another"),
    Wrong("b1", "keepdim", lambda v, d: d.hprebn.sum(0, True), "is too many"),
    Wrong("emb", "not reshaped", lambda v, d: d.embcat, "arrangement"),
    Wrong("emb", "sign", lambda v, d: -d.embcat.view(v.emb.shape), "sign"),
    Wrong("emb", "forward value", lambda v, d: v.emb.detach().clone(), "emb itself"),
    Wrong("emb", "added up", lambda v, d: 2 * d.embcat.view(v.emb.shape), "2 times"),
    Wrong("C", "dC[Xb] = demb", lambda v, d: put(v.C, v.Xb, d.emb), "assigned, not added"),
    Wrong("C", "dC[Xb] += demb", lambda v, d: put(v.C, v.Xb, d.emb), "assigned, not added"),
    Wrong("C", "only the first position", lambda v, d: only_position(v, d, 0), "only position 0"),
    Wrong("C", "last position left out", lambda v, d: only_position(v, d, 0) + only_position(v, d, 1), "position 2 of the context is left out"),
    Wrong("C", "by the targets", lambda v, d: scatter(v, v.Yb[:, None].expand_as(v.Xb), d.emb), "targets (Yb)"),
    Wrong("C", "index transposed", lambda v, d: scatter(v, v.Xb.T, d.emb), "transposed"),
    Wrong("C", "averaged per letter", lambda v, d: scatter(v, v.Xb, d.emb) / torch.bincount(v.Xb.flatten(), minlength=27).clamp(min=1)[:, None], "averaged"),
    Wrong("C", "context reversed", lambda v, d: scatter(v, v.Xb.flip(1), d.emb), "reverse order"),
    Wrong("C", "rows of another batch", lambda v, d: scatter(v, v.Xb.roll(1, 0), d.emb), ""),
]  # fmt: skip

# wrong in form, right in value: their true contribution is zero
NOTHING = [
    Wrong("logits", "path through the maximum left out", lambda v, d: d.norm_logits, ""),
    Wrong("logits", "path through the maximum subtracted", lambda v, d: 2 * d.norm_logits - d.logits, ""),
    Wrong("logit_maxes", "zeros", lambda v, d: torch.zeros_like(v.logit_maxes), ""),
    Wrong("logit_maxes", "sign", lambda v, d: d.norm_logits.sum(1, True), ""),
    Wrong("b1", "zeros", lambda v, d: torch.zeros_like(v.b1), ""),
    Wrong("b1", "sign", lambda v, d: -d.hprebn.sum(0), ""),
]  # fmt: skip

ones = torch.ones_like
RIGHT = [
    Wrong("logprobs", "one-hot matrix", lambda v, d: -targets(v) / v.n, ""),
    Wrong("logprobs", "scatter_", lambda v, d: torch.zeros_like(v.logprobs).scatter_(1, v.Yb[:, None], -1 / v.n), ""),
    Wrong("probs", "(1/p) d", lambda v, d: (1 / v.probs) * d.logprobs, ""),
    Wrong("counts_sum_inv", "einsum", lambda v, d: torch.einsum("nv,nv->n", v.counts, d.probs)[:, None], ""),
    Wrong("counts_sum_inv", "-counts_sum/n", lambda v, d: -v.counts_sum / v.n, ""),
    Wrong("counts_sum", "-(1/x)**2", lambda v, d: -((1 / v.counts_sum) ** 2) * d.counts_sum_inv, ""),
    Wrong("counts_sum", "-inv**2", lambda v, d: -(v.counts_sum_inv**2) * d.counts_sum_inv, ""),
    Wrong("counts", "ones_like", lambda v, d: d.counts_sum * ones(v.counts) + v.counts_sum_inv * d.probs, ""),
    Wrong("norm_logits", "exp", lambda v, d: v.norm_logits.exp() * d.counts, ""),
    Wrong("logit_maxes", "other order", lambda v, d: -d.norm_logits.flip(1).cumsum(1)[:, -1:], ""),
    Wrong("logits", "mask", lambda v, d: d.norm_logits + (v.logits == v.logit_maxes) * d.logit_maxes, ""),
    Wrong("logits (fused)", "", lambda v, d: cross_entropy_backward(v.logits, v.Yb), ""),
    Wrong("logits (fused)", "one-hot", lambda v, d: (v.probs - targets(v)) / v.n, ""),
    Wrong("h", "einsum", lambda v, d: torch.einsum("nv,hv->nh", d.logits, v.W2), ""),
    Wrong("W2", "outer products", lambda v, d: (v.h[:, :, None] * d.logits[:, None, :]).sum(0), ""),
    Wrong("b2", "ones @ d", lambda v, d: torch.ones(v.n, dtype=v.h.dtype) @ d.logits, ""),
    Wrong("hpreact", "naive", lambda v, d: (1 - v.h**2) * d.h, ""),
    Wrong("hpreact", "addcmul", lambda v, d: torch.addcmul(ones(v.h), v.h, v.h, value=-1) * d.h, ""),
    Wrong("hpreact", "cosh", lambda v, d: d.h / torch.cosh(v.hpreact) ** 2, ""),
    Wrong("bngain", "einsum", lambda v, d: torch.einsum("nh,nh->h", v.bnraw, d.hpreact)[None], ""),
    Wrong("bnbias", "other order", lambda v, d: d.hpreact.flip(0).cumsum(0)[-1:], ""),
    Wrong("bnraw", "γ of one dimension", lambda v, d: d.hpreact * v.bngain[0], ""),
    Wrong("bnvar_inv", "bnraw / inv", lambda v, d: (v.bnraw / v.bnvar_inv * d.bnraw).sum(0, True), ""),
    Wrong("bnvar", "-inv**3 / 2", lambda v, d: -(v.bnvar_inv**3) / 2 * d.bnvar_inv, ""),
    Wrong("bnvar", "1/(x sqrt x)", lambda v, d: -0.5 / ((v.bnvar + v.eps) * (v.bnvar + v.eps).sqrt()) * d.bnvar_inv, ""),
    Wrong("bndiff2", "expand", lambda v, d: (d.bnvar / (v.n - 1)).expand_as(v.bndiff2), ""),
    Wrong("bndiff2", "ones_like", lambda v, d: (1 / (v.n - 1)) * ones(v.bndiff2) * d.bnvar, ""),
    Wrong("bndiff", "other order", lambda v, d: 2 * d.bndiff2 * v.bndiff + d.bnraw * v.bnvar_inv, ""),
    Wrong("bnmeani", "without the variance", lambda v, d: -(v.bnvar_inv * d.bnraw).sum(0, True), ""),
    Wrong("hprebn", "mean subtracted", lambda v, d: d.bndiff - d.bndiff.mean(0), ""),
    Wrong("hprebn (fused)", "", lambda v, d: bn_backward(d.hpreact, v.bnraw, v.bngain, v.bnvar_inv), ""),
    Wrong("hprebn (fused)", "as in the lecture", lambda v, d: fused_bn(v, d), ""),
    Wrong("hprebn (fused)", "γ of one dimension", lambda v, d: bn_backward(d.hpreact, v.bnraw, v.bngain[0], v.bnvar_inv[0]), ""),
    Wrong("embcat", "einsum", lambda v, d: torch.einsum("nh,kh->nk", d.hprebn, v.W1), ""),
    Wrong("W1", "no embcat", lambda v, d: v.emb.view(v.n, -1).T @ d.hprebn, ""),
    Wrong("W1", "one row after the other", lambda v, d: sum(torch.outer(x, g) for x, g in zip(v.embcat, d.hprebn)), ""),
    Wrong("b1", "other order", lambda v, d: d.hprebn.flip(0).cumsum(0)[-1], ""),
    Wrong("emb", "reshape", lambda v, d: d.embcat.reshape(v.n, 3, -1), ""),
    Wrong("C", "one-hot matrix product", lambda v, d: F.one_hot(v.Xb, 27).to(v.C.dtype).flatten(0, 1).T @ d.emb.flatten(0, 1), ""),
    Wrong("C", "mask sums", lambda v, d: torch.stack([d.emb[v.Xb == i].sum(0) for i in range(27)]), ""),
    Wrong("C", "index_put_ accumulate", lambda v, d: torch.zeros_like(v.C).index_put_((v.Xb,), d.emb, accumulate=True), ""),
]  # fmt: skip


def lecture(yours, truth):
    """What the lecture's own cmp prints: exact, approximate, or that it raises."""
    try:
        exact, close = torch.all(yours == truth).item(), torch.allclose(yours, truth)
        (yours - truth).abs().max().item()
    except RuntimeError:
        return "raises"
    return "exact" if exact else "agrees" if close else "differs"


def named(wrong, row):
    """Whether the cause that was named is the one that was made; None where none has to be named."""
    if not wrong.cause:
        return None
    return any(words in row.cause for words in wrong.cause.split("|"))


@torch.no_grad()
def judge(v, cases, cmp):
    """Compare each case of a pass: triples (case, what the lecture's cmp says, the row)."""
    d = truths(v)
    cmp.watch(v)
    for case in cases:
        cmp._entries.clear()  # a reader has made no other mistake before
        yours, tensor = case.value(v, d), getattr(v, case.name)
        yield case, lecture(yours, tensor.grad), cmp(case.label, yours, tensor)
