"""Run the tests as other machines would: each of PyTorch's CPU paths, with one and with two threads, and the newest
PyTorch that the package index offers, in an environment of its own (build/newest).

    python tools/portable.py [--quick | --newest]

What a notebook prints must be the same everywhere, up to what tests/sanitize.cfg names. One line per combination,
and an exit status that is not 0 if any of them failed.

The notebooks that call themselves slow, in their metadata ("makemore_bp": {"slow": true}), run once on each path.
--quick leaves them out, and the newest PyTorch, which may be gigabytes; --newest runs that alone.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import venv
from importlib.metadata import requires
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
NEWEST = ROOT / "build" / "newest"
# What each path needs of the CPU. Asked for one that the CPU lacks, PyTorch takes another without a word or dies of an
# illegal instruction, by the version and the step; torch.backends.cpu.get_cpu_capability() repeats what was asked for.
# So the CPU itself is looked at.
PATHS = {
    "default": (),
    "avx2": ("avx2", "fma3"),
    "avx512": ("avx512_f", "avx512_bw", "avx512_dq", "avx512_vl", "fma3"),
}
# what does not depend on the CPU, and takes long
SAME_EVERYWHERE = ("teach", "damage", "book", "browser", "packaging")


def main():
    parser = argparse.ArgumentParser(prog="portable.py", description="Run the tests as other machines would.")
    less = parser.add_mutually_exclusive_group()
    less.add_argument(
        "--quick", action="store_true", help="no slow notebooks, and only the PyTorch that is here"
    )
    less.add_argument("--newest", action="store_true", help="only the newest PyTorch")
    chosen = parser.parse_args()
    counts = {"passed": 0, "failed": 0, "skipped": 0}

    def report(name, outcome, text):
        counts[outcome] += 1
        print(f"{name:19s} {outcome}: {text}", flush=True)

    for path, threads in [] if chosen.newest else [(path, threads) for path in PATHS for threads in (1, 2)]:
        notebooks = list_notebooks(chosen.quick or threads > 1)
        name = f"{path:8s} {threads} thread{'s' if threads > 1 else ''}"
        report(
            name, *(run(path, threads, notebooks) if has(path) else ("skipped", "this CPU does not have it"))
        )
    if not chosen.quick:
        report("the newest PyTorch", *run_newest())
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 1 if counts["failed"] else 0


def list_notebooks(quick):
    paths = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    return [str(path) for path in paths if not (quick and is_slow(path))]


def is_slow(path):
    metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]
    return metadata.get("makemore_bp", {}).get("slow", False)


def has(path):
    capabilities = torch.cpu.get_capabilities()
    return all(capabilities.get(name) for name in PATHS[path])


def run(path, threads, notebooks):
    """The tests under one combination: whether they passed, and pytest's summary or, if not, all it said."""
    return tests(
        sys.executable,
        notebooks,
        ATEN_CPU_CAPABILITY=path,
        OMP_NUM_THREADS=str(threads),
        MKL_NUM_THREADS=str(threads),
    )


def tests(python, notebooks, **variables):
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-n", "2", "--dist", "loadfile"]
    command += [f"--ignore=tests/test_{name}.py" for name in SAME_EVERYWHERE]
    command += ["--nbval", "--nbval-sanitize-with", "tests/sanitize.cfg", "tests", *notebooks]
    done = ask(*command, **variables)
    said = (done.stdout + done.stderr).strip()
    if done.returncode:
        return "failed", f"pytest exited with {done.returncode}\n{said}"
    return "passed", said.splitlines()[-1]


def run_newest():
    """The quick tests beside the newest PyTorch: as `run`, or why there is nothing to run."""
    pip = (sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check")
    found = ask(*pip, "--dry-run", "--no-deps", "--ignore-installed", "--report", "-", "torch")
    if found.returncode:
        return "skipped", f"the package index does not tell which it is ({last(found)})"
    version = json.loads(found.stdout)["install"][0]["metadata"]["version"].split("+")[0]
    if version == torch.__version__.split("+")[0]:
        return "skipped", f"it is the one that is here, {version}"
    print(f"Installing PyTorch {version} into build/newest (once; up to gigabytes) ...", file=sys.stderr)
    python = NEWEST / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    venv.create(NEWEST, with_pip=True)  # completes one that was interrupted
    constraints = NEWEST / "constraints.txt"
    constraints.write_text(without_torch(), encoding="utf-8")
    made = ask(python, *pip[1:], "-c", constraints, f"torch=={version}", "-e", ".[lab,test]")
    if made.returncode:
        return "failed", f"PyTorch {version} was not installed\n{made.stderr.strip()}"
    outcome, text = tests(str(python), list_notebooks(quick=True), OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    return outcome, f"{version}: {text}"


def without_torch():
    """The pins, but for torch and what it brings along, which another version wants otherwise."""
    needs = [re.match(r"[\w.-]+", line)[0] for line in requires("torch") or []]
    own = {name.lower().replace("_", "-") for name in ("torch", *needs)}
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in pins if line.split("==")[0].lower().replace("_", "-") not in own)


def ask(*command, **variables):
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


def last(done):
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"pip exited with {done.returncode}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("Interrupted.")
