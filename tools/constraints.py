"""Write constraints.txt: the version of every package that a fresh install of the course brings along.

    python tools/constraints.py

Installs the newest versions that pyproject.toml allows into an environment that is thrown away again. Run it
with the oldest Python the course supports, so that what is pinned installs on the newer ones too.
"""

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"  # moved by hand: a new one means looking at every stored output again

HEADER = f"""\
# Every package that is installed, pinned. Made by `make constraints` with Python {sys.version_info[0]}.{sys.version_info[1]}; not to be edited.
# Not pinned: what only some machines need on top (a CUDA build of torch brings NVIDIA's packages and triton,
# Windows and macOS a few small ones). A CPU build, torch 2.13.0+cpu, satisfies torch==2.13.0 as well.
"""
ONLY_SOME_MACHINES = re.compile(r"(nvidia|cuda|triton|intel-|tbb)")


def main():
    with tempfile.TemporaryDirectory() as folder:
        print("Installing everything anew, to see what comes (a few minutes) ...", file=sys.stderr)
        builder = venv.EnvBuilder(with_pip=True)
        builder.create(folder)
        python = builder.ensure_directories(folder).env_exe
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "-qq", "-e", f"{ROOT}[lab,test]", TORCH], check=True)
        # --all: setuptools is left out otherwise, and newer Pythons do not bring their own
        frozen = subprocess.run(
            [*pip, "freeze", "--all", "--exclude-editable", "--exclude", "pip"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    pins = []
    for pin in frozen.splitlines():
        name, at, version = pin.partition("==")
        if not at:  # a file or an address, as when pip was told to look in a folder
            sys.exit(f"constraints.py: {pin!r} is no plain version; nothing was written.")
        if not ONLY_SOME_MACHINES.match(name):
            pins.append(
                f"{name}=={version.split('+')[0]}"
            )  # +cpu and the like are for each machine to choose
    (ROOT / "constraints.txt").write_text(
        HEADER + "\n".join(sorted(pins, key=str.lower)) + "\n", encoding="utf-8"
    )
    print(f"constraints.txt: {len(pins)} packages pinned.")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"constraints.py: pip failed with status {error.returncode}; nothing was written.")
    except KeyboardInterrupt:
        sys.exit("constraints.py: interrupted; nothing was written.")
