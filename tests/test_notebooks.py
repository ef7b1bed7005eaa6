"""What nbval cannot see: that the stored notebooks were run as they are, and that what hides digits hides no more."""

import json
import re
import runpy
from collections import Counter
from pathlib import Path

import nbformat
import pytest

from makemore_bp.figures.graph import where
from makemore_bp.rules import GRADIENTS

ROOT = Path(__file__).resolve().parent.parent
PATHS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
NUMBERED = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)

# an absolute path of two parts or more, on any system
MACHINE_PATH = re.compile(r"(?<![\w:/.<~-])/[A-Za-z][\w.-]*/[\w.-]|\b[A-Z]:\\(Users\b|[A-Za-z]+\\)|file://")


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(path):
    return [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]


def tags(cell):
    return cell["metadata"].get("tags", [])


def source(cell):
    return "".join(cell["source"])


def texts(output):
    """All the text of an output; pictures are none."""
    yield "".join(output.get("text", ""))
    for kind, content in output.get("data", {}).items():
        if not kind.startswith("image/"):
            yield content if isinstance(content, str) else "".join(content)


def test_there_are_notebooks_and_their_numbers_have_no_gap():
    assert [int(path.name[:2]) for path in PATHS] == list(range(1, len(PATHS) + 1)) and PATHS


@NUMBERED
def test_the_map_is_described_as_the_package_draws_it(path):
    """nbval does not compare alternative texts."""
    maps = [cell for cell in code_cells(path) if source(cell).startswith("where(")]
    for cell in maps:
        (output,) = cell["outputs"]
        assert output["metadata"]["image/png"]["alt"] == eval(source(cell), {"where": where}).alt
    assert maps


@NUMBERED
def test_every_cell_was_run_once_in_order(path):
    # nbval compares nothing in a cell that was never run, so a stripped notebook would pass
    counts = [cell["execution_count"] for cell in code_cells(path)]
    assert counts == list(range(1, len(counts) + 1)) and counts
    for cell in code_cells(path):
        for output in cell["outputs"]:
            assert output.get("execution_count", cell["execution_count"]) == cell["execution_count"]


@NUMBERED
def test_no_error_and_nothing_on_stderr(path):
    for cell in code_cells(path):
        for output in cell["outputs"]:
            assert output["output_type"] in ("stream", "display_data", "execute_result"), cell["id"]
            assert output.get("name", "stdout") == "stdout", cell["id"]


@NUMBERED
def test_no_path_of_a_machine(path):
    for cell in code_cells(path):
        for text in [source(cell), *(text for output in cell["outputs"] for text in texts(output))]:
            assert not MACHINE_PATH.search(text), f"{cell['id']}: {MACHINE_PATH.search(text)[0]}"


@pytest.mark.parametrize(
    "path", ["/tmp/x/1.py:3: oh", "in '/home/me/a'", r"C:\Users\me", r"D:\a\b", "file:///etc"]
)
def test_a_path_of_a_machine_is_found(path):
    assert MACHINE_PATH.search(f"see {path}")


@pytest.mark.parametrize(
    "text", ["a/b/c", "dy/dx", "https://arxiv.org/abs/1", "../data/names.txt", "n / (n - 1) / 2"]
)
def test_what_is_no_path_of_a_machine_is_not(text):
    assert not MACHINE_PATH.search(f"see {text}")


@NUMBERED
def test_nothing_else_about_the_machine_is_stored(path):
    metadata = read(path)["metadata"]
    assert metadata["kernelspec"]["name"] == "python3"
    assert metadata["language_info"] == {"name": "python"}
    assert set(metadata) <= {"kernelspec", "language_info", "makemore_bp"}
    for cell in read(path)["cells"]:
        assert "execution" not in cell["metadata"], cell["id"]


@NUMBERED
def test_cells_have_ids_that_say_what_they_are_for(path):
    ids = [cell["id"] for cell in read(path)["cells"]]
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    # an editor makes up eight hexadecimal digits, or a UUID
    assert [
        name for name in ids if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f-]{27})?", name) and re.search(r"\d", name)
    ] == []


