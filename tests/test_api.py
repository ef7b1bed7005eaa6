"""What readers call has types, and a docstring that says the rest: shapes, units, errors, source."""

from inspect import isfunction, signature

import pytest

from makemore_bp import data, hints, lecture, model, store, train_numpy
from makemore_bp.backward import backward_all, backward_six, bn_backward, cross_entropy_backward
from makemore_bp.compare import Compare
from makemore_bp.loop import StepCheck
from makemore_bp.rules import uses
from makemore_bp.train import rate, train
from makemore_bp.trial import run_trials


def public():
    """What readers and notebooks call, by name."""
    for module in (data, hints, lecture, model, store):
        for name, thing in vars(module).items():
            if isfunction(thing) and thing.__module__ == module.__name__ and not name.startswith("_"):
                yield name, thing
    for thing in (backward_all, backward_six, bn_backward, cross_entropy_backward, run_trials, uses):
        yield thing.__name__, thing
    yield from (("train", train), ("train_numpy.train", train_numpy.train), ("rate", rate))
    for kind in (Compare, StepCheck):
        for name in ("__init__", "__call__", *vars(kind)):
            if name in vars(kind) and (name in ("__init__", "__call__") or not name.startswith("_")):
                yield f"{kind.__name__}.{name}", vars(kind)[name]


@pytest.mark.parametrize(
    "name, thing", list(public()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_arguments_and_results_have_types_and_a_docstring(name, thing):
    about = signature(thing)
    untyped = [p.name for p in about.parameters.values() if p.annotation is p.empty and p.name != "self"]
    assert not untyped
    if not name.endswith("__init__"):
        assert about.return_annotation is not about.empty and thing.__doc__
