"""The few commands: python -m makemore_bp COMMAND."""

import argparse
import json
import os
import sys
from pathlib import Path

INTERRUPTED = "Interrupted; nothing was changed."

try:
    from . import lecture
    from .data import NAMES_VARIABLE, BadNames, load, names_path
except KeyboardInterrupt:  # PyTorch takes seconds to import
    print(INTERRUPTED, file=sys.stderr)
    sys.exit(130)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without repeating the usage."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def names(options):
    """Tell about the list of names in use, or fetch the lecture's."""
    if options.lecture:
        if options.file:
            raise BadNames("--lecture takes no FILE: it fetches the list into data/.")
        if not lecture.is_lecture_list(lecture.FILE):
            lecture.fetch()
        print(f"The lecture's list is in {lecture.FILE}; its SHA-256 is right.")
        print(f"To use it: {NAMES_VARIABLE}={lecture.FILE} make course")
        return
    data = load(options.file)
    if options.file:
        chosen = "as asked for"
    elif os.environ.get(NAMES_VARIABLE):
        chosen = f"from {NAMES_VARIABLE}"
    else:
        chosen = "shipped with the course"
    print(f"{names_path(options.file)} ({chosen}): {sum(map(len, data.names)):,} names")
    for part, its_names, Y in zip(("train", "val", "test"), data.names, (data.Ytr, data.Yval, data.Yte)):
        print(f"{part:5s} {len(its_names):8,} names {len(Y):9,} examples")


def train(options):
    """Train the model and report its losses, evaluated under the running statistics."""
    # here, not above: what only training needs is not loaded for the other commands
    import torch

    from . import train_numpy
    from .model import evaluate, sample
    from .store import check_writable, save
    from .train import train as train_torch

    if options.save:
        # an interrupted run does not replace a finished one
        unfinished = options.save.with_suffix(f".unfinished{options.save.suffix}")
        check_writable(options.save)
        check_writable(unfinished)
    data = load(options.names)
    shared = dict(
        steps=options.steps,
        seed=options.seed,
        hidden=options.hidden,
        dtype=getattr(torch, options.dtype),
        b1=not options.no_b1,
    )
    run = (
        train_numpy.train(data, **shared)
        if options.by == "numpy"
        else train_torch(data, options.by, **shared)
    )
    if not run.losses:
        raise KeyboardInterrupt
    saved, failure = None, None
    try:
        if options.save:  # at once, since what follows may be interrupted
            path = options.save if run.finished else unfinished
            try:
                save(path, run.params, run.stats)
                saved = str(path)
            except OSError as error:  # a disk that is full by now: the figures are worth having all the same
                failure = error
        report = {
            "by": options.by,
            "steps": len(run.losses),
            "finished": run.finished,
            "train": evaluate(run.params, run.stats, data.Xtr, data.Ytr),
            "val": evaluate(run.params, run.stats, data.Xval, data.Yval),
            "test": evaluate(run.params, run.stats, data.Xte, data.Yte),
            "seconds": run.seconds,
            "microseconds_per_step": run.seconds / len(run.losses) * 1e6,
            "parameters": sum(p.numel() for p in run.params) - options.no_b1 * run.params.b1.numel(),
            "seed": options.seed,
            "dtype": options.dtype,
        }
        if saved:
            report["saved"] = saved
        if options.sample:
            report["names"] = sample(run.params, run.stats, options.sample)
        print(json.dumps(report) if options.json else _readable(report), flush=True)
    except KeyboardInterrupt:
        kept = f"the model is saved in {saved}" if saved else "no model was saved"
        raise KeyboardInterrupt(f"Interrupted before the report; {kept}.") from None
    if failure:
        raise failure
    return 0 if run.finished else 130


