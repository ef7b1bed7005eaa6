"""cmp: is your gradient the true one? It looks at shape, dtype, device, finiteness and relative difference.

Where it is not, `cmp` says what is wrong (causes.py), or shows the entry with the largest difference.
"""

import difflib
import math
import weakref
from collections.abc import Iterable
from types import SimpleNamespace

import torch

from .causes import Search, largest
from .checks import a
from .ledger import Entry, Ledger, same_memory, same_values
from .rules import STEPS
from .terms import Known, fits, wide

TOLERANCE = {
    torch.float32: 1e-6,
    torch.float64: 1e-12,
}  # of the relative difference; right variants stay below
ROWS = 10  # a single row may be off by so many tolerances of what flows into it (measured: 2 in float32)
# gradients of one example each, on the way to which nothing cancels: judged row by row, and by their own size
OWN_ROWS = ("logprobs", "probs", "counts_sum_inv", "counts_sum", "counts")
_MISSING = object()
SMALL = 8  # with fewer rows or units sums may cancel by chance, and what is left is no measure


class Row:
    """One comparison. True when the two agree; shown as nothing, since the row was printed already.

    Fields: name, exact, approximate (the verdict; None: cannot be judged, or does not count), maxdiff, relative
    (‖yours − true‖/‖true‖; both None where no comparison was possible), note (a sentence on how it was judged),
    cause (what is wrong, where that is known), entry (the largest difference) and blind (its true value is zero,
    whatever the batch, so that a sign or a factor cannot be seen); sentences that are not there are "".
    """

    def __init__(self, name, exact=False, approximate=False, maxdiff=None, relative=None, note=""):
        self.name, self.exact, self.approximate = name, exact, approximate
        self.maxdiff, self.relative, self.note = maxdiff, relative, note
        self.cause = self.entry = ""
        self.blind = False

    def __bool__(self):
        return self.approximate is True

    def __str__(self):
        verdict = "?" if self.approximate is None else str(self.approximate)
        maxdiff, relative = ("-" if x is None else f"{x:.1e}" for x in (self.maxdiff, self.relative))
        row = (
            f"{self.name:18s} | exact: {str(self.exact):5s} | approximate: {verdict:5s} "
            f"| maxdiff: {maxdiff:7s} | relative: {relative:7s}"
        ).rstrip()
        return "\n    ".join(filter(None, [row, self.note, self.cause or self.entry]))

    __repr__ = __str__

    def _ipython_display_(self):
        pass


