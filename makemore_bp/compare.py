"""cmp: is your gradient the true one? It looks at shape, dtype, device, finiteness and relative difference."""

from types import SimpleNamespace

import torch

from .rules import STEPS

TOLERANCE = {
    torch.float32: 1e-6,
    torch.float64: 1e-12,
}  # of the relative difference; right variants stay below


class Row:
    """One comparison. True when the two agree; shown as nothing, since the row was printed already.

    Fields: name, exact, approximate (the verdict; None: cannot be judged), maxdiff, relative
    (‖yours − true‖/‖true‖; both None where no comparison was possible) and note, the sentence below the row, or "".
    """

    def __init__(self, name, exact=False, approximate=False, maxdiff=None, relative=None, note=""):
        self.name, self.exact, self.approximate = name, exact, approximate
        self.maxdiff, self.relative, self.note = maxdiff, relative, note

    def __bool__(self):
        return self.approximate is True

    def __str__(self):
        verdict = "?" if self.approximate is None else str(self.approximate)
        maxdiff, relative = ("-" if x is None else f"{x:.1e}" for x in (self.maxdiff, self.relative))
        row = (
            f"{self.name:18s} | exact: {str(self.exact):5s} | approximate: {verdict:5s} "
            f"| maxdiff: {maxdiff:7s} | relative: {relative:7s}"
        ).rstrip()
        return row + (f"\n    {self.note}" if self.note else "")

    __repr__ = __str__

    def _ipython_display_(self):
        pass


class Compare:
    """Callable as cmp(name, yours, tensor): compare your gradient with tensor.grad and print a row."""

    def __init__(self):
        self.forget()

    def forget(self):
        """Forget the pass handed over by `watch`."""
        self._pass = {}

    def watch(self, forward_pass):
        """Hand over the forward pass once: a `Pass`, or a dict of named tensors such as globals().

        With it `cmp` can judge gradients whose true value is zero, and `given` can fetch the true ones.
        """
        if not isinstance(forward_pass, (dict, SimpleNamespace)):
            raise TypeError(
                f"cmp.watch takes a forward pass or globals(), not {_a(type(forward_pass).__name__)}."
            )
        values = forward_pass if isinstance(forward_pass, dict) else vars(forward_pass)
        names = [*STEPS, "Xb"]
        self._pass = {name: values[name] for name in names if isinstance(values.get(name), torch.Tensor)}

    def given(self, name):
        """A copy of the true gradient of a watched value, to start from: given('counts')."""
        tensor = self._pass.get(name)
        if tensor is None:
            raise KeyError(f"no value named {name!r} is being watched; hand the pass over with cmp.watch(v).")
        truth, problem = _truth(tensor)
        if problem:
            raise ValueError(problem)
        return truth.clone()

    def __call__(self, name, yours, tensor):
        """Compare `yours` with `tensor.grad`; print the row and return it (a `Row`)."""
        row = self._judge(name, yours, tensor)
        print(row)
        return row

    def _judge(self, name, yours, tensor):
        if not isinstance(name, str):
            return Row("?", note="the order is cmp(name, yours, tensor): a name comes first, as a string.")
        problem = _unusable(yours, tensor)
        if problem:
            return Row(name, note=problem)
        truth, problem = _truth(tensor)
        problem = problem or _mismatch(yours.detach(), truth)
        if problem:
            return Row(name, note=problem)
        yours = yours.detach()
        exact = bool(torch.equal(yours, truth))
        difference = _wide(yours) - _wide(truth)
        known_as = self._known_as(tensor)
        zero = known_as in self._zeros()
        size = self._flow(known_as) if zero else _size(_wide(truth))
        relative = 0.0 if exact else _size(difference) / size if size else float("inf")
        maxdiff = difference.abs().max().item() if yours.numel() else 0.0
        row = Row(name, exact, relative <= TOLERANCE[truth.dtype], maxdiff, relative)
        if zero:
            row.note = "relative to what flows into it, since its true value is zero"
            row.note += (
                " up to eps." if self._pass["hprebn"].shape[0] == 2 and known_as != "logit_maxes" else "."
            )
        elif not exact and name in ("logit_maxes", "b1") and known_as is None:
            row.approximate = None
            row.note = "its true value may be zero, so its own size is no measure; hand the pass over with cmp.watch(v)."
        return row

    # --- gradients whose true value is zero

    def _known_as(self, tensor):
        return next((known for known, t in self._pass.items() if t is tensor), None)

    def _zeros(self):
        zeros = {"logit_maxes"} if self._usable("norm_logits") else set()
        if self._usable("hprebn", "bnvar_inv", "bnraw", "embcat", "W1", "emb", "C", "Xb"):
            zeros.add("b1")
            if self._pass["hprebn"].shape[0] == 2:
                zeros |= {"hprebn", "embcat", "W1", "emb", "C"}
        return zeros

    def _usable(self, *names):
        return all(
            name in self._pass and (name == "Xb" or self._pass[name].grad is not None) for name in names
        )

    def _flow(self, name):
        """The size of the terms that cancel: the gradient's own sums, with every term made positive."""
        p = self._pass
        if name == "logit_maxes":
            return _size(_wide(p["norm_logits"].grad).abs().sum(1))
        flow = (_wide(p["bnvar_inv"]) * _wide(p["bnraw"].grad)).abs()
        if name == "W1":
            flow = _wide(p["embcat"]).abs().T @ flow
        elif name == "b1":
            flow = flow.sum(0)
        elif name in ("embcat", "emb", "C"):
            flow = flow @ _wide(p["W1"]).abs().T
            if name == "C":
                rows = flow.view(-1, p["C"].shape[1])
                flow = rows.new_zeros(p["C"].shape).index_add_(0, p["Xb"].flatten().cpu(), rows)
        return _size(flow)


def _wide(t):
    return t.detach().cpu().double()


def _size(t):
    return t.norm().item()


def _unusable(yours, tensor):
    """A sentence if the two cannot be compared at all, else None."""
    if yours is None or yours is ...:
        return "to do: nothing to compare yet."
    if not isinstance(yours, torch.Tensor):
        return f"yours is not a tensor but {_a(type(yours).__name__)}."
    if not isinstance(tensor, torch.Tensor):
        return f"the third argument is {_a(type(tensor).__name__)}; give the forward value whose gradient this is, a tensor."
    return None


def _a(word):
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


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
