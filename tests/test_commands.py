"""python -m makemore_bp train and sample, as they are typed."""

import json

import pytest

from makemore_bp import train, train_numpy
from makemore_bp.__main__ import main

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
