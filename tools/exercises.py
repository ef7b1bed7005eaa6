"""Make the exercises from the numbered notebooks: the same text, with the answers and their explanations left out.

    python tools/exercises.py              writes notebooks/exercises/
    python tools/exercises.py --check      writes nothing, and fails where they are not in step
    python tools/exercises.py --nbgrader FOLDER    writes nbgrader's source version into FOLDER/source/

In a cell tagged answer:NAME what is to be found becomes `...`; cells tagged explains:NAME are left out, and so is
everything from a cell tagged exercise-ends on, which builds on the answers.
"""

import argparse
import ast
import re
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
EXERCISES = NOTEBOOKS / "exercises"

INTRO = """\
> **Exercises.** This is notebook {number} without its answers. Where a cell ends in `...`, write the line and run the
> cell: `cmp` says whether it is right, and if not, what is wrong with it. Each exercise begins from the true gradients
> it needs, so each can be done alone. `hint("{first}")` gives a hint, and one more at each call; `answer("{first}")`
> the line. Questions without a cell are for paper. Where the text speaks of a picture or a section that is not here, it
> is in the worked notebook, [{path}](../{path}).\
"""
OUTRO = "## How many stand?"
LEDGER = "cmp.ledger({})"


class Odd(ValueError):
    """A notebook of which no exercise can be made; the message names it and says why."""


def main(arguments=None):
    options = parse(arguments)
    try:
        return write_nbgrader(options.nbgrader) if options.nbgrader else write(options.check)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}." if error.filename else error, file=sys.stderr)
    except Odd as error:
        print(error, file=sys.stderr)
    return 1


def write(check):
    """notebooks/exercises/ anew, or with check only the comparison; return the exit status."""
    made = {
        path.name: exercise(path) for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")) if answers(path)
    }
    texts = {name: nbformat.writes(notebook) + "\n" for name, notebook in made.items()}
    there = {path.name: path.read_text(encoding="utf-8") for path in EXERCISES.glob("*.ipynb")}
    if check:
        differ = sorted(name for name in texts.keys() | there.keys() if texts.get(name) != there.get(name))
        for name in differ:
            print(
                f"notebooks/exercises/{name} is not what `make exercises` makes of notebooks/{name}.",
                file=sys.stderr,
            )
        return len(differ) > 0
    EXERCISES.mkdir(exist_ok=True)
    for name in texts.keys() & there.keys():
        if done(parsed(there[name], EXERCISES / name)):
            print(
                f"notebooks/exercises/{name} holds answers: move it away first. Nothing was written.",
                file=sys.stderr,
            )
            return 1
    for name, text in texts.items():
        (EXERCISES / name).write_text(text, encoding="utf-8", newline="\n")
    print(f"notebooks/exercises: {len(texts)} notebooks.")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--check", action="store_true", help="write nothing; fail where they are not in step")
    one.add_argument("--nbgrader", metavar="FOLDER", type=Path, help="write nbgrader's source version there")
    return parser.parse_args(arguments)


def read(path):
    return parsed(path.read_text(encoding="utf-8"), path)


def parsed(text, path):
    try:
        return nbformat.reads(text, as_version=4)
    except (nbformat.reader.NotJSONError, nbformat.ValidationError, AttributeError, KeyError, TypeError):
        raise Odd(f"{path}: not a notebook, or damaged.") from None


def tags(cell):
    return cell.metadata.get("tags", [])


def name_of(cell):
    """What a cell tagged answer:NAME derives, else None."""
    return next((tag.removeprefix("answer:") for tag in tags(cell) if tag.startswith("answer:")), None)


def answers(path):
    return [name_of(cell) for cell in read(path).cells if name_of(cell)]


def asked(path):
    """The gradients, of the 26, that a notebook's answers compare; written as a list, for the ledger."""
    compared = [parts(cell.source)[2] for cell in read(path).cells if name_of(cell)]
    names = dict.fromkeys(name[1:] for nodes in compared for name in sought(nodes))
    return str(list(names)).replace("'", '"')


