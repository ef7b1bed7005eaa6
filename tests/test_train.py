"""Training: twins by hand, by backward() and in NumPy; running statistics; interruptions and damage."""

import os
import random
import re
import stat
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
import tqdm
from conftest import make_batch
from threadpoolctl import threadpool_info, threadpool_limits

from makemore_bp import train_numpy
from makemore_bp.data import Data, build_dataset
from makemore_bp.model import (
    LONGEST,
    Params,
    Stats,
    calibrate,
    draw,
    evaluate,
    forward_merged,
    minibatch,
    sample,
)
from makemore_bp.store import BadModel, load_model, save
from makemore_bp.train import Diverged, Run, rate, train

NAMES = ["emma", "olivia", "ava", "isabella", "sophia", "mia", "zyx", "noah", "liam", "bob"]


@pytest.fixture(scope="module")
def data():
    X, Y = build_dataset(NAMES * 3)
    return Data(X, Y, X[:40], Y[:40], X[40:], Y[40:], names=(NAMES, NAMES, NAMES))


TRAINERS = {
    "hand": lambda data, **options: train(data, "hand", **options),
    "backward": lambda data, **options: train(data, "backward", **options),
    "numpy": lambda data, **options: train_numpy.train(data, **options),
}


def apart(one, other):
    return max(((a - b).norm() / b.norm()).item() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("by", ["hand", "numpy"])
@pytest.mark.parametrize("b1", [True, False])
def test_twins_in_float64(data, by, b1):
    """The same weights and batches: 500 steps later every parameter is the same to 1e-10."""
    options = dict(steps=500, dtype=torch.float64, progress=False, b1=b1, hidden=50)
    run, twin = TRAINERS[by](data, **options), train(data, "backward", **options)
    assert run.finished and len(run.losses) == 500
    for name in Params._fields:
        mine, theirs = getattr(run.params, name), getattr(twin.params, name)
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
        assert (mine - theirs).norm() <= 1e-10 * theirs.norm(), name
    assert apart(run.stats, twin.stats) <= 1e-10
    assert run.losses == pytest.approx(twin.losses, rel=1e-10)


@pytest.mark.parametrize("by", ["hand", "numpy"])
def test_twins_in_float32(data, by):
    options = dict(steps=2000, progress=False)
    run, twin = TRAINERS[by](data, **options), train(data, "backward", **options)
    ends = [evaluate(r.params, r.stats, data.Xtr, data.Ytr) for r in (run, twin)]
    assert abs(ends[0] - ends[1]) < 1e-5


@pytest.mark.parametrize("by", TRAINERS)
def test_same_seed_same_bits(data, by):
    one, other = (TRAINERS[by](data, steps=50, seed=7, progress=False) for _ in range(2))
    assert all(
        torch.equal(a, b)
        for a, b in zip((*one.params, *one.stats), (*other.params, *other.stats), strict=True)
    )
    assert one.losses == other.losses
    assert TRAINERS[by](data, steps=50, seed=8, progress=False).losses != one.losses


@pytest.mark.parametrize("by", TRAINERS)
def test_first_loss_is_the_forward_pass(data, by):
    params, g = draw(200)
    v = forward_merged(params, *minibatch(data.Xtr, data.Ytr, g))
    assert TRAINERS[by](data, steps=1, progress=False).losses[0] == pytest.approx(v.loss.item(), rel=1e-6)


def test_learning_rate():
    assert [rate(s) for s in (0, 99_999, 100_000, 199_999)] == [0.1, 0.1, 0.01, 0.01]


@pytest.mark.parametrize("by", TRAINERS)
def test_running_statistics_are_batchnorms(data, by):
    """PyTorch's BatchNorm1d with momentum 0.001 sees the same hprebn and ends with the same statistics."""
    layer = torch.nn.BatchNorm1d(20, momentum=0.001, dtype=torch.float64)
    params, g = draw(20, dtype=torch.float64)
    for step in range(100):
        v = forward_merged(params, *minibatch(data.Xtr, data.Ytr, g))
        v.loss.backward()
        with torch.no_grad():
            layer(v.hprebn)
            for p in params:
                p -= rate(step) * p.grad
                p.grad = None
    run = TRAINERS[by](data, steps=100, hidden=20, dtype=torch.float64, progress=False)
    assert (run.stats.mean[0] - layer.running_mean).norm() <= 1e-10 * layer.running_mean.norm()
    assert (run.stats.var[0] - layer.running_var).norm() <= 1e-10 * layer.running_var.norm()


def test_without_b1_is_the_same_model(data):
    """b1 changes no loss in training: BatchNorm's mean takes it out again."""
    options = dict(steps=300, dtype=torch.float64, progress=False, hidden=20)
    with_b1, without = (train(data, "hand", b1=b1, **options) for b1 in (True, False))
    assert with_b1.losses == pytest.approx(without.losses, rel=1e-10)
    assert not without.params.b1.any()


def test_evaluation_in_chunks_and_calibration(data):
    run = train(data, steps=50, progress=False, dtype=torch.float64)
    whole, parts = (evaluate(run.params, run.stats, data.Xtr, data.Ytr, chunk=c) for c in (10**6, 7))
    assert whole == pytest.approx(parts, rel=1e-12)
    # under the whole set's own statistics, evaluation is the training forward pass over the whole set
    stats = calibrate(run.params, data.Xtr)
    v = forward_merged(run.params, data.Xtr, data.Ytr)
    assert evaluate(run.params, stats, data.Xtr, data.Ytr) == pytest.approx(v.loss.item(), rel=1e-12)


def test_sampling_learns_the_names(data):
    run = train(data, steps=3000, progress=False)
    names = sample(run.params, run.stats, 50)
    assert names == sample(run.params, run.stats, 50) != sample(run.params, run.stats, 50, seed=1)
    assert sum(name in NAMES for name in names) > 25


def interrupt_at(monkeypatch, by, when):
    """Raise KeyboardInterrupt inside step `when`."""
    calls = iter(range(10**9))

    def poisoned(original):
        def wrapper(*args, **kwargs):
            if next(calls) == when:
                raise KeyboardInterrupt
            return original(*args, **kwargs)

        return wrapper

    if by == "numpy":
        monkeypatch.setattr(train_numpy.Step, "tanh", poisoned(train_numpy.Step.tanh))
    else:
        import makemore_bp.train as module

        monkeypatch.setattr(module, "minibatch", poisoned(module.minibatch))


@pytest.mark.parametrize("by", TRAINERS)
def test_interrupted(data, by, monkeypatch):
    interrupt_at(monkeypatch, by, 30)
    run = TRAINERS[by](data, steps=1000, progress=False)
    assert isinstance(run, Run) and not run.finished and len(run.losses) == 30
    monkeypatch.undo()
    whole = TRAINERS[by](data, steps=30, progress=False)
    assert apart(run.params, whole.params) == 0 and apart(run.stats, whole.stats) <= 1e-6


@pytest.mark.parametrize("by", TRAINERS)
def test_divergence_names_the_step(data, by, monkeypatch):
    for module in ("makemore_bp.train", "makemore_bp.train_numpy"):
        monkeypatch.setattr(f"{module}.rate", lambda step: 1e30 if step == 4 else 0.1)
    with pytest.raises(Diverged, match="the loss is nan at step 5"):
        TRAINERS[by](data, steps=1000, progress=False)


def test_divergence_in_a_later_block(data, monkeypatch):
    late = train_numpy.BLOCK + 7
    monkeypatch.setattr("makemore_bp.train_numpy.rate", lambda step: 1e30 if step == late else 0.1)
    with pytest.raises(Diverged, match=f"at step {late + 1}"):
        train_numpy.train(data, steps=1000, progress=False)


def test_logits_far_from_zero_do_not_overflow():
    """Without the maximum subtracted, exp of these would be inf."""
    params, (Xb, Yb) = draw(16)[0], make_batch()
    with torch.no_grad():
        params.b2.add_(500)
        params.W2.mul_(100)
    step = train_numpy.Step(params)
    step.begin(Xb[None].numpy(), Yb[None].numpy(), [0.1])
    step()
    assert step.end()[0] == pytest.approx(forward_merged(params, Xb, Yb).loss.item(), rel=1e-5)


@pytest.mark.parametrize("by", TRAINERS)
def test_the_seconds_are_those_of_the_run(data, by):
    begin = time.perf_counter()
    run = TRAINERS[by](data, steps=20, progress=False)
    assert 0 < run.seconds < time.perf_counter() - begin


def test_one_thread_for_the_matrix_products_and_all_are_put_back(data, monkeypatch):
    """And no other library's are touched: PyTorch's are the reader's."""
    limits, during = [], []

    class Looking(train_numpy.Step):
        def update(self):
            during.append(blas())
            super().update()

    def blas():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    def limited(*args, **options):
        limits.append((args, options))
        return threadpool_limits(*args, **options)

    monkeypatch.setattr(train_numpy, "threadpool_limits", limited)
    with threadpool_limits(2, user_api="blas"):
        before = blas()
        train_numpy.train(data, steps=1, progress=False, step_class=Looking)
        assert blas() == before
    assert during == [[1] * len(before)] and limits == [((1,), {"user_api": "blas"})]


def test_the_bar_counts_the_steps(data, capsys):
    train_numpy.train(data, steps=250)
    assert re.search(r"train by numpy: 100%.* 250/250 \[.*[\d?](step/s|s/step)\]", capsys.readouterr().err)
    train_numpy.train(data, steps=2, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_array_is_in_the_parameters_dtype(data, dtype):
    """Another one would be converted in each step, and round differently."""
    one_step = train_numpy.Step(draw(5, dtype=dtype)[0], 4)
    one_step.begin(data.Xtr[:4].numpy()[None], data.Ytr[:4].numpy()[None], [0.1])
    one_step()
    arrays = {name: a for name, a in vars(one_step).items() if isinstance(a, np.ndarray)}
    assert len(arrays) > 40
    assert {name: a.dtype for name, a in arrays.items() if a.dtype != str(dtype).removeprefix("torch.")} == {}


@pytest.mark.parametrize(
    "wrong, says",
    [
        (dict(by="typo"), "by is to be 'hand' or 'backward', not 'typo'"),
        (dict(steps=0), "steps is to be an int from 1 .*, not 0"),
        (dict(steps=-3), "not -3"),
        (dict(steps=1.5), "not 1.5"),
        (dict(steps=np.int64(3)), r"not np.int64\(3\)"),
        (dict(hidden=0), "hidden is to be an int from 1 "),
        (dict(seed=-1), "seed is to be an int from 0 "),
        (dict(dtype=torch.float16), "dtype is to be torch.float32 or torch.float64, not torch.float16"),
        (dict(dtype=int), "dtype is to be"),
        (dict(data=[1, 2]), r"data is to be what load\(\) returns, and is of type list"),
    ],
    ids=str,
)
def test_arguments_that_cannot_be_trained_with(data, wrong, says):
    with pytest.raises((TypeError, ValueError), match=says) as caught:
        train(**{"data": data, "steps": 2, "progress": False, **wrong})
    assert len(str(caught.value).splitlines()) == 1


def test_the_bar_is_the_one_that_needs_no_widgets():
    import makemore_bp.train as module

    assert module.tqdm is tqdm.tqdm


def with_b2(params, letter, value):
    """The same parameters, whose logit for one letter is larger by `value`."""
    b2 = params.b2.detach().clone()
    b2[letter] += value
    return Params(*(p.detach() for p in params))._replace(b2=b2)


def test_a_model_without_an_end_gives_names_all_the_same():
    params, _ = draw(6)
    stats = Stats(torch.zeros(1, 6), torch.ones(1, 6))
    assert sample(with_b2(params, 1, 1e6), stats, 2) == ["a" * LONGEST] * 2


def test_a_model_whose_logits_overflow_says_so():
    params, _ = draw(6)
    stats = Stats(torch.zeros(1, 6), torch.ones(1, 6))
    with pytest.raises(
        ValueError, match=r"^the model.s logits are nan or inf: no name can be drawn from it\.$"
    ):
        sample(with_b2(params, 1, float("inf")), stats, 2)


def test_evaluation_takes_fewer_examples_at_once_for_more_hidden_units(monkeypatch):
    import makemore_bp.model as module

    seen, original = [], module.logits_eval

    def watched(params, stats, x):
        seen.append(len(x))
        return original(params, stats, x)

    monkeypatch.setattr(module, "logits_eval", watched)
    params, _ = draw(1_000_000)
    evaluate(params, calibrate(params, make_batch(4)[0]), *make_batch(6))
    assert seen == [4, 2]


# --- saved models


@pytest.fixture
def saved(tmp_path):
    params, _ = draw(6)
    stats = Stats(torch.zeros(1, 6), torch.ones(1, 6))
    save(tmp_path / "model.npz", params, stats)
    return tmp_path / "model.npz", params, stats


def test_saved_and_read_again(saved):
    path, params, stats = saved
    read = load_model(path)
    assert all(torch.equal(a, b) for a, b in zip((*params, *stats), (*read[0], *read[1]), strict=True))
    assert [p.name for p in path.parent.iterdir()] == ["model.npz"]
    assert evaluate(*read, *make_batch()) == evaluate(params, stats, *make_batch())


@pytest.mark.parametrize("keep", [0, 0.01, 0.5, 0.99])
def test_cut_short(saved, keep):
    path = saved[0]
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole))])
    with pytest.raises(BadModel, match="model.npz: not a model of this course, or cut short"):
        load_model(path)


