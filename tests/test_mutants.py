"""tools/mutants.py: which mutants no test notices, and the reasons in tests/mutants.toml."""

import ast
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
mutants = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mutants)

DIFF = """\
# makemore_bp.compare.xǁCompareǁgiven__mutmut_14: survived
--- makemore_bp/compare.py
+++ makemore_bp/compare.py
@@ -5,3 +5,3 @@
     if tensor is None:
-        near = difflib.get_close_matches(str(name), self._pass, 1)
+        near = difflib.get_close_matches(str(name), self._pass, 2)
"""
NAME = "makemore_bp.compare.xǁCompareǁgiven__mutmut_14"


def functions(file):
    tree = ast.parse((ROOT / "makemore_bp" / f"{file}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{f.name}" for f in node.body if isinstance(f, ast.FunctionDef))


@pytest.mark.parametrize("mutant", mutants.reasons())
def test_what_a_reason_is_given_for_is_still_there_and_still_another_line(mutant):
    place, line = mutant.split(": ", 1)
    file, function = place.split(".", 1)
    assert function in functions(file)
    assert f"    {line}\n" not in (ROOT / "makemore_bp" / f"{file}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "verdict, known, code",
    [("killed", False, 0), ("survived", True, 0), ("survived", False, 1), ("not checked", True, 2)],
)
def test_one_without_a_reason_is_printed(monkeypatch, tmp_path, capsys, verdict, known, code):
    (tmp_path / "mutants").mkdir()
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(
        mutants, "mutmut", lambda what, *_: f"    {NAME}: {verdict}\n" if what == "results" else DIFF
    )
    key = "compare.Compare.given: near = difflib.get_close_matches(str(name), self._pass, 2)"
    monkeypatch.setattr(mutants, "reasons", lambda: {key: "why"} if known else {})
    assert mutants.main() == code
    out = capsys.readouterr().out
    assert (key in out) == (code == 1) and f"1 {verdict}" in out


def test_before_anything_was_tried(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    assert mutants.main() == 2 and "make mutants" in capsys.readouterr().err
