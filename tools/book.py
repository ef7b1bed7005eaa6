"""Make the book, static HTML of the README and all notebooks with their stored outputs: python tools/book.py

What Sphinx reads is laid out in build/book-source, the pages in build/book; docs/conf.py is its configuration.
"""

import ast
import importlib
import inspect
import os
import re
import shutil
import sys
from functools import cache
from html import escape
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
SOURCE, PAGES = ROOT / "build" / "book-source", ROOT / "build" / "book"
MATHJAX = ROOT / "node_modules" / "mathjax" / "es5"

WIDE = 700  # pictures of so many pixels scroll on a phone, where they would be too small to read otherwise

# The repository's public address, https://github.com/OWNER/NAME. Without one, links to its files are left out.
REPOSITORY = os.environ.get("REPOSITORY", "").rstrip("/")

LINK = r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)"
CONTENTS = """
```{toctree}
:hidden:
:caption: The course
:glob:

notebooks/[0-9]*
```

```{toctree}
:hidden:
:caption: Exercises
:glob:

notebooks/exercises/*
```

```{toctree}
:hidden:
:caption: Reference

code
```
"""
CODE = """\
# The code

What the notebooks import from `makemore_bp`, module by module, each name with a link to its source.
"""
MODULE = """
## {0}

```{{eval-rst}}
.. automodule:: makemore_bp.{0}
```
"""


def main():
    if not MATHJAX.is_dir():
        print(
            "book.py: MathJax is not there. `make book` fetches it with npm, which comes with Node.js.",
            file=sys.stderr,
        )
        return 2
    try:
        from sphinx.cmd.build import main as sphinx
    except ImportError:
        print(
            "book.py: Sphinx is not installed here; `make book` makes an environment that has it.",
            file=sys.stderr,
        )
        return 2
    lay_out()
    shutil.rmtree(PAGES, ignore_errors=True)
    # -E -W: read everything anew, and stop at nothing, but fail if there was a warning
    status = sphinx(
        ["-q", "-E", "-W", "--keep-going", "-b", "html", "-c", str(ROOT / "docs"), str(SOURCE), str(PAGES)]
    )
    if status == 0:
        print(f"{PAGES.relative_to(ROOT) / 'index.html'}: {len(list(PAGES.rglob('*.html')))} pages.")
    return status


# --- what Sphinx reads


def lay_out():
    shutil.rmtree(SOURCE, ignore_errors=True)
    (SOURCE / "docs").mkdir(parents=True)
    (SOURCE / "index.md").write_text(front_page(), encoding="utf-8")
    shutil.copy(ROOT / "docs" / "graph.png", SOURCE / "docs")
    (SOURCE / "code.md").write_text(
        CODE + "".join(MODULE.format(name.partition(".")[2]) for name in modules()), encoding="utf-8"
    )
    for path in notebooks():
        new = SOURCE / path.relative_to(ROOT)
        new.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(with_alt_texts(nbformat.read(path, as_version=4)), new)
    # all of MathJax that a page may ask for; the rest is the same in other combinations
    for part in ("tex-chtml.js", "input", "output/chtml", "a11y", "sre", "ui"):
        copy = shutil.copytree if (MATHJAX / part).is_dir() else shutil.copy
        target = SOURCE / "_static" / "mathjax" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        copy(MATHJAX / part, target)


def notebooks():
    """The numbered notebooks, in order, and then their exercises."""
    return [
        p
        for folder in (".", "exercises")
        for p in sorted((ROOT / "notebooks" / folder).glob("[0-9][0-9]_*.ipynb"))
    ]


def modules():
    paths = [path.relative_to(ROOT).with_suffix("") for path in sorted((ROOT / "makemore_bp").rglob("*.py"))]
    return [".".join(path.parts) for path in paths if not path.name.startswith("__")]


