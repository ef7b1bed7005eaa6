"""Make a list of names from a table of the US Social Security Administration.

    python data/make_names.py yob2018.txt data/names.txt

The table has a line `Name,Sex,Count` for each name. The names are lower-cased and stay in the table's order;
one that both sexes have is there twice, as it is in the table.
"""

import os
import re
import sys
from pathlib import Path

LINE = re.compile(r"([A-Za-z]+),[FM],[0-9]+")


class BadTable(ValueError):
    """A table that cannot be used; the message names the file and the line."""


def read_table(path):
    """The names of a table, lower-cased, in its order."""
    try:
        lines = path.read_bytes().decode("ascii").splitlines()
    except OSError as error:
        raise BadTable(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadTable(
            f"{path}, line {line}: not plain text (byte 0x{error.object[error.start]:02x})."
        ) from None
    if not lines:
        raise BadTable(f"{path}, line 1: the table is empty.")
    names = []
    for number, line in enumerate(lines, 1):
        match = LINE.fullmatch(line)
        if not match:
            raise BadTable(f"{path}, line {number}: {line[:40]!r} is not of the form Name,Sex,Count.")
        names.append(match[1].lower())
    return names


def main(arguments):
    if len(arguments) != 2:
        return "usage: python data/make_names.py TABLE LIST"
    table, target = map(Path, arguments)
    part = target.with_name(target.name + ".part")
    try:
        text = "".join(name + "\n" for name in read_table(table))
        part.write_text(text, encoding="ascii", newline="\n")  # whole, then put in place
        os.replace(part, target)
    except BadTable as error:
        return str(error)
    except OSError as error:
        return f"{target}: cannot be written ({error.strerror})."
    finally:
        part.unlink(missing_ok=True)
    print(f"{target}: {text.count(chr(10)):,} names.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