class Compare:
    """Callable as cmp(name, yours, tensor): compare your gradient with tensor.grad and print a row."""

    def __init__(self):
        self._handed_out = {}  # by name, weak references to what `given` returned
        self.forget()

    def forget(self) -> None:
        """Forget the pass handed over by `watch`, and the rows of the ledger."""
        self._pass, self._names, self._eps = {}, {}, 1e-5
        self._before, self._truths, self._known, self._entries = {}, {}, None, {}

    def watch(self, forward_pass: SimpleNamespace | dict) -> None:
        """Hand over the forward pass once: a `Pass`, or a dict of named tensors such as globals().

        With it `cmp` can say what a wrong gradient is made of and judge gradients whose true value is zero,
        `given` can fetch the true ones, and `ledger` sees whether a forward value was overwritten.
        Starts the ledger anew. Raises TypeError for anything else.
        """
        if not isinstance(forward_pass, (dict, SimpleNamespace)):
            why = f"cmp.watch takes a forward pass or globals(), not {a(type(forward_pass).__name__)}."
            if isinstance(forward_pass, tuple) and hasattr(forward_pass, "_fields"):
                why += " Parameters are only its beginning: hand over what forward(params, Xb, Yb) returned."
            raise TypeError(why)
        self.forget()
        values = forward_pass if isinstance(forward_pass, dict) else vars(forward_pass)
        found = {name: values[name] for name in [*STEPS, "Xb", "Yb"] if name in values}
        self._pass = {name: t for name, t in found.items() if _plain(t)}
        self._names = values
        if isinstance(eps := values.get("eps"), float) and 0 <= eps < 1:
            self._eps = eps
        self._before = {name: t.detach().clone() for name, t in self._pass.items()}
        self._look()

    def given(self, name: str) -> torch.Tensor:
        """A copy of the true gradient of a watched value, to start from: given('counts').

        Raises KeyError for a name that is not watched, ValueError where there is no gradient.
        """
        tensor = self._pass.get(name) if isinstance(name, str) else None
        if tensor is None:
            near = difflib.get_close_matches(str(name), self._pass, 1)
            hint = f"did you mean {near[0]!r}?" if near else "hand the pass over with cmp.watch(v)."
            raise KeyError(f"no value named {name!r} is being watched by cmp.watch; {hint}")
        truth, problem = _truth(tensor)
        if problem:
            raise ValueError(problem)
        copy = truth.clone()
        alive = [r for r in self._handed_out.get(name, []) if r() is not None]
        self._handed_out[name] = [*alive, weakref.ref(copy)]
        return copy

    def __call__(self, name: str, yours: torch.Tensor, tensor: torch.Tensor = _MISSING) -> Row:
        """Compare `yours` with `tensor.grad`; print the row and return it (a `Row`). Raises nothing.

        Without `tensor`, the watched value that bears the name is taken.
        """
        if tensor is _MISSING and isinstance(name, str):
            tensor = self._pass.get(_first(name), _MISSING)
        row = self._row(name, yours, tensor)
        print(row)
        known_as = self._known_as(tensor)
        self._entries.pop((known_as, row.name), None)  # the latest stands last
        self._entries[known_as, row.name] = Entry(known_as, row.name, yours, tensor, row)
        return row

    def ledger(self, names: str | Iterable[str] | None = None) -> Ledger:
        """Compare once more all that was compared since the last `watch` or `forget`; print and return a `Ledger`.

        It counts how many of the 26 are right, wrong and still to do, and says which values have changed since
        their row was printed (or, forward values, since `watch`) and through which other name. names: a list of
        those that the score is to run over; what is missing of them counts as to do. Raises ValueError for others.
        """
        ledger = Ledger(
            self._entries.values(), self._row, self._pass, self._before, self._truths, self._names, names
        )
        print(ledger)
        return ledger

    # --- judging

    def _row(self, name, yours, tensor):
        if not isinstance(name, str):
            return Row("?", note="the order is cmp(name, yours, tensor): a name comes first, as a string.")
        if not name.isprintable():
            name = name.encode("unicode_escape").decode()
        try:
            return self._judge(name, yours, tensor)
        except Exception as error:  # a tensor of a kind that PyTorch itself cannot compare
            why = (str(error).strip().splitlines() or [""])[0].rstrip(".")
            return Row(name, note=f"the two could not be compared ({type(error).__name__}: {why}).")

    def _judge(self, name, yours, tensor):
        problem = _unusable(yours, tensor) or self._swapped(yours, tensor)
        if problem:
            return Row(name, note=problem)
        truth, problem = _truth(tensor)
        if problem:
            return Row(name, note=problem)
        yours = yours.detach()
        if yours.shape == truth.shape and same_memory(yours, truth):
            return Row(name, torch.equal(yours, truth), None, note=_ALIAS)
        self._look()
        known_as = self._known_as(tensor)
        # only while it is the true one: what was written over it since is the reader's, and judged
        if self._was_given(known_as, yours) and same_values(yours, truth):
            return Row(name, True, None, note=_GIVEN.format(known_as))
        fresh = self._fresh(known_as)
        known = self._known if fresh else None
        flow = known and known.flow(known_as)
        called = known_as or _first(name)
        zero = flow is not None and self._is_zero(known_as, truth, flow)
        problem = _mismatch(yours, truth)
        if problem:
            row = Row(name, note=problem)
            if yours.shape != truth.shape:
                self._explain(row, called, yours, truth, known, flow if zero else None)
            return row
        exact = bool(torch.equal(yours, truth))
        difference = wide(yours) - wide(truth)
        relative = 0.0 if exact else _relative(difference, flow if zero else wide(truth))
        maxdiff = difference.abs().max().item() if yours.numel() else 0.0
        row = Row(name, exact, relative <= TOLERANCE[truth.dtype], maxdiff, relative)
        if zero:
            row.note = "relative to what flows into it, since its true value is zero"
            two_rows = known.size.get("n") == 2 and known_as != "logit_maxes"
            row.note += " up to eps." if two_rows else "."
            row.blind = known_as in _ZERO
        if known and not row and self._cancels(known, known_as, difference, truth.dtype):
            row.approximate = True
            row.note = row.note or "its terms cancel here, so it is held against their size, not its own."
        elif flow is None and not exact and called in _ZERO:
            row.approximate = None
            row.note = "its true value may be zero, so its own size is no measure; hand the pass over with cmp.watch(v)."
            return row
        apart = None
        if row and not exact:
            apart = self._rows_apart(called, difference, wide(truth), known, ROWS * TOLERANCE[truth.dtype])
        if apart is not None:
            row.approximate = False
            row.note = "as a whole it is close, but not row by row: a few large entries hide the others."
        if row.approximate is False and known and (why := self._holds_more(known, known_as, yours, truth)):
            row.approximate, row.note = None, why
        if row.approximate is False:
            self._explain(row, called, yours, truth, known, flow if zero else None, apart)
            if known_as in self._truths and not fresh:
                row.note = f"{known_as}.grad is not what it was when it was first seen after cmp.watch; "
                row.note += "run forward and backward anew, and hand the pass over again."
        return row

    def _explain(self, row, called, yours, truth, known, flow, apart=None):
        """Fill in the row's cause and its largest entry. A courtesy: it must never cost the row."""
        try:
            row.cause = self._cause(row.name, called, yours, truth, known, flow)
            if not row.cause and yours.shape == truth.shape:
                row.entry = largest(yours, truth, apart)
        except Exception:
            pass

    def _cause(self, label, called, yours, truth, known, flow):
        latest = {e.known_as: e for e in self._entries.values() if e.known_as not in (None, called)}
        # not those that `given` handed out since: whoever began from the true one made the mistake here
        wrong = {
            name: e.yours
            for name, e in latest.items()
            if not e.row and _plain(e.yours) and not self._holds_given(name)
        }
        return Search(
            called,
            yours,
            truth,
            TOLERANCE[truth.dtype],
            known=known,
            floor=0.0 if flow is None else flow.norm().item(),
            fused="fused" in label or "one line" in label,
            each=called in OWN_ROWS,
            wrong=wrong,
        ).sentence()

    def _holds_more(self, known, name, yours, truth):
        """A sentence if yours is what one backward() through this pass gives, and .grad is not; else None."""
        mine, true = known.plain(yours, name), known.plain(truth, name)
        tolerance, times = 2 * TOLERANCE[truth.dtype], known.passes()
        if times > 1 and fits(true, times * mine, tolerance):
            return _TWICE.format(name, times)
        for _, terms in known.formulas(name) if self._pass[name].is_leaf else ():
            once = sum(known.value(term, name) for term in terms)
            if fits(mine, once, tolerance) and not fits(true, once, 100 * tolerance):
                return _MORE.format(name, STEPS[terms[0].through].line, terms[0].through)
        return None

    # --- the watched pass

    def _known_as(self, tensor):
        return next((known for known, t in self._pass.items() if t is tensor), None)

    def _swapped(self, yours, tensor):
        """A sentence if the forward value stands where the gradient belongs, else None."""
        if self._known_as(tensor) or _keeps(tensor):
            return None
        carries = yours.requires_grad and not tensor.requires_grad
        return _ORDER if self._known_as(yours) or _keeps(yours) or carries else None

    def _holds_given(self, name):
        return any(r() is not None for r in self._handed_out.get(name, []))

    def _was_given(self, name, yours):
        return any(same_memory(yours, r()) for r in self._handed_out.get(name, []))

    def _look(self):
        """Remember the true gradients once they are all there, with what the pass was at that moment."""
        if self._known or not self._pass:
            return
        keep = {n: t for n, t in self._pass.items() if t.requires_grad and (t.is_leaf or t.retains_grad)}
        gradients = {name: t.grad for name, t in keep.items() if t.grad is not None}
        if not gradients or any(t.grad is None for t in keep.values() if not t.is_leaf):
            return
        gradients = {name: g for name, g in gradients.items() if _plain(g)}
        self._truths = {name: (g, g._version, g.clone()) for name, g in gradients.items()}
        self._known = Known(self._pass, gradients, self._eps)

    def _fresh(self, name):
        """Whether this gradient is still the one of the watched pass."""
        if self._known is None or name not in self._truths:
            return False
        gradient, version, _ = self._truths[name]
        same = self._pass[name].grad is gradient and gradient._version == version
        return same and "d" + name in self._known.of

    def _is_zero(self, name, truth, flow):
        if name in _ZERO:
            return wide(truth).norm().item() <= 1e-3 * flow.norm().item()
        return self._known.size.get("n") == 2 and name in _BEFORE_BATCHNORM

    def _cancels(self, known, name, difference, dtype):
        """In float32, with few rows or units: whether the difference is rounding noise of terms that cancel."""
        few = min(known.size.get("n", SMALL), known.size.get("h", SMALL)) < SMALL
        if dtype != torch.float32 or not few or name in ("bnvar", "bndiff2"):  # there nothing is added up
            return False
        flow = known.flow(name, deep=True)
        ulps = 10 if known.size["n"] == 2 else 3  # measured: 6.4 and 1.7 at most
        return flow is not None and (difference.norm() <= ulps * torch.finfo(dtype).eps * flow.norm()).item()

    def _rows_apart(self, name, difference, truth, known, tolerance):
        """Where single rows are off although the whole is close: a mask, or None."""
        if truth.dim() < 2 or not truth.numel():
            return None
        rows, size = difference.flatten(1), truth.flatten(1).norm(dim=1, keepdim=True)
        flow = known and known.flow(name, deep=True)
        if flow is not None:
            flow = flow.reshape(rows.shape)
            apart = (rows.norm(dim=1) > tolerance * flow.norm(dim=1))[:, None].expand_as(rows)
            if name in OWN_ROWS:
                apart = apart | (rows.abs() > tolerance * flow + 1e-9 * size)
        elif name in OWN_ROWS:
            apart = (rows.norm(dim=1, keepdim=True) > tolerance * size + 1e-12 * size.max()).expand_as(rows)
        else:
            return None
        return apart.reshape(truth.shape) if apart.any() else None


