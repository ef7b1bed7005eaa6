"""The notebooks can fail: copies of one, each damaged in one way, are refused by what `make test` runs."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import test_notebooks as checks

ROOT = Path(__file__).resolve().parent.parent
ORIGINAL = next((ROOT / "notebooks").glob("03_*.ipynb"))


def cell_of(notebook, tag):
    return next(cell for cell in notebook.cells if tag in cell.metadata.get("tags", []))


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def renumber(notebook):
    for number, cell in enumerate(code(notebook), 1):
        cell.execution_count = number
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number


def change_a_number(notebook):
    for cell in code(notebook):
        for output in cell.outputs:
            if output.output_type == "stream" and re.search(r"\d\.\d{3}", output.text):
                output.text = re.sub(
                    r"(\d\.\d\d)(\d)", lambda m: m[1] + str((int(m[2]) + 1) % 10), output.text, count=1
                )
                return


def change_a_verdict(notebook):
    output = cell_of(notebook, "answer:counts").outputs[0]
    output.text = output.text.replace("approximate: True ", "approximate: False")


def flip_a_sign(notebook):
    cell = cell_of(notebook, "answer:counts")
    cell.source = cell.source.replace("dprobs + dcounts_sum", "dprobs - dcounts_sum")


def leave_a_cell_out(notebook):
    notebook.cells.remove(cell_of(notebook, "answer:counts"))
    renumber(notebook)


def strip(notebook):
    for cell in code(notebook):
        cell.outputs, cell.execution_count = [], None


def strip_and_number(notebook):
    strip(notebook)
    renumber(notebook)


def swap_the_order(notebook):
    one, two = cell_of(notebook, "answer:probs"), cell_of(notebook, "answer:counts")
    one.execution_count, two.execution_count = two.execution_count, one.execution_count


def swap_the_cells(notebook):
    first, second = code(notebook)[2:4]
    i, j = notebook.cells.index(first), notebook.cells.index(second)
    notebook.cells[i], notebook.cells[j] = second, first
    renumber(notebook)


def ignore_a_claim(notebook):
    cell_of(notebook, "answer:counts").metadata.tags.append("nbval-ignore-output")


def ignore_a_claim_by_comment(notebook):
    cell = cell_of(notebook, "answer:counts")
    cell.source = "# NBVAL_IGNORE_OUTPUT\n" + cell.source


def skip_a_claim(notebook):
    cell_of(notebook, "answer:counts").metadata.tags.append("nbval-skip")


def allow_an_error(notebook):
    cell_of(notebook, "answer:counts").metadata.tags.append("raises-exception")


STRUCTURE = [strip, swap_the_order, leave_a_cell_out]
IGNORED = [ignore_a_claim, ignore_a_claim_by_comment, skip_a_claim, allow_an_error]
EXECUTION = [change_a_number, change_a_verdict, flip_a_sign, strip_and_number, swap_the_cells]


def damaged(damage, folder):
    notebook = nbformat.read(ORIGINAL, as_version=4)
    damage(notebook)
    path = folder / ORIGINAL.name
    nbformat.write(notebook, path)
    assert path.read_text(encoding="utf-8") != ORIGINAL.read_text(encoding="utf-8")
    return path


def by_nbval(folder):
    # from inside the folder: pytest names no files that lie outside of where it runs
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval"]
    command += ["--nbval-sanitize-with", ROOT / "tests" / "sanitize.cfg", "--rootdir", folder]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


@pytest.mark.parametrize("damage", STRUCTURE + IGNORED)
def test_what_is_seen_without_running_it(damage, tmp_path, monkeypatch):
    path = damaged(damage, tmp_path)
    monkeypatch.setattr(checks, "PATHS", [path if p == ORIGINAL else p for p in checks.PATHS])
    with pytest.raises(AssertionError):
        checks.test_every_cell_was_run_once_in_order(path)
        checks.test_only_timings_may_be_ignored(path)
        checks.test_each_of_the_26_gradients_is_derived_exactly_once()


def test_what_is_seen_by_running_it(tmp_path):
    """All in one run of nbval: it takes seconds to start. The undamaged copy passes."""
    paths = {}
    for damage in [*EXECUTION, lambda notebook: notebook.metadata.update(copy=True)]:
        folder = tmp_path / damage.__name__.strip("<>")
        folder.mkdir()
        paths[damage.__name__] = damaged(damage, folder)
    lines = [line for line in by_nbval(tmp_path).stdout.splitlines() if line.startswith("FAILED")]
    for name, path in paths.items():
        failed = any(f"{path.parent.name}/{path.name}" in line for line in lines)
        assert failed == (name != "<lambda>"), name
