"""Write constraints.txt: the version of every package that a fresh install of the course brings along.

    python tools/constraints.py

The newest ones that pyproject.toml allows and that install on the oldest Python it allows, whichever Python
runs this. Nothing is installed.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = "3.11.0"  # to the last digit: there are packages that want 3.11.5
TORCH = "torch==2.13.0"  # moved by hand: a new one means looking at every stored output again

HEADER = """\
# Every package that is installed, pinned. Made by `make constraints`; not to be edited.
# Not pinned: what only some machines need on top (a CUDA build of torch brings NVIDIA's packages and triton,
# Windows and macOS a few small ones). A CPU build, torch 2.13.0+cpu, satisfies torch==2.13.0 as well.
"""
ONLY_SOME_MACHINES = re.compile("nvidia|cuda|triton")


def main():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = sum(project["optional-dependencies"].values(), [*project["dependencies"], TORCH])
    print("Asking pip what an install brings along (a few minutes) ...", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        command += ["--dry-run", "--ignore-installed", "--report", report, "--target", folder]
        command += ["--python-version", PYTHON, "--only-binary=:all:", *wanted]
        subprocess.run(command, check=True)
        found = [item["metadata"] for item in json.loads(report.read_text(encoding="utf-8"))["install"]]
    # without +cpu and the like, which are for each machine to choose
    pins = {package["name"]: package["version"].split("+")[0] for package in found}
    lines = [
        f"{name}=={pins[name]}" for name in sorted(pins, key=str.lower) if not ONLY_SOME_MACHINES.match(name)
    ]
    (ROOT / "constraints.txt").write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"constraints.txt: {len(lines)} packages pinned.")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"constraints.py: pip failed with status {error.returncode}; nothing was written.")
    except KeyboardInterrupt:
        sys.exit("constraints.py: interrupted; nothing was written.")
