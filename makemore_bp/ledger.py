"""The ledger: what was compared, held against itself once more at the end."""

from typing import NamedTuple

import torch

from .rules import GRADIENTS


def same_memory(a, b):
    """Whether two tensors share memory, so that writing into one changes the other."""
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)) or a.device != b.device:
        return False
    try:
        one, two = a.untyped_storage(), b.untyped_storage()
        return bool(one.nbytes()) and one.data_ptr() != 0 and one.data_ptr() == two.data_ptr()
    except (RuntimeError, NotImplementedError):  # sparse, nested, fake: no storage of their own
        return False


class Entry:
    """A row that was printed: the reader's tensor itself, and a copy of what it was then."""

    def __init__(self, known_as, label, yours, tensor, row):
        self.known_as, self.label, self.yours, self.tensor, self.row = known_as, label, yours, tensor, row
        self.then = yours.detach().clone() if row else None  # a wrong one may change as it likes
        first = label.split()[0].strip(",(") if label.split() else ""
        self.gradient = known_as or first

    def changed(self):
        return self.then is not None and not same_values(self.yours.detach(), self.then)


def same_values(a, b):
    return a.shape == b.shape and bool(
        torch.equal(a, b) or torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)
    )


class Change(NamedTuple):
    """A value that is no longer what it was: its name, what it is, and the names that share its memory."""

    name: str
    what: str
    through: tuple

    def __str__(self):
        text = f"{self.name}, {self.what}"
        if self.through:
            text += f", through {' and '.join(self.through)}: both are one tensor in memory"
        return text + "."


class Ledger:
    """The score. True when all 26 are right, or all of `names` where those are given.

    right, wrong, todo: names of these that were compared (todo: with nothing, or with a copy); missing: those that
    were not; changed: a list of `Change`; blind: names of the right ones whose true value is zero.
    """

    def __init__(self, entries, judge, watched, before, truths, values, names=None):
        entries = list(entries)
        names = names.split() if isinstance(names, str) else names and list(names)
        if strange := [str(name) for name in names or () if name not in GRADIENTS]:
            raise ValueError(f"the ledger knows the 26 gradients by name, and not {', '.join(strange)}.")
        self._entries, self._values, self._chosen = entries, values, names is not None
        self._of = [name for name in GRADIENTS if names is None or name in names]
        self.changed, status = [], {}
        for e in entries:
            row = e.row
            if e.changed():
                row = judge(e.label, e.yours, e.tensor)
                if not row:
                    through = self._through(e.yours, e.gradient)
                    self.changed.append(Change("d" + e.gradient, "right when its row was printed", through))
            verdict = (
                "right" if row else "wrong" if row.approximate is False and not _todo(e.yours) else "todo"
            )
            # the row that bears the gradient's own name counts, before "logits (fused)", before "counts, one use"
            rank = 2 if e.label == e.gradient else 1 if "fused" in e.label else 0
            if rank >= status.get(e.gradient, (0, ""))[0]:
                status[e.gradient] = rank, verdict, bool(row and row.blind)
        for name, then in before.items():
            if not same_values(watched[name].detach(), then):
                self.changed.append(
                    Change(name, "a forward value, since cmp.watch", self._through(watched[name], name, ""))
                )
        for name, (gradient, version, then) in truths.items():
            if (
                watched[name].grad is gradient
                and gradient._version != version
                and not same_values(gradient, then)
            ):
                through = self._through(gradient, name)
                self.changed.append(Change(f"{name}.grad", "the true gradient, since cmp.watch", through))
        found = {name: status[name][1] if name in status else "missing" for name in self._of}
        self.right, self.wrong, self.todo, self.missing = (
            [name for name in self._of if found[name] == kind]
            for kind in ("right", "wrong", "todo", "missing")
        )
        self.blind = [name for name in self.right if status[name][2]]

    def _through(self, tensor, own, d="d"):
        """Other names for the memory of `tensor`: gradients compared, or what a dict handed to watch holds now."""
        found = [
            "d" + e.gradient
            for e in self._entries
            if "d" + e.gradient != d + own and same_memory(e.yours, tensor)
        ]
        for name, value in list(self._values.items()):
            if (
                isinstance(name, str)
                and not name.startswith("_")
                and name != d + own
                and same_memory(value, tensor)
            ):
                found.append(name)
        return tuple(dict.fromkeys(found))

    def __bool__(self):
        return len(self.right) == len(self._of) > 0

    def __str__(self):
        todo = [n for n in self._of if n in self.todo or self._chosen and n in self.missing]
        head = f"{len(self.right)} right, {len(self.wrong)} wrong, {len(todo)} to do"
        lines = [f"{head} ({len(self.right)} of {len(self._of)})"]
        for kind, names in ("wrong", self.wrong), ("to do", todo):
            lines += [f"    {kind}: {' '.join(names)}"] if names else []
        if self.blind:
            them = "them" if len(self.blind) > 1 else "it"
            what = f"true value zero, so a sign or a factor can't be seen in {them}"
            lines.append(f"    ({', '.join(self.blind)}: {what})")
        lines += [f"    changed: {change}" for change in self.changed]
        return "\n".join(lines)

    __repr__ = __str__

    def _ipython_display_(self):
        pass


def _todo(yours):
    return yours is None or yours is ...