def exercise(path):
    """The notebook at path as an exercise: a notebook without outputs."""
    notebook = read(path)
    end = next((i for i, cell in enumerate(notebook.cells) if "exercise-ends" in tags(cell)), None)
    cells = [
        cell for cell in notebook.cells[:end] if not any(tag.startswith("explains:") for tag in tags(cell))
    ]
    for cell in cells:
        if name_of(cell):
            cell.source = blank(cell, path)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        else:
            cell.source = relinked(cell.source)
    intro = INTRO.format(number=path.name[:2], first=answers(path)[0], path=path.name)
    cells[1:1] = [
        new_markdown_cell(intro, id="exercise-intro"),
        new_code_cell("from makemore_bp.hints import answer, hint", id="exercise-hints"),
    ]
    cells += [
        new_markdown_cell(OUTRO, id="exercise-outro"),
        new_code_cell(LEDGER.format(asked(path)), id="exercise-ledger"),
    ]
    notebook.cells = cells
    notebook.metadata.pop("makemore_bp", None)
    return notebook


def parts(source):
    """The statements of an answer cell: those that fetch, those that are the answer, those that compare."""
    fetch, answer, compare = [], [], []
    for node in ast.parse(source).body:
        calls = [
            n.func.id for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        ]
        kind = fetch if calls and set(calls) == {"given"} else compare if "cmp" in calls else answer
        kind.append(node)
    return fetch, answer, compare


def text_of(source, nodes):
    return [ast.get_source_segment(source, node) for node in nodes]


def sought(compare):
    """The names of the gradients that are compared: the second arguments of cmp."""
    calls = [n for node in compare for n in ast.walk(node) if isinstance(n, ast.Call)]
    return [call.args[1].id for call in calls if getattr(call.func, "id", "") == "cmp"]


def blank(cell, path):
    source = cell.source
    try:
        fetch, answer, compare = parts(source)
    except SyntaxError as error:
        raise Odd(f"{path.name}: cell {cell.id}, line {error.lineno}: {error.msg}.") from None
    if not answer or not sought(compare):
        raise Odd(
            f"{path.name}: cell {cell.id} is tagged as an answer, and holds no derivation with its cmp."
        )
    todo = [f"{name} = ..." for name in sought(compare)]
    return "\n".join(text_of(source, fetch) + todo + text_of(source, compare))


def done(notebook):
    """Whether somebody has written an answer, in place of `...`."""
    return any(name_of(cell) and "= ..." not in cell.source for cell in notebook.cells)


def relinked(text):
    """Links between notebooks, from one folder further down: to the exercises where there are some."""

    def link(match):
        there = NOTEBOOKS / match[1]
        return match[0] if there.is_file() and answers(there) else f"](../{match[1]}"

    return re.sub(r"\]\(([0-9][0-9]_\w+\.ipynb)", link, text)


def write_nbgrader(folder):
    """FOLDER/source/NN_name/NN_name.ipynb, one assignment a notebook, one point a gradient."""
    count = 0
    for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")):
        if answers(path):
            target = folder / "source" / path.stem / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(for_nbgrader(path), target)
            count += 1
    print(f"{folder / 'source'}: {count} assignments.")


def for_nbgrader(path):
    worked = {cell.id: cell.source for cell in read(path).cells}
    notebook = exercise(path)
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        name = name_of(cell)
        if not name:
            continue
        source = worked[cell.id]
        fetch, answer, compare = parts(source)
        solution = ["### BEGIN SOLUTION", *_whole_lines(source, answer), "### END SOLUTION"]
        todo = [f"{found} = ..." for found in sought(compare)]
        cell.source = "\n".join(text_of(source, fetch) + todo + solution + text_of(source, compare))
        cell.metadata["nbgrader"] = _grading(f"answer-{name}", solution=True)
        checks = "\n".join(f"assert {_call(source, node)}" for node in compare)
        test = new_code_cell(checks, id=f"check-{name}"[:64])
        test.metadata["nbgrader"] = _grading(f"check-{name}", grade=True, locked=True, points=len(compare))
        cells.append(test)
    notebook.cells = cells
    return notebook


def _grading(grade_id, grade=False, solution=False, locked=False, points=None):
    facts = dict(
        grade=grade, grade_id=grade_id, locked=locked, schema_version=3, solution=solution, task=False
    )
    return facts | ({"points": points} if points else {})


def _whole_lines(source, nodes):
    """With the comments in and after the statements."""
    return source.splitlines()[nodes[0].lineno - 1 : nodes[-1].end_lineno]


def _call(source, node):
    call = next(n for n in ast.walk(node) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "cmp")
    return ast.get_source_segment(source, call)


if __name__ == "__main__":
    sys.exit(main())
