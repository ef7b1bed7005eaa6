"""What is wrong with a gradient, in a sentence: the search behind `cmp`.

Right or silent. Each guess is computed and held against the reader's value; a cause is named only where it gives
that value, entry by entry, so that putting it right would give the true gradient. Guesses are not written down
for each of the 26: they are changes to the terms in terms.py (a term left out, a factor dropped, squared or
exchanged, an axis summed or not), plus a few that need no knowledge of the pass.
"""

from fractions import Fraction

import torch

from .rules import STEPS
from .shapes import reductions, shape_cause
from .slips import slips
from .terms import AXES, AXIS, TERMS, fits, wide


def largest(yours, truth, among=None):
    """The entry with the largest difference (of those where `among` is True): index, yours, the true value."""
    difference = (wide(yours) - wide(truth)).abs().flatten()
    if not difference.numel():
        return ""
    if among is not None and among.any():
        difference = difference * among.flatten()
    # the first of those that are as large, so that a last bit does not decide which is shown
    at = int((difference >= 0.999 * difference.max()).nonzero()[0])
    values = [wide(t).flatten()[at].item() for t in (yours, truth)]
    mine, theirs = map(_figure, values)
    if mine == theirs:
        theirs += f", {difference[at].item():.1e} apart"
    index = []
    for length in reversed(yours.shape):
        at, i = divmod(at, length)
        index.insert(0, i)
    return f"the largest difference is at {index}: yours {mine}, true {theirs}."


def _figure(x):
    if x and abs(x) < 1e-6:
        return f"{x:.1e}" if abs(x) > 1e-8 else "about 0"
    return f"{x:.4g}"


