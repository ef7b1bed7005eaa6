"""How long a training step takes, in every way there is to take it. One thread, interleaved, one table.

make bench          or          python benchmarks/bench.py --rounds 5 --steps 2000
"""

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import time

# before NumPy, PyTorch and JAX are loaded: one thread each
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", JAX_PLATFORMS="cpu")
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import torch  # noqa: E402
from loops import LOOPS, Missing, N, multiply_adds, products  # noqa: E402
from tqdm import tqdm  # noqa: E402

from makemore_bp import load, train_numpy  # noqa: E402
from makemore_bp.model import SEED  # noqa: E402

REFERENCE = "lecture's loop, backward()"
SAME = (
    1e-3  # how far apart two losses of one step may be, rounding having gone its way for thousands of steps
)


def main():
    options = arguments()
    torch.set_num_threads(1)
    data = load()
    loops, left_out = prepare(data, options)
    seconds = {name: [] for name in loops}
    for _ in tqdm(range(options.rounds), unit="round", leave=False, disable=None):
        losses = {}
        for name, loop in loops.items():
            loop.start()
            begin = time.perf_counter()
            losses[name] = loop.steps(options.steps)
            seconds[name].append(time.perf_counter() - begin)
        for name in list(loops):
            apart = max(abs(a - b) for a, b in zip(losses[name], losses[REFERENCE], strict=True))
            if not apart <= SAME:
                left_out[name] = f"its losses are up to {apart:.1e} from those of {REFERENCE}"
                del loops[name]
    report({name: seconds[name] for name in loops}, options)
    for name, why in left_out.items():
        print(f"left out: {name}: {why}.")
    print(f"All that is in the table has the same losses, each step's to within {SAME:g}.")
    limit(options)
    where(data, options, loops)
    imports()
    memory()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2000, help="of each round")
    parser.add_argument("--hidden", type=int, default=200)
    parser.add_argument("--only", metavar="WORD", help="only what has WORD in its name, and the reference")
    options = parser.parse_args()
    if min(options.rounds, options.steps, options.hidden) < 1:
        parser.error("rounds, steps and hidden are whole numbers of 1 or more")
    return options


def prepare(data, options):
    """Every loop that can run here, warmed up (compiled, that is); and why the others can't."""
    loops, left_out = {}, {}
    chosen = {n: loop for n, loop in LOOPS.items() if n == REFERENCE or (options.only or "") in n}
    for name, loop in tqdm(chosen.items(), desc="getting ready", leave=False, disable=None):
        try:
            loops[name] = loop(data, options.hidden, SEED)
            loops[name].steps(200)
        except Missing as error:
            left_out[name] = str(error)
    return loops, left_out


def report(seconds, options):
    print(f"One training step, {options.hidden} hidden units, batch {N}, float32, one thread;")
    print(f"median of {options.rounds} rounds of {options.steps:,} steps, smallest and largest,")
    print("and the median of the rounds' ratios: this time the reference's would be as long.\n")
    print(f"{'':44s}{'microseconds a step':>24s}{'times as fast':>18s}")
    for name, times in seconds.items():
        per_step = [t / options.steps * 1e6 for t in times]
        ratio = statistics.median(r / t for r, t in zip(seconds[REFERENCE], times))
        spread = f"({min(per_step):.0f} to {max(per_step):.0f})"
        print(f"{name:44s}{statistics.median(per_step):10.0f} {spread:14s}{ratio:14.2f}")
    print()


def limit(options):
    once = products(options.hidden)
    per_call = []
    for _ in range(3000):
        begin = time.perf_counter()
        once()
        per_call.append(time.perf_counter() - begin)
    fast, count = statistics.median(per_call), multiply_adds(options.hidden)
    print(
        f"A step needs {count:,} multiply-adds in six products. Alone these take {fast * 1e6:.0f} microseconds "
        f"in NumPy's BLAS: {2 * count / fast / 1e9:.0f} GFLOP/s."
    )


GROUPS = {
    "embedding to tanh": ["forward_to_h"],
    "logits and loss": ["forward_to_loss", "logits_group"],
    "second layer": ["second_layer"],
    "tanh and BatchNorm": ["tanh", "batchnorm"],
    "first layer": ["first_layer"],
    "embedding, update": ["embedding", "update"],
}


def where(data, options, loops):
    """Where the time of the NumPy run goes, beside the same groups in C."""
    floor = loops.get("C, -ffast-math")
    if floor is None:
        return print("No C, so no floor to compare the groups with.")
    step, spent = timed_step()
    floor.groups = (ctypes.c_double * len(GROUPS))()
    for _ in range(options.rounds):
        train_numpy.train(data, options.steps, hidden=options.hidden, progress=False, step_class=step)
        floor.start()
        floor.steps(options.steps)
    print("\nmicroseconds a step, by group                       NumPy       C, -ffast-math")
    for (group, methods), in_c in zip(GROUPS.items(), floor.groups):
        mine, theirs = (
            t / options.steps / options.rounds * 1e6 for t in (sum(spent[m] for m in methods), in_c)
        )
        print(f"{group:44s}{mine:13.0f}{theirs:15.0f}")
    print()


def timed_step():
    """A Step whose groups are timed, and the seconds spent in each so far."""
    spent = dict.fromkeys(sum(GROUPS.values(), []), 0.0)

    def timed(name):
        group = getattr(train_numpy.Step, name)

        def run(self):
            begin = time.perf_counter()
            group(self)
            spent[name] += time.perf_counter() - begin

        return run

    return type("TimedStep", (train_numpy.Step,), {name: timed(name) for name in spent}), spent


def imports(rounds=5):
    """What importing the package takes beyond PyTorch and NumPy."""
    print_time = "import time, torch, numpy; t = time.perf_counter(); import makemore_bp; print(time.perf_counter() - t)"
    taken = [float(_in_a_new_process(print_time)) for _ in range(rounds)]
    print(f"Importing makemore_bp takes {statistics.median(taken) * 1e3:.0f} ms beyond torch and NumPy.")


def memory():
    """How much a NumPy run, its data included, adds to the peak of memory that the imports have reached."""
    try:
        import resource  # noqa: F401
    except ImportError:
        return print("Memory is not measured here: Windows has no resource usage to ask for.")
    peak = "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss"
    added = _in_a_new_process(
        f"import resource; from makemore_bp import load, train_numpy; before = {peak}; "
        f"train_numpy.train(load(), 2000, progress=False); print({peak} - before)"
    )
    unit = 2**20 if sys.platform == "darwin" else 2**10
    print(f"A NumPy run, its data included, adds {int(added) / unit:.0f} MB to the peak of the imports.")


def _in_a_new_process(program):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("bench.py: interrupted.")
