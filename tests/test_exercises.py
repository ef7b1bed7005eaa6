"""The exercises: in step with the worked notebooks, possible alone, and their answers right."""

import runpy
from pathlib import Path

import pytest
import torch
from catalogue import WRONG
from conftest import make_batch, make_params
from nbclient import NotebookClient
from torch.nn import functional as F

from makemore_bp import forward
from makemore_bp.hints import EXERCISES, answer, hint
from makemore_bp.rules import GRADIENTS

ROOT = Path(__file__).resolve().parent.parent
tool = runpy.run_path(str(ROOT / "tools" / "exercises.py"))
PATHS = sorted((ROOT / "notebooks" / "exercises").glob("*.ipynb"))
EACH = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem[:2])


def worked(path):
    return tool["read"](ROOT / "notebooks" / path.name)


def test_they_are_what_the_command_makes(capsys):
    assert tool["main"](["--check"]) == 0, capsys.readouterr().err


def test_every_gradient_and_both_one_liners_are_asked_for():
    asked = [name for path in PATHS for name in tool["answers"](path)]
    assert sorted(asked) == sorted(EXERCISES) and set(GRADIENTS) < set(asked)


@EACH
def test_the_text_before_a_question_stays(path):
    """Cell by cell: the worked notebook's own, an answer blanked, or one of the four that the exercises add."""
    theirs = {cell.id: cell for cell in worked(path).cells}
    for cell in tool["read"](path).cells:
        if cell.id.startswith("exercise-"):
            continue
        original = theirs[cell.id]
        if tool["name_of"](cell):
            assert "..." in cell.source and EXERCISES[tool["name_of"](cell)].answer not in cell.source
        elif cell.cell_type == "code":
            assert cell.source == original.source
        else:
            assert cell.source.replace("../", "") == original.source.replace("../", "")


@EACH
def test_the_worked_answer_is_the_one_that_answer_shows(path):
    for cell in worked(path).cells:
        if tool["name_of"](cell):
            assert EXERCISES[tool["name_of"](cell)].answer in cell.source


@pytest.mark.parametrize("name", EXERCISES)
def test_every_answer_against_autograd(name):
    v = forward(make_params(hidden=12), *make_batch())
    v.loss.backward()
    known = {key: value.grad for key, value in vars(v).items() if isinstance(value, torch.Tensor)}
    scope = {k: t.detach() if isinstance(t, torch.Tensor) else t for k, t in vars(v).items()}
    scope |= {"torch": torch, "F": F, "V": 27, "u": v.hpreact.grad}
    found = {line.split(" = ")[0] for line in EXERCISES[name].answer.splitlines() if line.startswith("d")}
    scope |= {f"d{key}": grad for key, grad in known.items() if grad is not None and f"d{key}" not in found}
    exec(EXERCISES[name].answer, scope)
    gradients = {line for line in found if line.isidentifier() and line[1:] in known}
    assert gradients
    for gradient in gradients:
        truth = known[gradient[1:]]
        assert scope[gradient].shape == truth.shape
        # a zero is measured by what flows into it
        size = truth.norm() if gradient not in ("dlogit_maxes", "db1") else 1.0
        assert (scope[gradient] - truth).norm() <= 1e-12 * size, gradient