_ORDER = (
    "the order is cmp(name, yours, tensor): your gradient comes second, and third the forward value, "
    "one that requires a gradient."
)
_GIVEN = (
    "this is what given({!r}) handed out, the true gradient itself: a copy proves nothing, so it does not count. "
    "Start from given() of the gradients before it."
)
_TWICE = (
    "{0}.grad is {1} times what one backward() gives, and yours is not: was backward() called {1} times? "
    "Run forward and backward anew, and hand the pass over again."
)
_MORE = (
    "yours is what `{2} = {1}` gives, and {0}.grad holds more: an earlier pass's (set it to None before backward()), "
    "or what another use of {0} adds."
)
_ZERO = ("logit_maxes", "b1")  # true value zero, whatever the batch
_BEFORE_BATCHNORM = ("hprebn", "embcat", "W1", "emb", "C")  # for n = 2
_ALIAS = (
    "this is autograd's own .grad, or shares its memory: a copy proves nothing, so it does not count. "
    "Derive yours, then compare."
)


def _relative(difference, reference):
    """‖difference‖ / ‖reference‖ of a difference that is not 0, scaled so that no square over- or underflows."""
    top = reference.abs().max().item()
    if not top:
        return math.inf
    scale = math.ldexp(1.0, -max(min(math.frexp(top)[1], 1000), -1000))
    return ((difference * scale).norm() / (reference * scale).norm()).item()


