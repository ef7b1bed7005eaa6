"""Names to examples: the vocabulary, the list of names, the 80/10/10 split."""

import os
import random
import re
from pathlib import Path
from typing import NamedTuple

import torch

from . import checks

VOCAB = ".abcdefghijklmnopqrstuvwxyz"  # index 0 marks a name's start and end
CONTEXT = 3  # letters seen before the next one is predicted
NAMES_FILE = Path(__file__).resolve().parent.parent / "data" / "names.txt"
NAMES_VARIABLE = "MAKEMORE_BP_NAMES"
LIMIT = 10_000_000  # bytes of a list: ten million examples, half a gigabyte of memory


class BadNames(ValueError):
    """A list of names that cannot be used; the message names the file and the line."""


def names_path(path: str | os.PathLike | None = None) -> Path:
    """The file to read: the argument, else $MAKEMORE_BP_NAMES, else the list shipped with the course."""
    if path is not None:
        path = checks.path(path)
    return Path(path or os.environ.get(NAMES_VARIABLE) or NAMES_FILE)


def read_names(path: str | os.PathLike | None = None) -> list[str]:
    """Read one name a line, lower-cased, in the file's order.

    CRLF, blank lines at the end, capitals and a missing last newline are read right.
    Raises BadNames for a file that is missing, empty, too large, not UTF-8 or holds anything but letters a-z.
    """
    path = names_path(path)
    try:
        with open(path, "rb") as file:
            content = file.read(LIMIT + 1)  # no more: /dev/zero, say, has no end
        if len(content) > LIMIT:
            raise BadNames(f"{path}: larger than {LIMIT:,} bytes; take a part of this list.")
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise BadNames(
            f"{path}: cannot be read ({error.strerror}). Give another list of names as an "
            f"argument or in the environment variable {NAMES_VARIABLE}."
        ) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadNames(
            f"{path}, line {line}: not UTF-8 text (byte 0x{error.object[error.start]:02x})."
        ) from None
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if lines == [""]:
        raise BadNames(f"{path}, line 1: the list is empty; one name a line is expected.")
    for number, line in enumerate(lines, 1):
        if not re.fullmatch("[A-Za-z]+", line):
            raise BadNames(f"{path}, line {number}: {_complaint(line)}")
    return [line.lower() for line in lines]


def _complaint(line):
    if not line:
        return "a blank line between names."
    wrong = re.search("[^A-Za-z]", line)[0]
    why = (
        "'.' marks a name's start and end, so no name may hold it"
        if wrong == "."
        else "only the letters a-z are known"
    )
    return f"{line[:40]!r} holds {wrong!r}; {why}."


def build_dataset(names: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Every letter of every name, with the CONTEXT letters before it: X (N, CONTEXT) and Y (N,), int64.

    names: a list of names in lower case. Raises TypeError or ValueError for anything else.
    """
    checks.names(names)
    X, Y = bytearray(), bytearray()  # a list of lists takes ten times the memory
    for name in names:
        context = [0] * CONTEXT
        for letter in name + ".":
            X.extend(context)
            Y.append(VOCAB.index(letter))
            context = context[1:] + [Y[-1]]
    X, Y = (torch.frombuffer(numbers, dtype=torch.uint8).long() for numbers in (X, Y))
    return X.view(-1, CONTEXT), Y


class Data(NamedTuple):
    """The three parts: inputs X (N, 3) and targets Y (N,), and the names they were made from."""

    Xtr: torch.Tensor
    Ytr: torch.Tensor
    Xval: torch.Tensor
    Yval: torch.Tensor
    Xte: torch.Tensor
    Yte: torch.Tensor
    names: tuple[list[str], list[str], list[str]]  # three lists: train, val, test


def load(path: str | os.PathLike | None = None) -> Data:
    """Read a list of names, shuffle it with seed 42 and cut it 80/10/10 into train, val and test.

    Source: the split of the makemore lectures, so that the same list gives the same examples.
    """
    names = read_names(path)
    random.Random(42).shuffle(names)
    n1, n2 = int(0.8 * len(names)), int(0.9 * len(names))
    parts = names[:n1], names[n1:n2], names[n2:]
    if not all(parts):
        raise BadNames(
            f"{names_path(path)}: {len(names)} names are too few to cut into train, val and test; take 10 or more."
        )
    tensors = [t for part in parts for t in build_dataset(part)]
    return Data(*tensors, names=parts)