def run(notebook):
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": PATHS[0].parent}}).execute()
    return {
        cell.id: "".join(output.get("text", "") for output in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


@EACH
def test_an_untouched_one_runs_through_and_says_to_do(path):
    notebook = tool["read"](path)
    printed = run(notebook)
    for cell in notebook.cells:
        if tool["name_of"](cell):
            assert "to do" in printed[cell.id] and "approximate: True" not in printed[cell.id]
    assert "0 right" in printed["exercise-ledger"]


@EACH
def test_a_completed_one_agrees_everywhere(path):
    notebook, answers = tool["read"](path), {cell.id: cell.source for cell in worked(path).cells}
    for cell in notebook.cells:
        if tool["name_of"](cell):
            cell.source = answers[cell.id]
    printed = run(notebook)
    for cell in notebook.cells:
        if tool["name_of"](cell):
            assert "approximate: True" in printed[cell.id] and "approximate: False" not in printed[cell.id]
    assert "0 wrong, 0 to do" in printed["exercise-ledger"]


WRONG_ONES = """
import sys

sys.path.insert(0, {tests!r})
from catalogue import WRONG, truths


def wrong(label, v):
    return next(case for case in WRONG if case.label == label and case.cause).value(v, truths(v))
"""


@pytest.mark.parametrize("path", PATHS[:6], ids=lambda path: path.stem[:2])
def test_a_wrong_one_is_told_the_cause(path):
    """The catalogue's first wrong derivation of each, in place of the answer."""
    notebook, expected = tool["read"](path), {}
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    first.source = WRONG_ONES.format(tests=str(ROOT / "tests")) + first.source
    for cell in notebook.cells:
        name = tool["name_of"](cell)
        if name:
            label = name.replace("_fused", " (fused)")
            expected[cell.id] = next(case for case in WRONG if case.label == label and case.cause)
            gradient = f"d{label.split()[0]}"
            cell.source = cell.source.replace(f"{gradient} = ...", f'{gradient} = wrong("{label}", v)')
    printed = run(notebook)
    assert expected
    for cell_id, case in expected.items():
        assert "approximate: True" not in printed[cell_id], cell_id
        assert any(words in printed[cell_id] for words in case.cause.split("|")), printed[cell_id]


def test_hints_come_one_by_one(capsys):
    for _ in range(4):
        hint("counts")
    first, second, third, last, again = capsys.readouterr().out.splitlines()
    assert "two" in second.lower() and first == again and "answer(" in last
    assert not any(EXERCISES["counts"].answer in line for line in (first, second, third, last))


def test_no_hint_holds_the_line():
    for exercise in EXERCISES.values():
        for line in exercise.answer.splitlines():
            assert not any(line.split(" = ")[-1] in text for text in exercise.hints if len(line) > 12)


def test_answer_shows_the_line(capsys):
    answer("dcounts")
    assert capsys.readouterr().out == EXERCISES["counts"].answer + "\n"


@pytest.mark.parametrize(
    "name", ["hprebn (fused)", "logits (fused)", "hprebn (projection)", "dw1", " SIX batchnorm", "c"]
)
def test_a_name_as_cmps_rows_have_it_in_any_case(name, capsys):
    answer(name)
    assert "There is no" not in capsys.readouterr().out


@pytest.mark.parametrize("ask", [hint, answer])
def test_a_mistyped_name_gets_the_nearest(ask, capsys):
    ask("count_sum")
    assert 'Did you mean "counts_sum"?' in capsys.readouterr().out
    ask("")
    ask(None)
    assert "Name the exercise as a string" in capsys.readouterr().out


# --- the command


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one notebook, with its exercise; the notebook's path."""
    there = tool["main"].__globals__
    monkeypatch.setitem(there, "NOTEBOOKS", tmp_path)
    monkeypatch.setitem(there, "EXERCISES", tmp_path / "exercises")
    path = tmp_path / "03_cross_entropy_in_eight_steps.ipynb"
    path.write_bytes((ROOT / "notebooks" / path.name).read_bytes())
    assert not tool["main"]([])
    return path


def changed(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def refused(capsys, *arguments):
    capsys.readouterr()
    assert tool["main"](list(arguments)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_written_answers_are_not_overwritten(course, capsys):
    exercise = course.parent / "exercises" / course.name
    changed(exercise, "dlogprobs = ...", "dlogprobs = torch.zeros_like(logprobs)")
    before = exercise.read_bytes()
    assert refused(capsys).endswith("holds answers: move it away first. Nothing was written.")
    assert exercise.read_bytes() == before
    assert "is not what `make exercises` makes" in refused(capsys, "--check")


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("{", "", "not a notebook, or damaged."),
        ('"cells"', '"sells"', "not a notebook, or damaged."),
        ("dlogprobs = ", "dlogprobs = (", "was never closed."),
        ('cmp(\\"logprobs\\"', 'print(\\"logprobs\\"', "holds no derivation with its cmp."),
    ],
)
def test_a_notebook_of_which_nothing_can_be_made(old, new, said, course, capsys):
    text = course.read_text(encoding="utf-8")
    changed(course, old, new) if old != "{" else course.write_text(text.replace("{", "", 1), encoding="utf-8")
    exercise = course.parent / "exercises" / course.name
    before = exercise.read_bytes()
    assert refused(capsys).endswith(said) and exercise.read_bytes() == before


def test_one_thing_at_a_time(capsys, tmp_path):
    with pytest.raises(SystemExit):
        tool["main"](["--check", "--nbgrader", str(tmp_path)])
    assert "not allowed with" in capsys.readouterr().err and not list(tmp_path.iterdir())