class Search:
    """The search for one gradient. yours, truth: two finite tensors of the dtype compared.

    known: the watched pass (`Known`) or None; floor: the size that errors are measured against where the true
    value is zero; fused: whether a fused form is tried first; each: whether guesses are held against it entry by
    entry; wrong: the reader's own gradients, by name, whose last row did not agree.
    """

    def __init__(
        self, name, yours, truth, tolerance, known=None, floor=0.0, fused=False, each=False, wrong=None
    ):
        self.name, self.known, self.floor, self.fused, self.each = name, known, floor, fused, each
        self.tolerance = 2 * tolerance  # the guess is rounded too
        self.shapes = tuple(yours.shape), tuple(truth.shape)
        self.yours, self.truth, self.wrong = wide(yours), wide(truth), wrong or {}
        self._constants = None
        self.found = []  # pairs (rank, sentence); the lowest rank is the most specific

    def fits(self, guess, yours=None):
        yours = self.yours if yours is None else yours
        if guess.shape != yours.shape or not fits(yours, guess, self.tolerance, self.floor, self.each):
            return False
        # a value hardly outside the tolerance fits guesses that are all but the truth, and they explain nothing
        near = guess.shape == self.truth.shape
        return not (near and fits(guess, self.truth, self.tolerance, self.floor, self.each))

    def add(self, rank, sentence):
        if (rank, sentence) not in self.found:
            self.found.append((rank, sentence))

    def sentence(self):
        """The cause; "" if none fits, or too many do."""
        if self.shapes[0] != self.shapes[1]:
            shape_cause(self)
        else:
            self.plain()
            if not self.found and self.known and self.name in TERMS:
                self.yours = self.known.plain(self.yours, self.name)
                self.truth = self.known.plain(self.truth, self.name)
                self.terms()
                self.another()
                self.letters()
            if not self.found:
                self.numbers()
        best = sorted({rank for rank, _ in self.found})[:1]
        told = [text for rank, text in self.found if [rank] == best]
        if len(told) > 2:
            return ""
        return " Or: ".join(text[0].upper() + text[1:] if i else text for i, text in enumerate(told))

    # --- without knowing the pass

    def plain(self):
        y, t = self.yours.flatten(), self.truth.flatten()
        if y.numel() and not y.any():
            self.add(0, "yours is all zeros, and the true gradient is not.")
        elif y.numel() > 1 and (y == y[0]).all() and not (t == t[0]).all():
            self.add(0, f"all entries of yours are the same number, {_figure(y[0].item())}.")

    def numbers(self):
        """One factor for all entries, one number added to all, a transposition, rows in another order."""
        y, t = self.yours, self.truth
        if self.floor or not t.any():
            return
        scale = ((y * t).sum() / (t * t).sum()).item()
        if y.numel() > 1 and self.fits(scale * t):
            self.add(1, self.every_entry(scale))
        offset = y - t
        if y.numel() > 2 and offset.any() and fits(offset, offset.mean().expand_as(offset), 1e-3):
            amount = _figure(offset.mean().item())
            self.add(1, f"every entry is off by the same amount, {amount}: was it added later?")
        if y.dim() == 2 and y.shape[0] == y.shape[1] and self.fits(t.T):
            self.add(1, "it is transposed: rows and columns have changed places.")
        if y.dim() > 1 and y.shape[0] > 1 and self.fits(t.flip(0)):
            self.add(1, "the rows stand in reverse order.")

    def every_entry(self, scale, place=""):
        times = self.times(scale)
        if times == "-1 times":
            return f"the sign is wrong in every entry.{place}"
        return f"every entry is {times} the true one.{place}"

    def constants(self):
        """Numbers worth a name, as pairs (text, value): those in n, H and V only with the pass."""
        if self._constants:
            return self._constants
        texts = ["1", "2", "1/2", "3", "1/3", "4", "1/4"]
        size = self.known.size if self.known else {}
        letters = {
            letter: size[axis] for letter, axis in (("n", "n"), ("V", "v"), ("H", "h")) if axis in size
        }
        for letter in letters:
            texts += [letter, f"1/{letter}"]
        if size.get("n", 0) > 1:
            texts += [
                "n - 1",
                "1/(n - 1)",
                "n/(n - 1)",
                "(n - 1)/n",
                "n**2",
                "1/n**2",
                "n*(n - 1)",
                "n/2",
                "2/n",
            ]
        self._constants = [(text, eval(text, {}, letters)) for text in texts]
        return self._constants

    def named(self, number, within):
        """The constants that a number may be, of either sign: pairs (text, value)."""
        sign = -1.0 if number < 0 else 1.0
        signed = [(f"-{text}" if sign < 0 else text, sign * value) for text, value in self.constants()]
        return [(text, value) for text, value in signed if abs(number - value) <= within * abs(value)]

    def times(self, number):
        """In words: "n = 32 times", "(n - 1)/n = 31/32 times", "1.01 times"."""
        near = 100 * self.tolerance
        texts = [text for text, _ in self.named(number, near)]
        ratio, shown = Fraction(number).limit_denominator(1000), f"{number:.4g}"
        short = abs(number - float(f"{number:.3g}")) <= near * abs(number)
        simple = texts or not short and abs(ratio.numerator - ratio.denominator) == 1
        if simple and ratio and abs(number / float(ratio) - 1) <= near:
            shown = str(ratio)
        return " = ".join([*(text for text in texts if text != shown), shown]) + " times"

    # --- with the pass

    def terms(self):
        """All that can be wrong with the terms, for each way to compute the gradient."""
        for key, terms in self.known.formulas(self.name):
            values = [self.known.value(term, self.name) for term in terms]
            size = max(
                [self.floor and v.norm().item() for v in values] + [self.floor, self.truth.norm().item()]
            )
            if not (sum(values) - self.truth).norm() <= 50 * self.tolerance * size:
                continue  # another forward pass, or a value overwritten since: what follows would be guesses
            fused = key.endswith("(fused)")
            later = 0.1 if self.fused != fused else 0.0
            self.inherited(terms)
            self.shares(terms, values, later)
            self.wrong_axis(terms, later)
            for term, value in zip(terms, values):
                inside = f"in the path through {term.through}, " if len(terms) > 1 else ""
                inside = f"in the term of {term.through}, " if fused else inside
                for rank, text, pairs in self.changes(term):
                    change = self.known.number(term) * self.known.product(pairs, AXES[self.name])
                    self.try_change(
                        rank + later, inside + text + self.place(term), sum(values) - value, change
                    )
            if len(terms) > 1:
                self.in_every_term(terms, values, later)

    def in_every_term(self, terms, values, later):
        """A factor that all terms share, left out or with another power."""
        for base in set.intersection(*({f.base for f in term.factors} for term in terms)):
            for power in (-1, 0, 2):
                if self.fits(sum(values) * self.known.of[base] ** (power - 1)):
                    self.add(3 + later, f"in every term {self.power(base, 1, power)}.")

    def inherited(self, terms):
        """Right from the reader's own upstream gradient, which is wrong."""
        known, before = self.known, self.known.of
        mine = {"d" + name: known.plain(t, name) for name, t in self.wrong.items() if known.fits_in(t, name)}
        used = sorted(mine.keys() & {f.base for term in terms for f in term.factors})
        if not used or self.floor:
            return
        known.of = before | {name: mine[name] for name in used}
        guess = sum(known.value(term, self.name) for term in terms)
        known.of = before
        if self.fits(guess):
            self.add(-1, f"the step itself is right; what is wrong came in with your {' and '.join(used)}.")

    def place(self, term):
        line = STEPS[term.through].line if term.through in STEPS else ""
        return f" Look again at `{term.through} = {line}`." if line else ""

    def shares(self, terms, values, later):
        """How often each term is in it: left out, twice, with another sign or another constant."""
        felt = [i for i, value in enumerate(values) if value.norm() > 1e-5 * self.yours.norm()]
        if not felt or self.floor:
            return
        lengths = torch.stack([values[i].norm() for i in felt])
        columns = torch.stack([values[i].flatten() for i in felt], 1) / lengths
        if torch.linalg.eigvalsh(columns.T @ columns)[0] < 1e-6:
            return  # hardly to be told apart
        solved = torch.linalg.lstsq(columns, self.yours.flatten()[:, None]).solution[:, 0] / lengths
        counts = [1.0] * len(terms)
        for i, count in zip(felt, solved.tolist()):
            near = [0.0] if abs(count) < 1e-3 else [value for _, value in self.named(count, 1e-3)]
            if not near:
                return
            counts[i] = min(near, key=lambda value: abs(count - value))
        choices = [counts]
        for i in set(range(len(terms))) - set(felt):  # too small to be solved for beside the others
            choices += [[*counts[:i], other, *counts[i + 1 :]] for other in (0.0, -1.0, 2.0)]
        for counts in choices:
            if set(counts) != {1.0} and self.fits(sum(c * value for c, value in zip(counts, values))):
                rank = 1 if len(set(counts)) == 1 else 2
                self.add(rank + later, self._shares_text(terms, counts))

    def _shares_text(self, terms, counts):
        fused = terms[0].through not in STEPS
        if len(set(counts)) == 1:
            place = self.place(terms[0]) if len(terms) == 1 else ""
            axes = {a for f in terms[0].factors for a in AXES[f.base]} - set(AXES[self.name])
            for axis in axes if len(terms) == 1 else ():
                if abs(counts[0] * self.known.size[axis] - 1) < 1e-9:
                    place = f" Was it a mean over the {AXIS[axis]} axis, where a sum belongs?"
            return self.every_entry(counts[0], place)
        if 0 in counts and set(counts) <= {0, 1} and not fused:
            there = " and ".join(t.through for t, c in zip(terms, counts) if c)
            missing = [t.through for t, c in zip(terms, counts) if not c]
            lines = " and ".join(f"`{name} = {STEPS[name].line}`" for name in missing)
            return f"this is only the path through {there}; {self.name} also stands on the right of {lines}."
        texts = []
        for term, count in zip(terms, counts):
            what = f"the term of {term.through}" if fused else f"the path through {term.through}"
            if count == 0:
                texts.append(f"{what} is missing")
            elif count == -1:
                texts.append(f"{what} has the wrong sign")
            elif count == 2:
                texts.append(f"{what} counts twice")
            elif count != 1:
                texts.append(f"{what} is {self.times(count)} what it should be")
        return ", and ".join(texts) + "."

    def power(self, base, right, power):
        """What it means that a factor has `power` and not the right one."""
        base = _word(base)
        if power == 0:
            return f"a factor made of {base} is missing" if right != 1 else f"the factor {base} is missing"
        if right == 1 and power == 2:
            return f"the factor {base} stands twice"
        if right == 1 and power == -1:
            return f"it is divided by {base}, where it should be multiplied"
        if right == -1 and power == 1:
            return f"it is multiplied by {base}, where it should be divided"
        return f"the exponent of {base} in the backward line is not {power:g}"

    def changes(self, term):
        """Changed versions of a term: (rank, sentence, pairs (axes, tensor))."""
        known, of = self.known, self.known.of
        pairs = [known.factor(f) for f in term.factors]
        for j, (base, right) in enumerate(term.factors):
            others, axes = pairs[:j] + pairs[j + 1 :], AXES[base]
            for power in (0, -3, -2.5, -2, -1.5, -1, -0.5, 0.5, 1, 1.5, 2, 3):
                if power != right and (power == 0 or not base.startswith("d")):
                    changed = [(axes, of[base] ** power)] if power else []
                    upstream = "the upstream gradient is missing" if base.startswith("d") else None
                    yield 3, (upstream or self.power(base, right, power)) + ".", others + changed
            if base == "bnvar + eps":
                text = "eps is missing: the forward pass added it before it took the power."
                yield 3, text, [*others, (axes, of["bnvar"] ** right)]
            for text, tensor in slips(known, base):
                yield 3, text, [*others, (axes, tensor)]
            if base.startswith("d") and self.name == "hprebn":  # its fused form writes out the sums in it
                for text, changed in reductions(known, base[1:]):
                    yield 3, text, [*others, changed]
            for other, tensor in of.items():
                if other != base and self._may_stand(other, base):
                    yield 4, self.exchanged(other, base), [*others, (AXES[other], tensor**right)]
        there = {a for axes, _ in pairs for a in axes} | set(AXES[self.name])
        for other, tensor in of.items():
            known_base = any(f.base == other for f in term.factors)
            if other in STEPS and not known_base and set(AXES[other]) <= there:
                yield 5, f"there is a factor {other} too many.", [*pairs, (AXES[other], tensor)]
                yield 5, f"it is divided by {other} once too often.", [*pairs, (AXES[other], 1 / tensor)]

    def _may_stand(self, other, base):
        """Whether a value can stand where another belongs: the same axes, or fewer or more of those in play."""
        if other.removeprefix("d") in ("emb", "embcat") and AXES[other] == AXES[base]:
            return other.endswith("embcat")  # the same numbers, so one of them is enough
        mine, theirs = set(AXES[base]), set(AXES[other])
        return mine == theirs or (
            bool(theirs) and (theirs <= mine or mine <= theirs) and "c" not in theirs - mine
        )

    def exchanged(self, other, base):
        if base.startswith("d"):
            if other.startswith("d"):
                return f"the upstream gradient is another one: {other} does not belong there."
            return f"{_word(other)}, a forward value, stands where the upstream gradient belongs."
        if other.startswith("d"):
            return f"{other}, a gradient, stands where a forward value belongs."
        return f"{_word(other)} does not belong there; look for another forward value."

    def try_change(self, rank, text, rest, change):
        if not change.isfinite().all() or not change.any():
            return
        share = (((self.yours - rest) * change).sum() / (change * change).sum()).item()
        for _, value in self.named(share, 1e-3)[:1]:
            if self.fits(rest + value * change):
                more = f" And besides, it is {self.times(value)} what it should be."
                more = " And besides, the sign is wrong." if value == -1 else more
                self.add(rank + (0 if value == 1 else 0.5), text + ("" if value == 1 else more))

    def wrong_axis(self, terms, later):
        """A sum along the wrong axis whose result happens to have the right shape."""
        if len(terms) != 1 or len(AXES[self.name]) != 1:
            return
        pairs = [self.known.factor(f) for f in terms[0].factors]
        for axis in sorted({a for axes, _ in pairs for a in axes} - set(AXES[self.name])):
            guess = self.known.number(terms[0]) * self.known.product(pairs, axis)
            if guess.shape == self.yours.shape and self.fits(guess):
                self.add(3 + later, f"the sum runs along the wrong axis, and keeps the {AXIS[axis]} axis.")

    def another(self):
        """Another gradient, or a forward value, handed in whole."""
        for other, tensor in self.known.of.items():
            if AXES[other] != AXES[self.name] or other == "d" + self.name or not self.fits(tensor):
                continue
            if other.removeprefix("d") not in STEPS:
                continue
            if not other.startswith("d"):
                itself = " itself" if other == self.name else ""
                self.add(3.5 - bool(itself), f"this is {other}{itself}, a forward value, and no gradient.")
                continue
            alias = any(t.factors == (("d" + self.name, 1),) for t in TERMS[other[1:]])
            text = f"this is {other}, the gradient of another variable."
            if alias:
                text += f" Did it begin with `{other} = d{self.name}` and go on with `+=`? Then both are one tensor."
            self.add(3 if alias else 3.5, text)

    def letters(self):
        """For the embedding: letters that were not read get a gradient."""
        if self.name == "C" and "letters" in self.known.of:
            read, written = self.known.of["letters"].flatten(0, 1).any(0), self.yours.any(1)
            if (stray := (written & ~read).nonzero()).numel() and not written.all():
                row = int(stray[0])
                self.add(7, f"row {row} has a gradient, and letter {row} does not occur in Xb.")


def _word(base):
    """A factor as a reader calls it."""
    ones = {"target": "targets", "maximum": "maxima", "letters": "letters"}
    return f"the one-hot matrix of the {ones[base]}" if base in ones else base