def test_flipped_bytes_are_noticed(saved):
    path = saved[0]
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 255
    path.write_bytes(whole)
    with pytest.raises(BadModel):
        load_model(path)


def test_damage_anywhere_is_noticed_or_does_no_harm(saved):
    path, params, stats = saved
    whole, rng = path.read_bytes(), random.Random(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(rng.choice([1, 3, 20])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            read = load_model(path)
        except BadModel as error:
            refused += 1
            assert "\n" not in str(error)
        else:  # a date in the archive's directory, say
            assert all(torch.equal(a, b) for a, b in zip((*params, *stats), (*read[0], *read[1])))
    assert refused > 200


def test_other_files(tmp_path, saved):
    path, params, stats = saved
    with pytest.raises(BadModel, match="cannot be read"):
        load_model(tmp_path / "missing.npz")
    with pytest.raises(BadModel, match="cannot be read"):
        load_model(tmp_path)
    np.savez(tmp_path / "other.npz", a=1)
    with pytest.raises(BadModel, match="other.npz: not a model of this course"):
        load_model(tmp_path / "other.npz")
    np.savez(tmp_path / "object.npz", **{name: np.array([{}]) for name in ("C", "W1")})
    with pytest.raises(BadModel):
        load_model(tmp_path / "object.npz")
    np.save(tmp_path / "single.npy", np.zeros(3))
    with pytest.raises(BadModel):
        load_model(tmp_path / "single.npy")


def written(path, params, stats):
    """The same file as `save` writes, whatever is in it."""
    arrays = {name: t.detach().numpy() for name, t in params._asdict().items()}
    np.savez(path, **arrays, running_mean=stats.mean, running_var=stats.var)


def test_wrong_contents(saved):
    path, params, stats = saved
    written(path, params._replace(W1=params.W1.T), stats)
    with pytest.raises(BadModel, match=r"W1 has shape \(6, 30\) where \(30, 6\) is expected"):
        load_model(path)
    written(path, params._replace(C=params.C * float("nan")), stats)
    with pytest.raises(BadModel, match="C holds nan or inf"):
        load_model(path)
    written(path, params._replace(b2=params.b2.double()), stats)
    with pytest.raises(BadModel, match="b2 holds float64"):
        load_model(path)
    written(path, params._replace(b1=torch.tensor(1.0)), stats)
    with pytest.raises(BadModel, match="W1 has shape"):
        load_model(path)


def test_a_failed_save_leaves_the_old_file_whole(saved, monkeypatch):
    path, params, stats = saved
    before = path.read_bytes()

    def disk_full(file, **arrays):
        file.write(b"PK half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", disk_full)
    with pytest.raises(OSError, match="No space left"):
        save(path, params, stats)
    assert path.read_bytes() == before and [p.name for p in path.parent.iterdir()] == ["model.npz"]


def test_the_file_has_the_rights_that_open_gives_and_keeps_those_it_has(saved):
    path, params, stats = saved
    before = os.umask(0o027)
    try:
        path.unlink()
        save(path, params, stats)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        save(path, params, stats)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(before)


def test_a_variance_is_not_negative(saved):
    path, params, stats = saved
    written(path, params, stats._replace(var=torch.tensor([[1.0, 1, 1, -1e-6, 1, 1]])))
    with pytest.raises(BadModel, match="running_var holds negative numbers"):
        load_model(path)


def npy(header):
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


BOMB = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 10)}\n"


