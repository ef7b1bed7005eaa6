"""What each gradient is made of, as data: its terms, the factors of each, and the axes they run along.

A gradient's axes have one letter each: n rows, h hidden units, v letters of the alphabet, c letters of context,
e numbers they are embedded in. A term is the product of its factors, summed over every axis that the variable
does not have and repeated along every axis that only the variable has. That holds for all 26: a broadcast going
forward is a sum coming back, a matrix product is a sum over the axis its factors share, and a selection is a
factor of zeros and ones.
"""

import math
from typing import NamedTuple

import torch
from torch.nn import functional as F

from .rules import GRADIENTS, STEPS


class Factor(NamedTuple):
    """A forward value, a gradient (with a d in front), or a named expression, to some power."""

    base: str
    power: float = 1


class Term(NamedTuple):
    """One use of the variable, and what it adds to the gradient."""

    through: str  # the value on whose right-hand side the variable stands; in a fused form a word for it
    number: str  # in n, and m: what the variance was divided by
    factors: tuple


_TERMS = """
logprobs        | loss           | -1/n | target
probs           | logprobs       | 1    | probs^-1, dlogprobs
counts_sum_inv  | probs          | 1    | counts, dprobs
counts_sum      | counts_sum_inv | -1   | counts_sum^-2, dcounts_sum_inv
counts          | probs          | 1    | counts_sum_inv, dprobs
counts          | counts_sum     | 1    | dcounts_sum
norm_logits     | counts         | 1    | counts, dcounts
logit_maxes     | norm_logits    | -1   | dnorm_logits
logits          | norm_logits    | 1    | dnorm_logits
logits          | logit_maxes    | 1    | maximum, dlogit_maxes
h               | logits         | 1    | W2, dlogits
W2              | logits         | 1    | h, dlogits
b2              | logits         | 1    | dlogits
hpreact         | h              | 1    | 1 - h**2, dh
bngain          | hpreact        | 1    | bnraw, dhpreact
bnbias          | hpreact        | 1    | dhpreact
bnraw           | hpreact        | 1    | bngain, dhpreact
bnvar_inv       | bnraw          | 1    | bndiff, dbnraw
bnvar           | bnvar_inv      | -1/2 | bnvar + eps^-1.5, dbnvar_inv
bndiff2         | bnvar          | 1/m  | dbnvar
bndiff          | bnraw          | 1    | bnvar_inv, dbnraw
bndiff          | bndiff2        | 2    | bndiff, dbndiff2
bnmeani         | bndiff         | -1   | dbndiff
hprebn          | bndiff         | 1    | dbndiff
hprebn          | bnmeani        | 1/n  | dbnmeani
embcat          | hprebn         | 1    | W1, dhprebn
W1              | hprebn         | 1    | embcat, dhprebn
b1              | hprebn         | 1    | dhprebn
emb             | embcat         | 1    | dembcat
C               | emb            | 1    | letters, demb
logits (fused)  | the softmax    | 1/n  | probs
logits (fused)  | the target     | -1/n | target
hprebn (fused)  | x itself       | 1    | bngain, bnvar_inv, dhpreact
hprebn (fused)  | the mean       | -1/n | bngain, bnvar_inv, dbnbias
hprebn (fused)  | the variance   | -1/m | bngain, bnvar_inv, bnraw, dbngain
"""

TERMS = {}
for _row in _TERMS.strip().splitlines():
    _name, _through, _number, _factors = (field.strip() for field in _row.split("|"))
    _parts = [part.strip().partition("^") for part in _factors.split(",")]
    _factors = tuple(Factor(base, float(power or 1)) for base, _, power in _parts)
    TERMS.setdefault(_name, []).append(Term(_through, _number, _factors))

