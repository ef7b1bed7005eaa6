"""Run the tests as other machines would: each of PyTorch's CPU paths, with one and with two threads.

    python tools/portable.py [--quick]

What a notebook prints must be the same everywhere, up to what tests/sanitize.cfg names. One line per combination,
and an exit status that is not 0 if any of them failed.

--quick leaves out the notebooks that call themselves slow, in their metadata: "makemore_bp": {"slow": true}.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
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
    parser.add_argument("--quick", action="store_true", help="leave out the slow notebooks")
    notebooks = list_notebooks(parser.parse_args().quick)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for path in PATHS:
        for threads in (1, 2):
            outcome, text = (
                run(path, threads, notebooks) if has(path) else ("skipped", "this CPU does not have it")
            )
            counts[outcome] += 1
            print(f"{path:8s} {threads} thread{'s' if threads > 1 else ' '}  {outcome}: {text}", flush=True)
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
    environment = {
        **os.environ,
        "ATEN_CPU_CAPABILITY": path,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-n", "2", "--dist", "loadfile"]
    command += [f"--ignore=tests/test_{name}.py" for name in SAME_EVERYWHERE]
    command += ["--nbval", "--nbval-sanitize-with", "tests/sanitize.cfg", "tests", *notebooks]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8"
    )
    said = (done.stdout + done.stderr).strip()
    if done.returncode:
        return "failed", f"pytest exited with {done.returncode}\n{said}"
    return "passed", said.splitlines()[-1]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("Interrupted.")
