"""What the last `mutmut run` let pass: each mutant that no test noticed, with its reason or without one.

The reasons stand in tests/mutants.toml. Ends with 1 where one is missing, and with 2 where mutants were not tried.
"""

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REASONS = ROOT / "tests" / "mutants.toml"


def mutmut(*arguments):
    command = [Path(sys.executable).parent / "mutmut", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True, cwd=ROOT)
    return done.stdout


def reasons():
    """Why a mutant changes nothing, by "file.function: changed line"."""
    kinds = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    return {mutant: kind["why"] for kind in kinds.values() for mutant in kind["mutants"]}


def changed(name, diff):
    """The key of `reasons` for one of mutmut's names, and what `mutmut show` says of it."""
    file, function = re.fullmatch(r"makemore_bp\.(\w+)\.(?:x_|xǁ)(.+)__mutmut_\d+", name).groups()
    lines = [line[1:].strip() for line in diff.splitlines() if re.match(r"\+(?!\+\+)", line)]
    return f"{file}.{function.replace('ǁ', '.')}: {' '.join(lines)}"


def main():
    if not (ROOT / "mutants").is_dir():
        print("mutants.py: nothing was tried yet; `make mutants` does it.", file=sys.stderr)
        return 2
    verdicts = dict(re.findall(r"^\s+(\S+): (.+)$", mutmut("results", "--all", "true"), re.MULTILINE))
    survived = [name for name, verdict in verdicts.items() if verdict == "survived"]
    known, left = reasons(), []
    for name in survived:
        key = changed(name, mutmut("show", name))
        if key not in known:
            left.append(f"{name}\n    {key}")
    print(*left, sep="\n")
    print(", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts.values()).most_common()))
    print(
        f"Of those that survived, {len(survived) - len(left)} have a reason in {REASONS.name}, {len(left)} have none."
    )
    return 2 if "not checked" in verdicts.values() else 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