def _readable(report):
    lines = ["" if report["finished"] else "Interrupted: these are the figures so far, of an unfinished run."]
    lines += [f"{part:5s} loss {report[part]:.6f}" for part in ("train", "val", "test")]
    lines.append(
        f"{report['steps']:,} steps by {report['by']}, {report['parameters']:,} parameters, {report['dtype']}, "
        f"{report['seconds']:.1f} s, {report['microseconds_per_step']:.0f} microseconds a step"
    )
    lines += [f"saved in {report['saved']}"] if "saved" in report else []
    return "\n".join(filter(None, lines + report.get("names", [])))


def sample(options):
    """Draw names from a saved model."""
    from .model import sample as draw_names
    from .store import load_model

    print("\n".join(draw_names(*load_model(options.model), options.count, options.seed)))


def _count(text):
    """A whole number of 1 or more, for argparse."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) < 2**63:
        raise argparse.ArgumentTypeError(f"a whole number of 1 or more is expected, not {text!r}")
    return int(text)


def _file(text):
    if not Path(text).name:
        raise argparse.ArgumentTypeError(f"the name of a file is expected, not {text!r}")
    return Path(text)


def _seed(text):
    if not text.isascii() or not text.isdigit() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"a whole number from 0 to 2**63 - 1 is expected, not {text!r}")
    return int(text)


def parser():
    top = Parser(prog="python -m makemore_bp", description="The commands of the course.")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    command = commands.add_parser(
        "names", help="which list of names is used, and how it is split", description=names.__doc__
    )
    command.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help=f"a list of names (default: ${NAMES_VARIABLE}, else the course's)",
    )
    command.add_argument(
        "--lecture", action="store_true", help="fetch the list of the makemore lectures into data/"
    )
    command.set_defaults(run=names)

    command = commands.add_parser("train", help="train the model, by hand or not", description=train.__doc__)
    command.add_argument(
        "--by", choices=["hand", "backward", "numpy"], default="hand", help="who computes the gradients"
    )
    command.add_argument("--steps", type=_count, default=200_000, metavar="N", help="default: 200,000")
    command.add_argument(
        "--seed", type=_seed, default=2147483647, metavar="S", help="of the weights and minibatches"
    )
    command.add_argument(
        "--names", metavar="FILE", help=f"a list of names (default: ${NAMES_VARIABLE}, else the course's)"
    )
    command.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    command.add_argument(
        "--hidden", type=_count, default=200, metavar="H", help="hidden units (default: 200)"
    )
    command.add_argument("--no-b1", action="store_true", help="the model without b1, which BatchNorm cancels")
    command.add_argument("--save", type=_file, metavar="FILE", help="write the trained model to FILE (.npz)")
    command.add_argument("--sample", type=_count, metavar="K", help="draw K names at the end")
    command.add_argument("--json", action="store_true", help="one line of JSON")
    command.set_defaults(run=train)

    command = commands.add_parser("sample", help="names from a saved model", description=sample.__doc__)
    command.add_argument("model", metavar="MODEL", help="what train --save wrote")
    command.add_argument("count", metavar="K", nargs="?", type=_count, default=20, help="default: 20")
    command.add_argument("--seed", type=_seed, default=1, metavar="S")
    command.set_defaults(run=sample)
    return top


def main(arguments=None):
    options = parser().parse_args(arguments)
    try:
        code = options.run(options) or 0
        print(end="", flush=True)  # here, where what it raises is caught, and not at exit
        return code
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        _drop_unwritten()
        return 141
    except OSError as error:
        _drop_unwritten()
        where = f"{error.filename}: " if error.filename else ""
        print(f"{where}{error.strerror}." if error.strerror else error, file=sys.stderr)
        return 2
    except (ValueError, ArithmeticError, lecture.NotFetched) as error:
        # BadNames, BadModel, Diverged: each one sentence
        print(error, file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate" not in str(error):
            raise
        print("There is not enough memory for so many hidden units.", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print(str(interrupt) or INTERRUPTED, file=sys.stderr)
        return 130


def _drop_unwritten():
    """Drop what stdout does not take, else Python tries once more at exit and complains."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
