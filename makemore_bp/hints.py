"""hint("counts") gives one hint more at each call, answer("counts") the line. Both print, and know of every exercise."""

import difflib
import re
import tomllib
from importlib import resources
from typing import NamedTuple

from .rules import STEPS, uses


class Exercise(NamedTuple):
    """What can be asked about one exercise. hints: from the question to the local derivative."""

    name: str
    hints: tuple
    answer: str


def _exercise(name, entry):
    if name in STEPS:
        lines = [f"{user} = {STEPS[user].line}" for user in uses(name)]
        count = f"{len(lines)} use{'s' * (len(lines) > 1)}, so {len(lines)} term{'s' * (len(lines) > 1)}"
        where = f"d{name} has the shape {STEPS[name].shape}. {name} stands on the right of: {'; '.join(lines)}. {count}."
    else:
        where = f"{entry['title']}: the upstream gradient is there, in the first line; the rest are forward values."
    return Exercise(name, (where, entry["rule"], entry["local"]), entry["answer"].strip("\n"))


EXERCISES = {
    name: _exercise(name, entry)
    for name, entry in tomllib.loads(
        resources.files(__package__).joinpath("exercises.toml").read_text(encoding="utf-8")
    ).items()
}
_spelt = {name.lower(): name for name in EXERCISES}
_given = {}  # how many hints of each exercise were given


def _known(name):
    if not isinstance(name, str):
        return print(
            f'Name the exercise as a string, hint("counts") say; this is of type {type(name).__name__}.'
        )
    # as cmp's rows have it, "hprebn (fused)", and in any case
    plain = re.sub(r"\W+", "_", name.lower()).strip("_")
    for candidate in (plain, plain.removeprefix("d")):
        if candidate in _spelt:
            return EXERCISES[_spelt[candidate]]
    near = _spelt[difflib.get_close_matches(plain, _spelt, 1, cutoff=0)[0]]
    return print(f'There is no exercise "{name.strip()}". Did you mean "{near}"?')


def hint(name: str) -> None:
    """Print the next hint for an exercise; after the last one, say so and begin again."""
    exercise = _known(name)
    if exercise is None:
        return
    number = _given.get(exercise.name, 0) % len(exercise.hints)
    _given[exercise.name] = number + 1
    print(f"Hint {number + 1} of {len(exercise.hints)}: {exercise.hints[number]}")
    if number + 1 == len(exercise.hints):
        print(f'That was the last one. answer("{exercise.name}") shows the line.')


def answer(name: str) -> None:
    """Print the line, or lines, that an exercise asks for."""
    exercise = _known(name)
    if exercise:
        print(exercise.answer)
