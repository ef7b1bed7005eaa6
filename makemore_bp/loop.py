"""A check for your own training step: are its gradients the true ones, in the loop too, and does it use them?"""

from collections.abc import Callable, Iterable
from functools import partial

import torch

from . import checks
from .compare import TOLERANCE, Compare
from .ledger import same_memory
from .model import Params, forward
from .terms import wide


class StepCheck:
    """Watches a few steps of a training loop that computes its gradients by hand.

        check = StepCheck(parameters)          # [C, W1, b1, W2, b2, bngain, bnbias], or a Params, or a dict
        for i in range(steps):
            ix = torch.randint(0, Xtr.shape[0], (32,))
            Xb, Yb = Xtr[ix], Ytr[ix]
            check.begin(Xb, Yb)                # before anything is computed
            ...                                # forward, backward by hand, update
            check.end(grads, lr)               # grads in the same order as parameters; loss=yours if you have it
        check.report()

    On each step that it watches it computes the true gradients itself, by autograd on copies of the parameters,
    and compares yours with them by name. It tells a gradient that is wrong from one that belongs to another
    batch, or to another parameter, or that is autograd's own; and it looks whether each parameter moved by
    exactly -lr times your gradient.

    parameters: the tensors that the loop updates in place (those, not copies). names: their names, if they are
    not the lecture's seven. steps: which calls of `begin` to watch. loss: a function of (parameters, Xb, Yb) that
    returns the loss, if the model is not the course's. The generators of random numbers are left alone.
    """

    def __init__(
        self,
        parameters: Params | dict[str, torch.Tensor] | list[torch.Tensor],
        names: list[str] | None = None,
        steps: Iterable[int] = (0, 1, 2, 10, 100, 1000),
        loss: Callable[[dict, torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
    ):
        if hasattr(parameters, "_asdict"):
            parameters = parameters._asdict()
        if not isinstance(parameters, dict):
            checks.kind("parameters", parameters, "a list of tensors, a Params or a dict", (list, tuple))
            checks.kind("names", names, "a list of names", (list, tuple, type(None)))
            names = list(names or Params._fields)
            if len(names) != len(parameters):
                raise ValueError(f"{len(parameters)} parameters and {len(names)} names: give names=[...].")
            parameters = dict(zip(map(str, names), parameters))
        if loss is None and set(parameters) != set(Params._fields):
            raise ValueError(f"the course's model has {', '.join(Params._fields)}; for another give loss=...")
        checks.kind("steps", steps, "a list of whole numbers", Iterable)
        if loss is not None:
            checks.kind("loss", loss, "a function of (parameters, Xb, Yb)", Callable)
        for name, p in parameters.items():
            checks.kind("a name", name, "text", str)
            checks.kind(f"the parameter {name}", p, "a tensor", torch.Tensor)
        self.parameters, self.steps, self.loss = parameters, set(steps), loss
        self.step, self.problems, self.watched = -1, [], 0
        self._truth, self._past, self._hooks = None, [], []

    def begin(self, Xb: torch.Tensor, Yb: torch.Tensor) -> None:
        """Before a step: remember the parameters and compute what their gradients will have to be."""
        checks.kind("Xb", Xb, "a tensor", torch.Tensor)
        checks.kind("Yb", Yb, "a tensor", torch.Tensor)
        self.step += 1
        self._truth = None
        self._unhook()
        if self.step not in self.steps:
            return
        self._old_grads = {
            n: (p.grad, p.grad is not None and p.grad._version) for n, p in self.parameters.items()
        }
        self._compare = Compare()
        self._listen()
        with torch.inference_mode(False), torch.enable_grad():
            self._copies = {name: p.detach().clone().requires_grad_() for name, p in self.parameters.items()}
            if self.loss:
                loss = self.loss(self._copies, Xb.clone(), Yb.clone())
                loss.backward()
            else:
                v = forward(Params(**self._copies), Xb.clone(), Yb.clone())
                loss = v.loss
                loss.backward()
                self._compare.watch(v)
            self._true_loss = loss.detach()
        self._truth = {name: copy.grad for name, copy in self._copies.items()}

    def end(
        self,
        grads: Params | dict[str, torch.Tensor] | list[torch.Tensor],
        lr: float | torch.Tensor,
        loss: float | torch.Tensor | None = None,
    ) -> None:
        """After the update: compare.

        grads: a list in the parameters' order, a Params or a dict; lr: a number; loss: your own loss of this step
        (a number or a tensor), which is compared first.
        """
        if self._truth is None:
            return
        checks.kind("lr", lr, "a number", (int, float, torch.Tensor))
        if hasattr(grads, "_asdict"):
            grads = grads._asdict()
        checks.kind("grads", grads, "a list of gradients, a Params or a dict", (list, tuple, dict))
        self.watched += 1
        self._unhook()
        if not isinstance(grads, dict):
            grads = list(grads)
            if len(grads) != len(self.parameters):
                self._say(
                    "",
                    f"{len(grads)} gradients for {len(self.parameters)} parameters: zip drops what is over.",
                )
            grads = dict(zip(self.parameters, grads))
        agree = {(a, b): self._agrees(grads[a], b) for a in grads for b in self._truth}
        self._off = {}
        problems = {name: self._gradient(name, grads, agree) for name in self.parameters}
        at_once, closing = self._together(problems, loss)
        for name, problem in problems.items():
            if at_once and self._off.get(name) is False:
                continue  # the closing line stands for it
            problem = problem or self._movement(name, grads.get(name), lr)
            if problem:
                self._say(name, problem)
        if closing:
            self._say("", closing)
        self._past.append((self.step, self._truth, {n: _copy(g) for n, g in grads.items()}))
        self._truth = None

    def report(self) -> bool:
        """Print what was found; True if nothing was, and at least one step was watched."""
        print(self)
        return bool(self)

    def __bool__(self):
        return bool(self.watched) and not self.problems

    def __str__(self):
        if not self.watched:
            return "no step was watched: call begin(Xb, Yb) and end(grads, lr) in the loop."
        head = f"{self.watched} step{'s' * (self.watched > 1)} watched: "
        if not self.problems:
            return head + "every gradient is the true one, and the parameters moved by -lr times it."
        lines, first = [], {}
        for step, name, text in self.problems:  # each sentence once, with the steps it was true of
            first.setdefault((name, text), []).append(step)
        for (name, text), steps in first.items():
            lines.append(f"    {'d' + name + ', ' if name else ''}step {', '.join(map(str, steps))}: {text}")
        return "\n".join([head + "something is wrong.", *lines])

    __repr__ = __str__

    def _listen(self):
        """Notice where autograd writes into a parameter's .grad during this step; a loop of one's own may too."""
        self._written = set()
        for name, p in self.parameters.items():
            if p.requires_grad and p.is_leaf and not p.is_inference():
                heard = partial(lambda name, _: self._written.add(name), name)
                self._hooks.append(p.register_post_accumulate_grad_hook(heard))

    def _unhook(self):
        while self._hooks:
            self._hooks.pop().remove()

    def _say(self, name, text):
        self.problems.append((self.step, name, text))

    def _row(self, name, gradient):
        return self._compare._row(name, gradient, self._copies[name])

    def _agrees(self, gradient, name):
        return isinstance(gradient, torch.Tensor) and bool(self._row(name, gradient))

    def _gradient(self, name, grads, agree):
        """What is wrong with one gradient, or None."""
        if name not in grads:
            return "there is none."
        mine, p = grads[name], self.parameters[name]
        if name in self._written and same_memory(mine, p.grad):
            return f"it is {name}.grad, autograd's own, not one of yours."
        row = self._row(name, mine)
        if row:
            return None
        for other in self._truth:
            if other != name and agree.get((name, other)) and other not in ("b1",):
                both = agree.get((other, name))
                return f"it is d{other}: {'the two have changed places' if both else 'the order does not match'}."
        for step, truths, before in reversed(self._past):
            if isinstance(mine, torch.Tensor) and _same(mine, before.get(name)):
                return f"it has not changed since step {step}: it is not computed in the loop (a mistyped name?)."
            copy = self._copies[name]
            copy.grad, now = truths[name], copy.grad
            stale = Compare()._row("earlier", mine, copy)
            copy.grad = now
            if stale:
                return f"it belongs to the batch of step {step}, not to this one."
        if row.maxdiff is None:
            return row.note
        self._off[name] = bool(row.cause)  # whether it is known what is wrong
        return row.cause or row.entry or row.note

    def _together(self, problems, loss):
        """What the gradients tell together: (whether they are off at once, a closing sentence or "")."""
        wrong = {name for name, problem in problems.items() if problem}
        # db1 is about zero whatever came before, so it says nothing
        zero = () if self.loss else ("b1",)
        others = {name for name in self.parameters if name not in zero}
        plain = wrong == self._off.keys()  # none stale, swapped, copied or of another shape
        theirs = "the loss=... that StepCheck was given"
        if loss is not None and not self._same_loss(loss):
            where = theirs if self.loss else f"the course's ({_COURSE})"
            mine, true = _number(loss), _number(self._true_loss)
            text = f"your loss is {mine:.6g} and should be {true:.6g}: the forward pass, or the loss, is not {where}."
            return plain and others <= wrong, text
        if not plain or all(self._off.values()):  # nothing is off, or each sentence already says why
            return False, ""
        if others <= wrong and len(others) > 1:
            if loss is not None:
                first = "" if self.loss else ", so look between the loss and logits"
                return True, f"Many are off at once, and the loss is right{first}."
            where = theirs if self.loss else f"the course's ({_COURSE})"
            return True, f"Many are off at once: is the forward pass, or the loss, {where}?"
        if self.loss:
            return False, ""
        right = []
        for (place, names), (after, _) in zip(_STAGES, _STAGES[1:]):
            right += names
            later = others - set(right)
            if not wrong & set(right) and later and later <= wrong:
                *most, last = [f"d{name}" for name in right]
                return False, f"{', '.join(most)} and {last} are right, so look between {place} and {after}."
        return False, ""

    def _same_loss(self, loss):
        mine, true = _number(loss), _number(self._true_loss)
        return abs(mine - true) <= 10 * TOLERANCE.get(self._true_loss.dtype, 1e-6) * max(1.0, abs(true))

    def _movement(self, name, gradient, lr):
        """Whether the parameter moved by -lr times the gradient; a sentence if not."""
        p, old = self.parameters[name].detach(), self._copies[name].detach()
        if not isinstance(gradient, torch.Tensor) or gradient.shape != p.shape:
            return None
        moved, g = p - old, gradient.detach()
        p_grad, before = self.parameters[name].grad, self._old_grads[name]
        if p_grad is not None and not _is_step(p, old, g, lr, exactly=True):
            fresh = p_grad is not before[0] or p_grad._version != before[1]
            if fresh and _is_step(p, old, p_grad, lr, exactly=True) and not torch.equal(g, p_grad):
                return (
                    f"the gradient is right, but {name} moved by {name}.grad: the update does not use yours."
                )
        if _is_step(p, old, g, lr):
            return None
        if not moved.any():
            return f"{name} did not move." if g.any() else None
        if _is_step(p, old, g, -lr):
            return f"{name} moved uphill, by +lr times its gradient."
        for other, copy in self._copies.items():
            if other != name and copy.shape == p.shape and _is_step(p, old, copy.grad, lr):
                return f"{name} moved by d{other}: the order of the update does not match."
        way, along = wide(moved), wide(g)
        rate = ((way * along).sum() / (along**2).sum()).item()
        if _is_step(p, old, g, -float(f"{rate:.3g}")):
            return f"{name} moved by {rate:.3g} times its gradient, and lr is {lr:.3g}."
        return f"{name} did not move by -lr times its gradient."


_COURSE = "unbiased variance, eps, mean over the batch"
# on the way back: a value, and the parameters whose gradients follow from its own
_STAGES = (
    ("logits", ["W2", "b2"]),
    ("hpreact", ["bngain", "bnbias"]),
    ("hprebn", ["W1"]),
    ("C", ["C"]),
)


def _is_step(p, old, gradient, lr, exactly=False):
    """Whether p = old - lr * gradient, up to its rounding (exactly: to the last bit, however it is written)."""
    forms = (old - lr * gradient, old + -lr * gradient, torch.sub(old, gradient, alpha=lr))
    if exactly:
        return any(torch.equal(p, form) for form in forms)
    rounding = 4 * torch.finfo(p.dtype).eps * torch.maximum(old.abs(), (lr * gradient).abs())
    return bool(((p - forms[0]).abs() <= rounding).all())


def _number(loss):
    return float(loss.detach() if isinstance(loss, torch.Tensor) else loss)


def _copy(gradient):
    return gradient.detach().clone() if isinstance(gradient, torch.Tensor) else gradient


def _same(a, b):
    return isinstance(b, torch.Tensor) and a.shape == b.shape and torch.equal(a, b)
