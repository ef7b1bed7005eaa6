"""python -m makemore_bp train and sample, as they are typed."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from makemore_bp import model as the_model
from makemore_bp import train, train_numpy
from makemore_bp.__main__ import main

ROOT = Path(__file__).resolve().parent.parent
NAMES = ["emma", "olivia", "ava", "isabella", "sophia", "mia", "zyx", "noah", "liam", "bob"]


@pytest.fixture
def names(tmp_path):
    file = tmp_path / "names.txt"
    file.write_text("\n".join(NAMES))
    return str(file)


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("by", ["hand", "backward", "numpy"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_json(by, dtype, names, capsys):
    code, out, _ = run(
        capsys, "train", "--by", by, "--steps", 20, "--names", names, "--dtype", dtype, "--json"
    )
    report = json.loads(out)
    assert code == 0 and len(out.splitlines()) == 1
    assert report["parameters"] == 12297 and report["steps"] == 20 and report["finished"] is True
    assert all(1 < report[part] < 6 for part in ("train", "val", "test"))
    assert report["microseconds_per_step"] == pytest.approx(report["seconds"] / 20 * 1e6)


def test_twins_and_options(names, capsys):
    reports = []
    for by in ("hand", "backward", "numpy"):
        arguments = ("train", "--by", by, "--steps", 300, "--names", names, "--seed", 5, "--hidden", 30)
        reports.append(json.loads(run(capsys, *arguments, "--json")[1]))
    for part in ("train", "val", "test"):
        assert reports[0][part] == pytest.approx(reports[1][part], abs=1e-5)
        assert reports[0][part] == pytest.approx(reports[2][part], abs=1e-5)
    without = json.loads(run(capsys, *arguments, "--no-b1", "--json")[1])
    assert without["parameters"] == reports[0]["parameters"] - 30


def test_readable_and_sampled(names, capsys, tmp_path):
    model = tmp_path / "model.npz"
    code, out, _ = run(capsys, "train", "--steps", 50, "--names", names, "--save", model, "--sample", 3)
    lines = out.splitlines()
    assert code == 0 and lines[0].startswith("train loss ") and f"saved in {model}" in out and len(lines) == 8
    code, out, _ = run(capsys, "sample", model, 4)
    assert code == 0 and len(out.splitlines()) == 4


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--steps", "0"], "a whole number of 1 or more"),
        (["--steps", "-3"], "expected"),
        (["--steps", "1e5"], "a whole number of 1 or more"),
        (["--seed", "x"], "a whole number from 0"),
        (["--by", "magic"], "invalid choice: 'magic'"),
        (["--dtype", "float16"], "invalid choice: 'float16'"),
        (["--hidden", "0"], "a whole number of 1 or more"),
        (["--tempo", "3"], "unrecognized arguments"),
        (["--save", ""], "the name of a file is expected, not ''"),
        (["--save", "."], "the name of a file is expected, not '.'"),
    ],
)
def test_wrong_options_get_one_line(arguments, said, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", *arguments])
    err = capsys.readouterr().err
    assert stop.value.code == 2 and said in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "where, said", [("", "is a folder"), ("no/such/model.npz", "there is no such folder")]
)
def test_where_a_model_cannot_be_saved_is_said_before_training(
    where, said, names, capsys, tmp_path, monkeypatch
):
    monkeypatch.setattr(train, "train", None)  # it is not reached
    code, out, err = run(capsys, "train", "--names", names, "--save", tmp_path / where)
    assert code == 2 and said in err and len(err.splitlines()) == 1 and not out


def test_bad_model_and_bad_names_get_one_line(capsys, tmp_path):
    bad = tmp_path / "bad"
    bad.write_text("emma\n3\n")
    for arguments in (["sample", bad], ["sample", tmp_path / "none"], ["train", "--names", bad]):
        code, out, err = run(capsys, *arguments)
        assert code == 2 and len(err.splitlines()) == 1 and not out


def test_interrupted_training_reports_and_keeps_the_old_model(names, capsys, tmp_path, monkeypatch):
    model = tmp_path / "model.npz"
    run(capsys, "train", "--by", "numpy", "--steps", 5, "--names", names, "--save", model)
    before, original, calls = model.read_bytes(), train_numpy.Step.tanh, iter(range(100))

    def interrupted(step):
        if next(calls) == 7:
            raise KeyboardInterrupt
        original(step)

    monkeypatch.setattr(train_numpy.Step, "tanh", interrupted)
    code, out, _ = run(capsys, "train", "--by", "numpy", "--names", names, "--save", model, "--json")
    report = json.loads(out)
    assert code == 130 and report["finished"] is False and report["steps"] == 7
    assert model.read_bytes() == before
    assert report["saved"] == str(tmp_path / "model.unfinished.npz")
    assert run(capsys, "sample", report["saved"], 1)[0] == 0


def test_interrupted_at_once(names, capsys, monkeypatch):
    def at_once(data, by, **options):
        return train.Run(None, None, [], False, 0.0)

    monkeypatch.setattr(train, "train", at_once)
    code, out, err = run(capsys, "train", "--names", names)
    assert code == 130 and not out and err == "Interrupted; nothing was changed.\n"


def test_divergence_gets_one_line(names, capsys, monkeypatch):
    monkeypatch.setattr(train, "rate", lambda step: float("inf"))
    code, out, err = run(capsys, "train", "--steps", 9, "--names", names)
    assert code == 2 and "at step 1" in err and not out


def test_more_hidden_units_than_memory(names, capsys):
    code, out, err = run(capsys, "train", "--hidden", 10**13, "--steps", 2, "--names", names)
    assert code == 2 and err == "There is not enough memory for so many hidden units.\n" and not out


# --- where a model is saved, and where not


@pytest.fixture
def untrained(monkeypatch):
    """Training is not to be reached."""
    monkeypatch.setattr(train, "train", None)


def refused(capsys, names, path):
    code, out, err = run(capsys, "train", "--names", names, "--save", path)
    assert code == 2 and not out and len(err.splitlines()) == 1 and "Errno" not in err
    return err


def test_no_model_is_saved_in_place_of_a_device_or_a_pipe(untrained, names, capsys, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "model.unfinished.npz").symlink_to("fifo")
    (tmp_path / "circle").symlink_to("circle")
    for path in (os.devnull, tmp_path / "fifo", tmp_path / "model.npz", tmp_path / "circle"):
        assert "is no regular file" in refused(capsys, names, path)
    assert (tmp_path / "fifo").is_fifo() and (tmp_path / "circle").is_symlink()


def test_a_name_too_long_is_said_before_training(untrained, names, capsys, tmp_path):
    for letters in (246, 300):  # with what is added while it is written; as it is
        assert "too long" in refused(capsys, names, tmp_path / ("x" * letters + ".npz"))
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder that takes no files, not even root's")
def test_a_folder_that_takes_no_files_is_said_before_training(untrained, names, capsys):
    assert "cannot be saved" in refused(capsys, names, "/proc/model.npz")


def test_a_link_stays_and_what_it_leads_to_is_written(names, capsys, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "model.npz").symlink_to("models/today.npz")  # it does not exist yet
    for _ in range(2):
        assert run(capsys, "train", "--steps", 2, "--names", names, "--save", tmp_path / "model.npz")[0] == 0
        assert (tmp_path / "model.npz").is_symlink()
        assert [p.name for p in (tmp_path / "models").iterdir()] == ["today.npz"]


def test_the_figures_are_told_though_the_folder_is_gone(names, capsys, tmp_path, monkeypatch):
    folder, original = tmp_path / "folder", train.train
    folder.mkdir()

    def then_remove(*arguments, **options):
        shutil.rmtree(folder)
        return original(*arguments, **options)

    monkeypatch.setattr(train, "train", then_remove)
    arguments = ("train", "--steps", 2, "--names", names, "--save", folder / "model.npz", "--json")
    code, out, err = run(capsys, *arguments)
    report, sentence = json.loads(out), err.splitlines()[-1]  # after the progress bar
    assert code == 2 and report["train"] > 1 and "saved" not in report
    assert sentence == f"{folder}: there is no such folder to save the model in."


def test_the_figures_are_told_though_the_disk_is_full(names, capsys, tmp_path, monkeypatch):
    def disk_full(file, **arrays):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", disk_full)
    model = tmp_path / "model.npz"
    code, out, err = run(capsys, "train", "--by", "numpy", "--steps", 2, "--names", names, "--save", model)
    assert code == 2 and out.startswith("train loss ") and "saved" not in out
    assert err.splitlines()[-1] == f"{model}: the model cannot be saved (No space left on device)."


# --- interruptions


@pytest.mark.parametrize("during", ["evaluate", "sample"])
@pytest.mark.parametrize("saving", [True, False])
def test_interrupted_after_training(during, saving, names, capsys, tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(the_model, during, interrupted)
    model = tmp_path / "model.npz"
    arguments = ["train", "--by", "numpy", "--steps", 2, "--names", names, "--sample", 2]
    code, out, err = run(capsys, *arguments, *(["--save", model] if saving else []))
    kept = f"the model is saved in {model}" if saving else "no model was saved"
    assert code == 130 and not out and model.exists() == saving
    assert err.splitlines()[-1] == f"Interrupted before the report; {kept}."
    monkeypatch.undo()
    assert not saving or run(capsys, "sample", model, 1)[0] == 0


def test_interrupted_while_pytorch_is_imported(monkeypatch, capsys):
    class Interrupted:
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "makemore_bp.data", Interrupted())
    monkeypatch.delitem(sys.modules, "makemore_bp.__main__")
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("makemore_bp", run_name="__main__")
    assert stop.value.code == 130 and capsys.readouterr().err == "Interrupted; nothing was changed.\n"


# --- where the output goes


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_an_output_that_takes_nothing():
    command = [sys.executable, "-m", "makemore_bp", "names"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    options = dict(cwd=ROOT, env=environment, stderr=subprocess.PIPE, timeout=120)
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, **options)
    assert (done.returncode, done.stderr) == (2, b"No space left on device.\n")
    reader, writer = os.pipe()
    os.close(reader)  # as `head` does once it has enough
    done = subprocess.run(command, stdout=writer, **options)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