def front_page():
    """The README, its links to files made to lead somewhere, and the table of contents."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(LINK, lead, text) + CONTENTS


def lead(link):
    """A link of the README as it is in the book."""
    text, target = link.groups()
    if re.match("https?:|#", target) or target.endswith(".ipynb"):
        return link[0]
    if target.startswith("makemore_bp/") and target.endswith(".py"):
        module = target.removesuffix(".py").replace("/", ".")
        return f"{{py:mod}}`{text.strip('`')} <{module}>`"
    return f"[{text}]({REPOSITORY}/blob/HEAD/{target})" if REPOSITORY else text


def with_alt_texts(notebook):
    """MyST-NB takes what it is to know of a picture from the cell; ours is stored with the output."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            for kind, about in output.get("metadata", {}).items():
                if kind.startswith("image/") and "alt" in about:
                    picture = {"alt": about["alt"]}
                    if about.get("width", 0) >= WIDE:
                        picture["classes"] = "wide"
                    cell.metadata["mystnb"] = {"image": picture}
    return notebook


# --- links out of the code that a page shows


def anchor(name):
    """The anchor of the cell that derives the gradient of `name`."""
    return f"d{name}".replace("_", "-")


@cache
def derivations():
    """Gradient's name -> (notebook, anchor) of the cell that derives it."""
    found = {}
    for path in notebooks():
        for cell in nbformat.read(path, as_version=4).cells:
            for tag in cell.metadata.get("tags", []):
                if tag.startswith("answer:") and path.parent.name == "notebooks":
                    name = tag.removeprefix("answer:")
                    found.setdefault(name, (path, anchor(name)))
    return found


@cache
def imported(path):
    """Name -> what a notebook imports under it from makemore_bp."""
    found = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "code" or "makemore_bp" not in cell.source:
            continue
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "makemore_bp":
                module = importlib.import_module(node.module)
                for alias in node.names:
                    if not hasattr(module, alias.name):
                        importlib.import_module(f"{node.module}.{alias.name}")
                    found[alias.asname or alias.name] = getattr(module, alias.name)
    return found


def source_of(thing, member=None):
    """Where viewcode shows the source of an imported thing, or of a module's member; None where it does not."""
    if member is not None and inspect.ismodule(thing):
        thing = getattr(thing, member, None)
    if not (inspect.ismodule(thing) or inspect.isroutine(thing) or inspect.isclass(thing)):
        thing = type(thing)  # as cmp, the one object of its class
    module = thing.__name__ if inspect.ismodule(thing) else thing.__module__
    if module not in modules():
        return None
    page = f"_modules/{module.replace('.', '/')}.html"
    return page if inspect.ismodule(thing) else f"{page}#{thing.__qualname__}"


def link_code(body, path, up):
    """The HTML of a notebook's page with links: names to their source, gradients to the cell that derives them.

    `up` leads from the page to the book's top.
    """
    names, gradients = imported(path), derivations()

    def to_source(found):
        name, member = found.groups()
        url = source_of(names[name], member)
        return f'<a class="source" href="{up}{url}">{found[0]}</a>' if url else found[0]

    def to_derivation(found):
        name = found["name"]
        if (
            name not in gradients or path.parent.name == "exercises"
        ):  # an exercise does not lead to its answer
            return found[0]
        where, at = gradients[name]
        url = f"{up}{where.relative_to(ROOT).with_suffix('.html').as_posix()}#{at}"
        return f'{found["before"]}<a class="source" href="{escape(url)}">{found["text"]}</a>'

    if names:
        name = "|".join(map(re.escape, names))
        body = re.sub(
            rf'(?<!\.</span>)<span class="n">({name})</span>(?:<span class="o">\.</span><span class="n">(\w+)</span>)?',
            to_source,
            body,
        )
    given = r'(?P<before>given</span>(?:</a>)?<span class="p">\(</span>)(?P<text><span class="s2">(?:"|&quot;)(?P<name>\w+)(?:"|&quot;)</span>)'
    body = re.sub(given, to_derivation, body)
    return body


if __name__ == "__main__":
    sys.exit(main())