def _first(label):
    """The name that a label begins with: counts of "counts, one use"."""
    return label.split()[0].strip(",(") if label.split() else ""


def _keeps(tensor):
    return tensor.requires_grad and (tensor.is_leaf or tensor.retains_grad)


def _plain(value):
    """Whether it is an ordinary tensor that can be read entry by entry."""
    return (
        isinstance(value, torch.Tensor)
        and not value.is_nested
        and value.layout == torch.strided
        and value.device.type != "meta"
    )


def _unusable(yours, tensor):
    """A sentence if the two cannot be compared at all, else None."""
    if yours is None or yours is ...:
        return "to do: nothing to compare yet."
    if not isinstance(yours, torch.Tensor):
        return f"yours is not a tensor but {a(type(yours).__name__)}."
    if tensor is _MISSING:
        return 'a third argument is missing: the forward value, as in cmp("W1", dW1, W1); or hand the pass over with cmp.watch(v).'
    if not isinstance(tensor, torch.Tensor):
        return f"the third argument is {a(type(tensor).__name__)}; give the forward value whose gradient this is, a tensor."
    if yours.is_nested or tensor.is_nested:
        return "nested tensors are not compared; use an ordinary one."
    return None


def _truth(tensor):
    """The tensor's gradient, or a sentence that says why there is none."""
    if not tensor.requires_grad:
        return (
            None,
            "the tensor does not require a gradient, so backward() computes none; was it made under no_grad()?",
        )
    if not (tensor.is_leaf or tensor.retains_grad):
        return None, "the tensor keeps no .grad: call its retain_grad() before loss.backward()."
    if tensor.grad is None:
        return None, "there is no .grad yet: call loss.backward() first (and retain_grad() before it)."
    if tensor.grad.dtype not in TOLERANCE:
        return None, f"gradients in {tensor.grad.dtype} are not compared; use float32 or float64."
    if tensor.grad.layout != torch.strided:
        return None, f"the true gradient is sparse ({tensor.grad.layout}), and sparse ones are not compared."
    if tensor.grad.device.type == "meta":
        return None, "the true gradient lies on meta, where there are no numbers."
    if not tensor.grad.isfinite().all():
        return None, "the true gradient itself holds nan or inf: the forward pass has overflowed."
    return tensor.grad, None


def _mismatch(yours, truth):
    """A sentence if yours differs in kind, before any number is compared, else None."""
    if yours.shape != truth.shape:
        return f"the shape is {tuple(yours.shape)} and should be {tuple(truth.shape)}: a gradient has the shape of its variable."
    if yours.dtype != truth.dtype:
        return f"the dtype is {yours.dtype} and should be {truth.dtype}."
    if yours.device != truth.device:
        return f"it lies on {yours.device} and should lie on {truth.device}."
    if yours.layout != truth.layout:
        return f"its layout is {yours.layout} and should be {truth.layout}."
    bad = int((~yours.isfinite()).sum())
    if bad:
        return f"{bad} of {yours.numel()} entries are nan or inf."
    return None


cmp = Compare()
given = cmp.given
