"""Take the README's picture out of the notebook that draws it: python tools/picture.py"""

import base64
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK, CELL = ROOT / "notebooks" / "01_names_and_model.ipynb", "graph"
PICTURE = ROOT / "docs" / "graph.png"


def drawn():
    """The picture's bytes, as they are stored in the notebook."""
    cells = {cell.id: cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells}
    return base64.b64decode(cells[CELL].outputs[0].data["image/png"])


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_bytes(drawn())
