"""The script that made data/names.txt, run as a person would, and the list it made."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parent.parent / "data"


def make_names(*arguments):
    command = [sys.executable, DATA / "make_names.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_lower_case_and_the_order_is_kept(tmp_path):
    (tmp_path / "yob.txt").write_bytes(b"Emma,F,18770\r\nAva,F,12\r\nNoah,M,5\r\nEmma,M,5\r\n")
    done = make_names(tmp_path / "yob.txt", tmp_path / "names.txt")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "names.txt").read_bytes() == b"emma\nava\nnoah\nemma\n"
    assert "4 names" in done.stdout


@pytest.mark.parametrize(
    "table, where",
    [
        (b"", "line 1"),
        (b"Emma,F,7\n\nAva,F,6\n", "line 2"),
        (b"Emma,F,7\nAva,F\n", "line 2"),
        (b"Emma,F,7\nAva,X,6\n", "line 2"),
        (b"Emma,F,many\n", "line 1"),
        (b"Name,Sex,Count\n", "line 1"),
        (b"Emma,F,7\nAva-Lee,F,6\n", "line 2"),
        (b"Emma,F,7\nZo\xc3\xab,F,6\n", "line 2"),
    ],
)
def test_a_bad_table_is_refused_and_the_old_list_stays(tmp_path, table, where):
    (tmp_path / "yob.txt").write_bytes(table)
    (tmp_path / "names.txt").write_text("old\n")
    done = make_names(tmp_path / "yob.txt", tmp_path / "names.txt")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "yob.txt" in done.stderr and where in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["names.txt", "yob.txt"]
    assert (tmp_path / "names.txt").read_text() == "old\n"


def test_a_missing_table_and_a_missing_folder(tmp_path):
    done = make_names(tmp_path / "no.txt", tmp_path / "names.txt")
    assert done.returncode == 1 and "no.txt" in done.stderr and len(done.stderr.splitlines()) == 1
    (tmp_path / "yob.txt").write_bytes(b"Emma,F,7\n")
    done = make_names(tmp_path / "yob.txt", tmp_path / "no" / "names.txt")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert make_names().returncode == 1


def test_the_list_that_is_shipped_is_the_one_the_readme_describes():
    content = (DATA / "names.txt").read_bytes()
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    assert hashlib.sha256(content).hexdigest() in readme
    assert f"{len(content.splitlines()):,} first names" in readme
