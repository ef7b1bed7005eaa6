"""What the README says is so: its links, its commands, its picture and the row it shows."""

import importlib.util
import re
from pathlib import Path

import torch
from conftest import make_pass

from makemore_bp import cmp
from makemore_bp.__main__ import parser

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links and all((ROOT / link).exists() for link in links if not link.startswith("https://"))


def test_every_notebook_is_in_the_table():
    listed = re.findall(r"\(notebooks/([^)]+)\)", README)
    assert listed == sorted(path.name for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def test_commands_exist():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    used = set(re.findall(r"^make (\S+)", README, re.MULTILINE))
    assert {"course", "lab", "test"} <= used <= set(targets)
    lines = re.findall(r"-m makemore_bp ([^#`\n]+)", README)
    assert len(lines) >= 4
    for line in lines:
        parser().parse_args(line.split())


def test_the_row_it_shows(capsys):
    v = make_pass(hidden=64, dtype=torch.float32)
    lost = v.bnmeani.grad.squeeze(0)
    assert torch.allclose(lost, v.bnmeani.grad)
    cmp("bnmeani", lost, v.bnmeani)
    assert capsys.readouterr().out in README


def test_the_picture_is_the_notebooks():
    spec = importlib.util.spec_from_file_location("picture", ROOT / "tools" / "picture.py")
    picture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(picture)
    assert picture.PICTURE.read_bytes() == picture.drawn(), "make notebooks"