@pytest.mark.parametrize(
    "content, how",
    [
        (npy(BOMB), zipfile.ZIP_STORED),
        (npy(BOMB) + bytes(20_000_000), zipfile.ZIP_DEFLATED),
        (npy(BOMB) + bytes(20_000_000), zipfile.ZIP_BZIP2),
        (npy(b"{'descr': ("), zipfile.ZIP_STORED),
        (npy(b'{"descr": """ '), zipfile.ZIP_STORED),
        (npy(b"(" * 9000), zipfile.ZIP_STORED),
        (npy(b"-" * 9000 + b"1"), zipfile.ZIP_STORED),
        (npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n") + bytes(8), zipfile.ZIP_STORED),
    ],
    ids=["terabytes", "deflated", "bzip2", "syntax", "token", "nested", "signs", "objects"],
)
def test_what_a_header_claims_is_not_believed(tmp_path, content, how):
    path = tmp_path / "model.npz"
    with zipfile.ZipFile(path, "w", how) as archive:
        archive.writestr("C.npy", content)
    tracemalloc.start()
    try:
        with pytest.raises(BadModel, match="not a model of this course, or cut short"):
            load_model(path)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_a_size_that_only_the_directory_claims(saved):
    path = saved[0]
    whole = bytearray(path.read_bytes())
    entry = whole.index(b"PK\x01\x02")
    whole[entry + 20 : entry + 28] = (2**31).to_bytes(4, "little") * 2  # both sizes
    path.write_bytes(whole)
    tracemalloc.start()
    try:
        with pytest.raises(BadModel):
            load_model(path)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_cut_spliced_and_overwritten_where_it_hurts(saved):
    """As above, but mostly in the archive's and the arrays' headers, and with pieces lost or added."""
    path, params, stats = saved
    whole, rng = path.read_bytes(), random.Random(0)
    headers = [i for i in range(len(whole)) if whole.startswith((b"PK", b"\x93NUMPY"), i)]
    for _ in range(500):
        damaged = bytearray(whole)
        at = rng.choice(headers) + rng.randrange(120)
        piece = rng.choice([b"", rng.randbytes(rng.randrange(1, 50)), b"\xff" * 8, bytes(8)])
        damaged[at : at + rng.choice([0, len(piece), rng.randrange(50)])] = piece
        path.write_bytes(damaged)
        try:
            read = load_model(path)
        except BadModel as error:
            assert "\n" not in str(error)
        else:
            assert all(torch.equal(a, b) for a, b in zip((*params, *stats), (*read[0], *read[1])))
