"""Run the course: every numbered notebook from top to bottom, in order, each in a fresh kernel.

    python tools/course.py [--write | --same] [NOTEBOOK ...]

Prints one line per notebook: the cells run, the rows of `cmp` that agree, the seconds taken. A row that does
not agree, an error, or anything on stderr is a failure, and so is the exit status then; the other notebooks
are run all the same. In a cell tagged `mistake` a row is wrong on purpose, and counted apart.

With --write the outputs are stored in the notebooks that did not fail. With --same it is a failure too if --write
would change a notebook by as much as a byte, cells tagged `timing` aside.
"""

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

INTERRUPTED = "Interrupted; every notebook file is whole."

try:
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError
    from tqdm import tqdm
except ImportError as error:
    sys.exit(f"{error.name} is not installed here; `make course` makes an environment that has it.")
except KeyboardInterrupt:  # these imports take a while
    print(INTERRUPTED, file=sys.stderr)
    sys.exit(130)

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"

# All that is stored about the machine. Which Python it was would differ from one to the next.
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


@dataclass
class Result:
    cells: int = 0  # code cells run
    agree: int = 0  # rows of cmp that agree
    shown: int = 0  # rows that are wrong on purpose
    seconds: float = 0.0
    failures: list = field(default_factory=list)  # sentences, each with the cell's id


def main(arguments=None):
    options = parse(arguments)
    paths = options.notebooks or sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    if not paths:
        return complain(f"there are no notebooks in {NOTEBOOKS}.")
    for path in paths:
        if not path.is_file():
            return complain(f"{path}: there is no such notebook.")
    if options.write or options.same:
        os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")  # a second thread changes last bits
    failed = 0
    try:
        for path in paths:
            book, result = run(path)
            if options.same and not result.failures:
                result.failures += [f"cell {name}: not what is stored" for name in unlike(path, book)]
            if options.write and not result.failures:
                write(path, book)
            print(line(path, result), flush=True)
            failed += bool(result.failures)
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        return 130
    except OSError as error:
        return complain(f"{error.filename or path}: {error.strerror or error}.")
    if failed:
        print(
            f"{failed} of {len(paths)} notebooks failed."
            + (" They were not written." if options.write else "")
        )
    return 1 if failed else 0


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="course.py", description="Run the notebooks, each in a fresh kernel."
    )
    parser.add_argument("notebooks", metavar="NOTEBOOK", nargs="*", type=Path, help="default: all, in order")
    then = parser.add_mutually_exclusive_group()
    then.add_argument("--write", action="store_true", help="store the outputs in the notebooks")
    then.add_argument("--same", action="store_true", help="compare with what is stored, byte for byte")
    return parser.parse_args(arguments)


def complain(sentence):
    print(f"course.py: {sentence}", file=sys.stderr)
    return 2


def run(path):
    """Execute one notebook; return it with its outputs, and the Result."""
    result, start = Result(), time.perf_counter()
    try:
        book = nbformat.read(path, as_version=4)
        nbformat.validate(book)
    except (nbformat.reader.NotJSONError, nbformat.ValidationError, ValueError) as error:
        result.failures.append(f"not a notebook: {first_line(error)}")
        return None, result
    except (AttributeError, TypeError, KeyError, AssertionError, RecursionError):
        # what nbformat stumbles over where the JSON is no object, or one of other things
        result.failures.append("not a notebook: its JSON holds something else.")
        return None, result
    client = NotebookClient(
        book,
        kernel_name="python3",
        timeout=None,
        record_timing=False,
        coalesce_streams=True,  # how a kernel cuts its output into pieces is chance
        resources={"metadata": {"path": str(path.resolve().parent)}},
    )
    code = [(index, cell) for index, cell in enumerate(book.cells) if cell.cell_type == "code"]
    # Cell by cell, not client.execute(): that one swallows Ctrl-C. What a cell writes to stderr arrives as an
    # output; what goes to the null device is the kernel process's own talk, about its sockets for one.
    with client.setup_kernel(stderr=subprocess.DEVNULL):
        # disable=None: no bar where there is no terminal, as in the log of a CI run
        for index, cell in tqdm(code, desc=path.name, unit=" cells", leave=False, disable=None):
            where = f"cell {cell.get('id', index)}"
            try:
                client.execute_cell(cell, index, execution_count=result.cells + 1)
            except CellExecutionError as error:
                result.failures.append(f"{where}: {error.ename}: {first_line(error.evalue)}")
                break  # what follows stands on this cell
            except DeadKernelError:
                result.failures.append(f"{where}: the kernel died in it.")
                break
            result.cells += 1
            judge(cell, where, result)
    result.seconds = time.perf_counter() - start
    return book, result


def judge(cell, where, result):
    """Count the rows of cmp that a cell printed, and note what must not be there."""
    on_purpose = "mistake" in cell.metadata.get("tags", [])
    for output in cell.outputs:
        if output.output_type == "error":  # only in a cell that says it raises one
            result.failures.append(f"{where}: {output.ename}: {first_line(output.evalue)}")
        elif output.output_type == "stream" and output.name == "stderr":
            result.failures.append(f"{where}: wrote to stderr: {first_line(output.text)}")
        elif output.output_type == "stream":
            for row in output.text.splitlines():
                if "| exact: " not in row or "| approximate: " not in row:
                    continue
                if "| approximate: True" in row:
                    result.agree += 1
                elif on_purpose:
                    result.shown += 1
                else:
                    result.failures.append(f"{where}: does not agree: {row}")


def first_line(text):
    return (str(text).strip().splitlines() or [""])[0]


def line(path, result):
    text = (
        f"{path.name:43s} {result.cells:3d} cells  {result.agree:3d} cmp rows agree  {result.seconds:6.1f} s"
    )
    if result.shown:
        text += f"  ({result.shown} wrong on purpose)"
    if result.failures:
        text += "  FAILED"
    return "\n".join([text, *(f"    {failure}" for failure in result.failures)])


def write(path, book):
    """Store the notebook with its outputs, so that a second run writes the same bytes."""
    tidy(book)
    text = nbformat.writes(book) + "\n"
    new = path.with_name(f".{path.name}.new")  # written whole, then put in place: never half a notebook
    try:
        new.write_text(text, encoding="utf-8", newline="\n")
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def tidy(book):
    """Take out of an executed notebook what would differ from one run to the next."""
    kept = {key: value for key, value in book.metadata.items() if key == "makemore_bp"}
    book.metadata = nbformat.from_dict({**METADATA, **kept})
    for cell in book.cells:
        for key in ("execution", "ExecuteTime", "trusted"):  # times, and what an editor leaves behind
            cell.metadata.pop(key, None)
        for output in cell.get("outputs", []):
            if "execution_count" in output:
                output.execution_count = cell.execution_count


def unlike(path, book):
    """The ids of the cells that `write` would change in the file, those tagged `timing` aside."""
    tidy(book)
    pairs = zip(nbformat.read(path, as_version=4).cells, book.cells, strict=True)
    return [new.id for old, new in pairs if old != new and "timing" not in new.metadata.get("tags", [])]


if __name__ == "__main__":
    sys.exit(main())