@NUMBERED
def test_only_timings_may_be_ignored(path):
    for cell in code_cells(path):
        marks = {
            tag
            for tag in tags(cell)
            if tag.lower().startswith("nbval") or tag in ("raises-exception", "skip-execution")
        }
        marks |= set(re.findall(r"(?:NBVAL|PYTEST_VALIDATE)_\w+", source(cell)))
        if "timing" not in tags(cell):
            assert not marks, f"{cell['id']}: {marks}"


@NUMBERED
def test_code_cells_are_short(path):
    imports, *others = code_cells(path)
    assert re.match("(import|from) ", source(imports)), (
        "the first code cell is the imports, however many they are"
    )
    for cell in others:
        lines = [line for line in source(cell).splitlines() if line.strip()]
        assert lines, f"{cell['id']}: an empty code cell"
        assert len(lines) <= 8 or "long" in tags(cell), f"{cell['id']}: {len(lines)} lines"


@NUMBERED
def test_pictures_are_png_and_have_an_alternative_text(path):
    # nbval compares SVG, and PNG not; and a figure that cannot be seen has to be read
    for cell in code_cells(path):
        for output in cell["outputs"]:
            for kind in output.get("data", {}):
                if kind.startswith("image/"):
                    assert kind == "image/png", cell["id"]
                    alt = output["metadata"].get("image/png", {}).get("alt", "")
                    assert len(alt) > 20, f"{cell['id']}: alternative text {alt!r}"


@NUMBERED
def test_the_title_has_the_number_of_the_file(path):
    first = read(path)["cells"][0]
    assert first["cell_type"] == "markdown"
    assert re.match(rf"# {path.name[:2]} · \S", source(first))


def test_each_of_the_26_gradients_is_derived_exactly_once():
    answers = [
        tag.removeprefix("answer:")
        for path in PATHS
        for cell in code_cells(path)
        for tag in tags(cell)
        if tag.startswith("answer:")
    ]
    counts = Counter(answers)
    assert {name: counts[name] for name in GRADIENTS} == dict.fromkeys(GRADIENTS, 1)


@NUMBERED
def test_an_answer_is_compared_in_its_own_cell(path):
    for cell in code_cells(path):
        for tag in tags(cell):
            if tag.startswith("answer:"):
                name = re.escape(tag.removeprefix("answer:"))
                call = rf"""^cmp\(["']{name}["'], d{name}, """ if name in GRADIENTS else r"\bcmp\("
                assert re.search(call, source(cell), re.MULTILINE), cell["id"]


@NUMBERED
def test_links_lead_somewhere(path):
    for cell in read(path)["cells"]:
        if cell["cell_type"] == "markdown":
            for link in re.findall(r"\]\(([^)#\s]+)", source(cell)):
                if "://" not in link:
                    assert (path.parent / link).exists(), f"{cell['id']}: {link}"


@NUMBERED
def test_a_mistake_is_seen_in_a_row_of_cmp(path):
    for cell in code_cells(path):
        if "mistake" in tags(cell):
            rows = [row for output in cell["outputs"] for text in texts(output) for row in text.splitlines()]
            assert any("| approximate: " in row and "| approximate: True" not in row for row in rows), cell[
                "id"
            ]


# --- the tool that runs them


@pytest.fixture(scope="module")
def course():
    return runpy.run_path(str(ROOT / "tools" / "course.py"))


V4 = '{"nbformat": 4, "nbformat_minor": %s, "metadata": {}, "cells": %s}'


@pytest.mark.parametrize(
    "content",
    ["", "null", "[]", "3", "{}", "[" * 100_000, '{"nbformat": 4, "nbformat_minor": 5}']
    + ['{"nbformat": "4", "cells": 1}', V4 % (5, "[null]"), V4 % ('"x"', "{}"), V4 % (5, '[{"id": "a"}]')],
    ids=lambda content: content[:40],
)
def test_what_is_no_notebook_gets_one_sentence(course, content, tmp_path, capsys):
    path = tmp_path / "01_bad.ipynb"
    path.write_text(content)
    assert course["main"]([str(path)]) == 1
    said = capsys.readouterr()
    row, sentence, count = said.out.splitlines()
    assert row.startswith("01_bad.ipynb ") and row.endswith("FAILED") and not said.err
    assert sentence.startswith("    not a notebook: ") and count == "1 of 1 notebooks failed."


