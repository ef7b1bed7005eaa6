"""How Sphinx makes the book out of what tools/book.py lays out for it."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import book  # noqa: E402
from docutils import nodes  # noqa: E402

project = "Backpropagation by hand"
author = "makemore_bp contributors"
highlight_language = "none"  # of the README's blocks that name none; notebooks name their own
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["_static"]

# the notebooks are shown as they are stored; nothing is executed
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
mathjax_path = "mathjax/tex-chtml.js"  # in _static, where tools/book.py has laid npm's package

autodoc_default_options = {"members": True, "undoc-members": True, "member-order": "bysource"}
autodoc_typehints = "none"
autodoc_preserve_defaults = True  # as they stand in the source: a path would be this machine's
add_module_names = False

html_theme = "sphinx_book_theme"
html_title = project
html_static_path = [str(ROOT / "docs" / "_static"), str(book.SOURCE / "_static")]
html_css_files = ["book.css"]
html_favicon = str(ROOT / "docs" / "_static" / "icon.svg")
html_context = {"default_mode": "auto"}  # light or dark as the reader's system says, until one is chosen
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "home_page_in_toc": True,
    "show_toc_level": 2,
    "navbar_persistent": [],  # a second search field, above the first
    # a button to the repository, as soon as there is an address
    **({"repository_url": book.REPOSITORY, "use_repository_button": True} if book.REPOSITORY else {}),
}


def mark_answers(app, doctree):
    """Give each cell that derives a gradient an anchor of the gradient's name."""
    for node in doctree.findall(nodes.container):
        for tag in node.get("cell_metadata", {}).get("tags", []):
            if tag.startswith("answer:"):
                node["ids"].append(book.anchor(tag.removeprefix("answer:")))


def link_code(app, pagename, templatename, context, doctree):
    """In a notebook's page, link names to their source and gradients to the cell that derives them."""
    path = ROOT / f"{pagename}.ipynb"
    if "body" in context and path.is_file():
        context["body"] = book.link_code(context["body"], path, "../" * pagename.count("/"))


def plain_docstring(app, what, name, thing, options, lines):
    """Docstrings are plain text: an indented block is code, and so is what stands in backticks."""
    text = re.sub(r"(?<!`)`([^`\n]+)`(?!`)", r"``\1``", "\n".join(lines))
    lines[:] = re.sub(r"(?m)^(\S.*\n\n)(?=    )", r"\1::\n\n", text).split("\n")


def setup(app):
    app.connect("autodoc-process-docstring", plain_docstring)
    app.connect("doctree-read", mark_answers)
    app.connect("html-page-context", link_code)
