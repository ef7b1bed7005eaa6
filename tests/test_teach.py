"""The set for teachers, through nbgrader itself: it makes the student version, and grades what comes back."""

import logging
import os
import runpy
import sys
import warnings
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("nbgrader", reason="nbgrader is not installed (`make test-teach` installs it)")

ROOT = Path(__file__).resolve().parent.parent
tool = runpy.run_path(str(ROOT / "tools" / "exercises.py"))
pytestmark = pytest.mark.filterwarnings("ignore")
WRONG = {
    "logprobs": "dlogprobs = -dlogprobs",
    "counts": "dcounts = dcounts / 2",
    "logits": "dlogits = dlogits.T",
}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nbgrader's own dependencies
        from nbgrader.apps import NbGraderAPI
        from traitlets.config import Config
    folder = tmp_path_factory.mktemp("teach")
    # nbgrader calls alembic by name, as if the environment were activated
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    assert tool["main"](["--nbgrader", str(folder)]) in (0, None)
    config = Config()
    config.CourseDirectory.root = str(folder)
    config.CourseDirectory.course_id = "makemore_bp"
    config.ExecutePreprocessor.timeout = 300
    api = NbGraderAPI(config=config)
    api.log.setLevel(logging.ERROR)
    yield folder, api
    monkeypatch.undo()


def test_all_of_them_are_written(course):
    folder, _ = course
    assert sorted(path.name for path in folder.glob("source/*/*.ipynb")) == sorted(
        path.name for path in (ROOT / "notebooks" / "exercises").glob("*.ipynb")
    )


def submit(course, assignment, student, change):
    """Hand in the student version with each solution cell's source changed; return the score."""
    folder, api = course
    notebook = nbformat.read(folder / "release" / assignment / f"{assignment}.ipynb", as_version=4)
    for cell in notebook.cells:
        name = tool["name_of"](cell)
        if name:
            cell.source = change(name, cell.source)
    target = folder / "submitted" / student / assignment / f"{assignment}.ipynb"
    target.parent.mkdir(parents=True)
    nbformat.write(notebook, target)
    result = api.autograde(assignment, student)
    assert result["success"], result["log"]
    with api.gradebook as gradebook:
        return gradebook.find_submission(assignment, student).score


@pytest.mark.parametrize("number", ["03", "06"])
def test_full_marks_none_and_the_rest(course, number):
    folder, api = course
    assignment = next(path.name for path in folder.glob(f"source/{number}_*"))
    result = api.generate_assignment(assignment)
    assert result["success"], result["log"]
    worked = {
        tool["name_of"](cell): cell.source
        for cell in tool["read"](ROOT / "notebooks" / f"{assignment}.ipynb").cells
        if tool["name_of"](cell)
    }
    released = (folder / "release" / assignment / f"{assignment}.ipynb").read_text(encoding="utf-8")
    assert "BEGIN SOLUTION" not in released

    assert submit(course, assignment, "complete", lambda name, source: worked[name]) == len(worked)
    assert submit(course, assignment, "empty", lambda name, source: source) == 0
    if number == "03":

        def three_wrong(name, source):
            return worked[name].replace("\ncmp(", f"\n{WRONG[name]}\ncmp(") if name in WRONG else worked[name]

        assert submit(course, assignment, "three_wrong", three_wrong) == len(worked) - len(WRONG)


def test_the_gradebook_holds_one_point_a_gradient(course):
    folder, _ = course
    source = nbformat.read(next(folder.glob("source/05_*/*.ipynb")), as_version=4)
    points = [
        cell.metadata.nbgrader.points
        for cell in source.cells
        if cell.metadata.get("nbgrader", {}).get("grade")
    ]
    assert points == [1] * 9