def test_a_disk_that_names_no_file(course, tmp_path, capsys, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device")

    path = tmp_path / "01_full.ipynb"
    path.touch()
    monkeypatch.setitem(course["main"].__globals__, "run", full)
    assert course["main"]([str(path)]) == 2
    assert capsys.readouterr().err == f"course.py: {path}: No space left on device.\n"


def test_a_second_run_stores_the_same_bytes(course, tmp_path, capsys):
    """--same says so, and names the cell where it is not so; a time may differ, and nothing is written."""
    cells = [
        nbformat.v4.new_code_cell("import time", id="imports"),
        nbformat.v4.new_code_cell("print(6 * 7)", id="product"),
        nbformat.v4.new_code_cell("print(time.time())", id="clock", metadata={"tags": ["timing"]}),
    ]
    path = tmp_path / "01_small.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    assert course["main"](["--write", str(path)]) == 0
    assert course["main"](["--same", str(path)]) == 0
    stored = path.read_text(encoding="utf-8").replace('"42', '"43')
    path.write_text(stored, encoding="utf-8")
    capsys.readouterr()
    assert course["main"](["--same", str(path)]) == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        "    cell product: not what is stored",
        "1 of 1 notebooks failed.",
    ]
    assert path.read_text(encoding="utf-8") == stored


# --- the file that hides what differs between machines


def sanitize(text):
    """As nbval does it."""
    config = (ROOT / "tests" / "sanitize.cfg").read_text(encoding="utf-8")
    patterns = re.findall("^regex: (.*)$\n^replace: (.*)$", config, flags=re.MULTILINE)
    assert len(patterns) == config.count("regex:") == config.count("replace:") > 0
    for regex, replace in patterns:
        text = re.sub(regex, replace, text)
    return text


ROW = "{:18s} | exact: {:5s} | approximate: {:5s} | maxdiff: {:7s} | relative: {:7s}"


@pytest.mark.parametrize("number", ["4.7e-10", "9.9e-07", "1.0e-08", "0.0e+00", "2e-09", "1.5e-17"])
def test_rounding_noise_is_hidden(number):
    assert number not in sanitize(ROW.format("b1", "False", "True", number, number))
    assert number not in sanitize(f"rest: {number}") and number not in sanitize(f"-{number},")


@pytest.mark.parametrize(
    "number",
    [
        "1.0e-03",
        "2.1e-06",
        "1.0e-06",
        "3.0e+00",
        "1.23e-08",
        "4.70e-10",
        "0.00e+00",
        "1e-5",
        "0.0",
        "11.0e-09",
        "1.0e-070",
    ],
)
def test_what_is_larger_or_meant_is_compared(number):
    row = ROW.format("b1", "False", "True", number, number)
    assert sanitize(row).count(number) == 2
    assert number in sanitize(f"rest: {number}")


def test_a_difference_that_grows_is_seen():
    assert sanitize("maxdiff: 1.0e-03") != sanitize("maxdiff: 4.7e-10")
    assert sanitize("maxdiff: 2.1e-06") != sanitize("maxdiff: 4.7e-10")
    assert sanitize("maxdiff: 4.7e-10") == sanitize("maxdiff: 9.3e-10")


def test_exact_is_hidden_in_naive_rows_only_and_the_verdict_never():
    naive = [sanitize(ROW.format("hpreact (naive)", exact, "True", "-", "-")) for exact in ("True", "False")]
    assert naive[0] == naive[1]
    true, false = [sanitize(ROW.format("hpreact", exact, "True", "-", "-")) for exact in ("True", "False")]
    assert true != false
    agrees, not_so = [
        sanitize(ROW.format("h (naive)", "False", verdict, "-", "-")) for verdict in ("True", "False")
    ]
    assert agrees != not_so
