"""pyproject.toml, constraints.txt and environment.yml say the same, and what is installed is what they say."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
DIRECT = [Requirement(line) for line in sum(EXTRAS.values(), PROJECT["dependencies"])]

# what `make test` does not install
OPTIONAL = {
    canonicalize_name(Requirement(line).name)
    for extra, lines in EXTRAS.items()
    if extra not in ("lab", "test")
    for line in lines
}


def read_pins():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert all([s.operator for s in pin.specifier] == ["=="] for pin in pins), "every line pins one version"
    names = [canonicalize_name(pin.name) for pin in pins]
    assert len(names) == len(set(names)), "no package is pinned twice"
    return {name: Version(next(iter(pin.specifier)).version) for name, pin in zip(names, pins, strict=True)}


PINS = read_pins()


@pytest.mark.parametrize("requirement", DIRECT, ids=str)
def test_every_dependency_is_pinned_within_its_range(requirement):
    assert requirement.specifier.contains(PINS[canonicalize_name(requirement.name)])
    assert [s.operator for s in requirement.specifier] == [">="], "the ranges stay open"


def test_torch_is_the_version_whose_last_bits_are_known():
    assert str(PINS["torch"]) == "2.13.0"  # no +cpu: each machine chooses its own build
    assert 'TORCH = "torch==2.13.0"' in (ROOT / "tools" / "constraints.py").read_text(encoding="utf-8")


def test_all_that_comes_along_is_pinned():
    # Judged as on Linux, where the pins were made: other systems need a few packages more.
    linux = {
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": "x86_64",
    }
    seen, waiting = set(), [(requirement.name, requirement.extras) for requirement in DIRECT]
    while waiting:
        name, extras = waiting.pop()
        name = canonicalize_name(name)
        if (name, frozenset(extras)) in seen or re.match("nvidia|cuda|triton", name):
            continue
        seen.add((name, frozenset(extras)))
        assert name in PINS, f"{name} comes along and is not pinned: make constraints"
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # not on this system
        for requirement in map(Requirement, needs):
            if not requirement.marker or any(
                requirement.marker.evaluate({**linux, "extra": extra}) for extra in ("", *extras)
            ):
                waiting.append((requirement.name, requirement.extras))
    assert len({name for name, _ in seen}) > 50  # the walk did get somewhere


def test_what_is_pinned_installs_on_the_oldest_python():
    # >=3.11.5 is met by this machine's Python, perhaps, and not by a Debian's 3.11.2
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    assert f'PYTHON = "{oldest}"' in (ROOT / "tools" / "constraints.py").read_text(encoding="utf-8")
    looked_at = 0
    for name, version in PINS.items():
        try:
            installed = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # not on this system
        if Version(Version(installed.version).public) == version:
            needs = SpecifierSet(installed.metadata.get("Requires-Python") or "")
            assert needs.contains(oldest), f"{name} {version} wants Python {needs}"
            looked_at += 1
    assert looked_at > 50


@pytest.mark.parametrize("name", sorted(canonicalize_name(requirement.name) for requirement in DIRECT))
def test_what_is_installed_is_what_is_pinned(name):
    pinned = PINS[name]  # every extra is pinned, installed or not
    try:
        installed = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        if name not in OPTIONAL:
            raise
        pytest.skip("of an extra that the tests do without")
    assert Version(Version(installed).public) == pinned


def test_environment_yml_installs_the_same():
    lines = [line.strip() for line in (ROOT / "environment.yml").read_text(encoding="utf-8").splitlines()]
    items = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    assert items[items.index("pip:") + 1 :] == [
        "--extra-index-url https://download.pytorch.org/whl/cpu",
        "-c constraints.txt",
        "-e .[lab]",
    ]
    # conda itself brings only these two, so that no version can come from anywhere but constraints.txt
    python, pip = [item for item in items[: items.index("pip:")] if item != "conda-forge"]
    assert pip == "pip" and python.startswith("python=")
    assert SpecifierSet(PROJECT["requires-python"]).contains(python.removeprefix("python="))


def test_make_uses_the_constraints():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "-c constraints.txt" in makefile
    assert "-e '.[lab]'" in makefile and "-e '.[lab,test]'" in makefile
