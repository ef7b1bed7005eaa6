"""Print the catalogue of wrong derivations, the lecture's check beside ours: python tools/catalogue.py [--right]

The lecture's cmp says "exact" (every entry equal), "agrees" (torch.allclose), "differs", or raises; both of its
checks broadcast. The last lines count: caught, named, and right variants refused.
"""

import contextlib
import io
import sys
from pathlib import Path

import torch

from makemore_bp import cmp, draw, forward, load
from makemore_bp.model import minibatch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from catalogue import NOTHING, RIGHT, WRONG, judge, named  # noqa: E402


def course_pass():
    """The course's first minibatch, in float32, with backward() done."""
    params, g = draw()
    data = load()
    v = forward(params, *minibatch(data.Xtr, data.Ytr, g))
    v.loss.backward()
    return v


def line(case, lecture, row):
    ours = {True: "agrees", False: "differs", None: "?"}[row.approximate]
    said = row.cause or row.entry or row.note
    return f"{case.label:16s} | {case.how:38s} | {lecture:7s} | {ours:7s} | {said}".rstrip(" |")


def main():
    torch.set_num_threads(1)
    v = course_pass()
    with contextlib.redirect_stdout(io.StringIO()):
        wrong, right = list(judge(v, WRONG, cmp)), list(judge(v, NOTHING + RIGHT, cmp))
    print(f"{'gradient':16s} | {'how it is wrong':38s} | lecture | ours    | what ours says")
    for found in wrong + (right if "--right" in sys.argv else []):
        print(line(*found))
    expected = [named(case, row) for case, _, row in wrong if case.cause]
    passed = sum(lecture in ("exact", "agrees") for _, lecture, _ in wrong)
    print()
    print(f"wrong derivations: {len(wrong)}; caught: {sum(row.approximate is False for _, _, row in wrong)}")
    print(f"of these the lecture's cmp lets pass: {passed}")
    print(
        f"cause named: {sum(map(bool, expected))} of {len(wrong)}; shown by its largest entry: {len(wrong) - len(expected)}"
    )
    refused = sum(not row or bool(row.cause) for _, _, row in right)
    print(
        f"right variants: {len(RIGHT)}, and {len(NOTHING)} whose mistake contributes nothing; refused: {refused}"
    )


if __name__ == "__main__":
    sys.exit(main())