_LETTERS = {"n": "n", "H": "h", "V": "v", "3": "c", "10": "e", "30": "ce", "1": ""}
AXES = {
    step.name: "".join(_LETTERS[axis] for axis in step.shape.split(" × "))
    for step in STEPS.values()
    if step.name != "loss"
}
# the zeros and ones of a selection, and the two local derivatives that are more than a power
AXES |= {"target": "nv", "maximum": "nv", "letters": "ncv", "1 - h**2": "nh", "bnvar + eps": "h"}
AXES |= {"d" + name: AXES[name] for name in GRADIENTS}
_BEFORE = ("hprebn", "embcat", "emb")  # BatchNorm
AXIS = {"n": "batch", "h": "hidden", "v": "class", "c": "context", "e": "embedding"}

# tensors that tell how long the axes are, the first one that is there
_RULERS = {"Xb": "nc", "logits": "nv", "hprebn": "nh", "C": "ve", "h": "nh", "hpreact": "nh", "probs": "nv"}
_RULERS |= {"counts": "nv", "bnraw": "nh", "W2": "hv", "emb": "nce"}


class Known:
    """A watched pass, in float64 on the CPU: forward values by name, gradients by name with a d in front.

    A value keeps only the axes of AXES, so (1, H) and (H,) are the same, and so are emb and embcat. Left out is
    whatever is not there or does not fit the others' sizes.
    """

    def __init__(self, values, gradients, eps=1e-5):
        self.size, self.eps, self.of, self._flows = {}, eps, {}, {}
        for name, axes in _RULERS.items():
            if name in values and values[name].dim() == len(axes):
                for axis, length in zip(axes, values[name].shape):
                    self.size.setdefault(axis, length)
        for name, tensor in [*values.items(), *(("d" + name, g) for name, g in gradients.items())]:
            if name in AXES and tensor.is_floating_point() and self.fits_in(tensor, name):
                self.of[name] = self.plain(tensor, name)
        self._derive(values)

    def fits_in(self, tensor, name):
        """Whether a tensor has as many entries as `name`."""
        axes = AXES[name]
        return all(a in self.size for a in axes) and tensor.numel() == self._length(axes)

    def plain(self, tensor, name):
        """The tensor in float64, with the axes of `name`."""
        return wide(tensor).reshape([self.size[a] for a in AXES[name]])

    def _length(self, axes):
        length = 1
        for axis in axes:
            length *= self.size[axis]
        return length

    def _derive(self, values):
        of, n, V = self.of, self.size.get("n"), self.size.get("v")
        for index, name in ("Yb", "target"), ("Xb", "letters"):
            t = values.get(index)
            whole = t is not None and not (t.is_floating_point() or t.is_complex()) and t.numel() and V
            if whole and self.fits_in(t.new_empty(t.numel() * V), name) and 0 <= t.min() <= t.max() < V:
                of[name] = F.one_hot(t.detach().cpu().long(), V).double()
        if "logits" in of:
            of["maximum"] = F.one_hot(of["logits"].max(1).indices, V).double()
            of.setdefault("probs", of["logits"].softmax(1))
        if "emb" in of:
            of.setdefault("embcat", of["emb"])
        if "h" in of:
            of["1 - h**2"] = 1 - of["h"] ** 2
        if "bnvar" in of:
            of["bnvar + eps"] = of["bnvar"] + self.eps
        self.divisor = n - 1 if n else None
        if n and n > 1 and "bnvar" in of and "bndiff2" in of:  # or n: whichever the forward pass divided by
            total = of["bndiff2"].sum(0)
            self.divisor = min((n - 1, n), key=lambda m: (of["bnvar"] - total / m).norm().item())

    def passes(self):
        """How often backward() has run through the pass, as far as its first gradient tells; 1 where it does not."""
        for name, key in ("logprobs", "logprobs"), ("logits", "logits (fused)"):
            terms = dict(self.formulas(name)).get(key)
            if terms and "d" + name in self.of:
                once, true = sum(self.value(term, name) for term in terms), self.of["d" + name]
                ratio = ((once * true).sum() / (once * once).sum()).item()
                times = round(ratio) if math.isfinite(ratio) else 1
                # n times as large: a sum over the batch is the loss, not its mean
                if 1 < times < 10 and times != self.size["n"] and fits(true, times * once, 1e-4):
                    return times
        return 1

    # --- evaluating terms

    def number(self, term):
        return eval(term.number, {"n": self.size["n"], "m": self.divisor})

    def factor(self, factor):
        """A factor as a pair (axes, tensor)."""
        tensor = self.of[factor.base]
        return AXES[factor.base], tensor if factor.power == 1 else tensor**factor.power

    def product(self, pairs, out, absolute=False):
        """Multiply pairs (axes, tensor), sum over the axes not in `out`, repeat along those only there."""
        missing = "".join(a for a in out if not any(a in axes for axes, _ in pairs))
        if missing:
            pairs = [*pairs, (missing, ones([self.size[a] for a in missing]))]
        have, total = "", ones(())
        # two at a time; an axis is summed once nothing else has it
        for i, (axes, tensor) in enumerate(pairs):
            later = set(out).union(*(axes for axes, _ in pairs[i + 1 :]))
            left = "".join(a for a in dict.fromkeys(have + axes) if a in later) if i < len(pairs) - 1 else out
            total = torch.einsum(f"{have},{axes}->{left}", total, tensor.abs() if absolute else tensor)
            have = left
        return total

    def value(self, term, name):
        return self.number(term) * self.product([self.factor(f) for f in term.factors], AXES[name])

    def formulas(self, name):
        """The ways to compute the gradient that the watched values allow, as pairs (key of TERMS, terms)."""
        for key in (name, name + " (fused)"):
            terms = TERMS.get(key, [])
            if (
                terms
                and all(f.base in self.of for term in terms for f in term.factors)
                and self.size.get("n")
            ):
                yield key, terms

    def flow(self, name, deep=False):
        """What flows into a gradient, entry by entry: its terms, each made positive so that nothing cancels.

        deep: also what flowed into the gradients that it is made of, back to the loss. None if the watched values
        do not tell. Before BatchNorm it is what BatchNorm's backward pass begins with, bnvar_inv * dbnraw: the
        mean and the variance only take away from that.
        """
        if (name, deep) not in self._flows:
            self._flows[name, deep] = self._flow(name, deep)
        return self._flows[name, deep]

    def _flow(self, name, deep):
        terms = TERMS[name]
        if name == "hprebn":
            terms = [Term("bnraw", "1", (Factor("bnvar_inv"), Factor("dbnraw")))]
        total = 0
        for term in terms:
            pairs = []
            for base, power in term.factors:
                axes, upstream = AXES[base], base[0] == "d" and base[1:] in TERMS and base[1:]
                if upstream and (deep or upstream in _BEFORE):
                    tensor = self.flow(upstream, deep)
                elif base == "1 - h**2" and deep and "h" in self.of:
                    tensor = 1 + self.of["h"] ** 2
                else:
                    tensor = self.factor(Factor(base, power))[1] if base in self.of else None
                if tensor is None:
                    return None
                pairs.append((axes, tensor))
            total = total + abs(self.number(term)) * self.product(pairs, AXES[name], absolute=True)
        return total


def ones(shape):
    """Ones to measure with, as `wide` makes them."""
    return torch.ones(shape, dtype=torch.float64, device="cpu")


def wide(tensor):
    """To measure with, not to write into: in float64, on the CPU, without a graph."""
    return tensor.detach().cpu().double()


def fits(yours, guess, tolerance, floor=0.0, each=False):
    """Whether two tensors of one shape agree as a whole, and row by row (each: entry by entry).

    tolerance: of the whole's size, and 20 times as much of a row's; floor: the least that a size is taken for.
    """
    difference, size = yours - guess, max(guess.norm().item(), floor)
    if not difference.norm() <= tolerance * size:
        return False
    rows = guess.numel() if each else guess.shape[0] if guess.dim() > 1 else 1
    apart, sizes = (t.reshape(rows, -1).norm(dim=1) for t in (difference, guess))
    # so that a guess cannot hide behind a few large entries
    least = 0.0 if each else 1e-4 * tolerance * size + 10 * tolerance * floor
    return bool((apart <= 20 * tolerance * sizes + least).all())
