"""What cannot be used is refused in one sentence, before anything is computed: the table, and what it left out."""

import math
import re

import numpy as np
import pytest
import torch
from conftest import make_batch, make_params, make_pass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from makemore_bp import backward, checks, data, draw, forward, lecture, load, store, train, train_numpy, trial
from makemore_bp.compare import Compare
from makemore_bp.loop import StepCheck
from makemore_bp.model import (
    Params,
    Stats,
    calibrate,
    evaluate,
    forward_merged,
    logits_eval,
    minibatch,
    sample,
)

P, (XB, YB) = make_params(6), make_batch(5)
STATS = Stats(torch.zeros((1, 6), dtype=torch.float64), torch.ones((1, 6), dtype=torch.float64))
G = torch.Generator().manual_seed(0)
V = make_pass(5, 6)
MERGED = forward_merged(P, XB, YB)
DATA = data.Data(
    *[t for _ in range(3) for t in data.build_dataset(["emma", "ava"])], names=(["emma", "ava"],) * 3
)
NAN = float("nan")


def with_(**changed):
    return P._replace(**changed)


def bn(**changed):
    given = dict(dhpreact=V.hpreact.grad, bnraw=V.bnraw, bngain=V.bngain, bnvar_inv=V.bnvar_inv)
    return backward.bn_backward(**{**given, **changed})


def one_step(parameters=P, X=XB, Y=YB, grads=(), lr=0.1):
    check = StepCheck(parameters)
    check.begin(X, Y)
    check.end(grads, lr)


ONE_ROW = "BatchNorm divides by n - 1 and needs n of at least 2 (a single row has no variance)."
WHOLE = "{} is to be an int from {} to 2**63 - 1, not {}."
TENSOR = "{} is to be a tensor, and is of type {}."
HOLDS = "{} is to hold {}, and holds {}."
FLOATS = "torch.float32 or torch.float64"
SHAPE = "{} has shape {} and should be {}."
PARAMS = "params is to be a Params, as from draw(), and is of type {}."
DATASET = "data is to be what load() returns, and is of type {}."

# what is called, and the whole of what it says
TABLE = {
    # draw
    "draw: no unit": (lambda: draw(0), ValueError, WHOLE.format("hidden", 1, 0)),
    "draw: a size in words": (lambda: draw("64"), ValueError, WHOLE.format("hidden", 1, "'64'")),
    "draw: nan units": (lambda: draw(NAN), ValueError, WHOLE.format("hidden", 1, "nan")),
    "draw: negative seed": (lambda: draw(seed=-1), ValueError, WHOLE.format("seed", 0, -1)),
    "draw: huge seed": (lambda: draw(seed=2**63), ValueError, WHOLE.format("seed", 0, 2**63)),
    "draw: half precision": (
        lambda: draw(dtype=torch.float16),
        ValueError,
        "dtype is to be torch.float32 or torch.float64, not torch.float16.",
    ),
    # minibatch
    "minibatch: lists": (lambda: minibatch([[1]], [1], G), TypeError, TENSOR.format("X", "list")),
    "minibatch: no target": (lambda: minibatch(XB, None, G), TypeError, TENSOR.format("Y", "NoneType")),
    "minibatch: unequal": (
        lambda: minibatch(XB, YB[:4], G),
        ValueError,
        "X has shape (5, 3) and Y (4,); they should be (N, 3) and (N,).",
    ),
    "minibatch: empty": (lambda: minibatch(XB[:0], YB[:0], G), ValueError, "X is empty."),
    "minibatch: no row": (lambda: minibatch(XB, YB, G, 0), ValueError, WHOLE.format("n", 1, 0)),
    "minibatch: half a row": (lambda: minibatch(XB, YB, G, 1.5), ValueError, WHOLE.format("n", 1, 1.5)),
    "minibatch: a seed": (
        lambda: minibatch(XB, YB, 42),
        TypeError,
        "g is to be the generator that draw() returned, and is of type int.",
    ),
    # forward; forward_merged has the same checks
    "forward: what draw returns": (
        lambda: forward(draw(6), XB, YB),
        TypeError,
        PARAMS.format("tuple (draw() returns two things: params, g = draw())"),
    ),
    "forward: a list": (lambda: forward(list(P), XB, YB), TypeError, PARAMS.format("list")),
    "forward: nothing": (lambda: forward(None, XB, YB), TypeError, PARAMS.format("NoneType")),
    "forward: no numbers": (
        lambda: forward(with_(b1=None), XB, YB),
        TypeError,
        TENSOR.format("b1", "NoneType"),
    ),
    "forward: an array": (
        lambda: forward(with_(C=np.ones((27, 10))), XB, YB),
        TypeError,
        TENSOR.format("C", "ndarray"),
    ),
    "forward: transposed": (
        lambda: forward(with_(W1=P.W1.T), XB, YB),
        ValueError,
        SHAPE.format("b1", "(6,)", "(30,)"),
    ),
    "forward: a row lost": (
        lambda: forward(with_(W1=P.W1[:29]), XB, YB),
        ValueError,
        "W1 has 29 rows, which is no multiple of C's 10 columns.",
    ),
    "forward: another context": (
        lambda: forward(with_(W1=P.W1[:20]), XB, YB),
        ValueError,
        SHAPE.format("Xb", "(5, 3)", "(n, 2)"),
    ),
    "forward: an axis lost": (
        lambda: forward(with_(bngain=P.bngain[0]), XB, YB),
        ValueError,
        SHAPE.format("bngain", "(6,)", "(1, 6)"),
    ),
    "forward: a bias that broadcasts": (
        lambda: forward(with_(b2=P.b2[:1]), XB, YB),
        ValueError,
        SHAPE.format("b2", "(1,)", "(27,)"),
    ),
    "forward: a table of one axis": (
        lambda: forward(with_(C=P.C[0]), XB, YB),
        ValueError,
        SHAPE.format("C", "(10,)", "(V, E)"),
    ),
    "forward: no letter": (lambda: forward(with_(C=P.C[:0]), XB, YB), ValueError, "C is empty."),
    "forward: two dtypes": (
        lambda: forward(with_(W2=P.W2.float()), XB, YB),
        ValueError,
        "W2 holds torch.float32 and C torch.float64; they have to hold the same.",
    ),
    "forward: half precision": (
        lambda: forward(Params(*(p.half() for p in P)), XB, YB),
        TypeError,
        HOLDS.format("C", FLOATS, "torch.float16"),
    ),
    "forward: two devices": (
        lambda: forward(with_(b1=P.b1.to("meta")), XB, YB),
        TypeError,
        "b1 is to be an ordinary tensor with numbers in it, and is on meta.",
    ),
    "forward: sparse": (
        lambda: forward(with_(C=P.C.detach().to_sparse()), XB, YB),
        TypeError,
        "C is to be an ordinary tensor with numbers in it, and is torch.sparse_coo.",
    ),
    "forward: letters in a list": (
        lambda: forward(P, XB.tolist(), YB),
        TypeError,
        TENSOR.format("Xb", "list"),
    ),
    "forward: letters as floats": (
        lambda: forward(P, XB.float(), YB),
        TypeError,
        HOLDS.format("Xb", "torch.int64", "torch.float32"),
    ),
    "forward: targets as bytes": (
        lambda: forward(P, XB, YB.byte()),
        TypeError,
        HOLDS.format("Yb", "torch.int64", "torch.uint8"),
    ),
    "forward: swapped": (lambda: forward(P, YB, XB), ValueError, SHAPE.format("Xb", "(5,)", "(n, 3)")),
    "forward: one target": (
        lambda: forward(P, XB, YB[:1]),
        ValueError,
        SHAPE.format("Yb", "(1,)", "(5,)"),
    ),
    "forward: a column of targets": (
        lambda: forward(P, XB, YB[:, None]),
        ValueError,
        SHAPE.format("Yb", "(5, 1)", "(5,)"),
    ),
    "forward: letter 27": (
        lambda: forward(P, XB + 27, YB),
        ValueError,
        f"Xb holds {XB.max() + 27}, and letters are numbered from 0 to 26.",
    ),
    "forward: letter -1": (
        lambda: forward(P, XB, YB - 27),
        ValueError,
        f"Yb holds {YB.min() - 27}, and letters are numbered from 0 to 26.",
    ),
    "forward: empty": (lambda: forward(P, XB[:0], YB[:0]), ValueError, "Xb is empty."),
    "forward: one row": (
        lambda: forward(P, XB[:1], YB[:1]),
        ValueError,
        "a batch of 1: " + ONE_ROW,
    ),
    "forward: negative eps": (
        lambda: forward(P, XB, YB, -1e-5),
        ValueError,
        "eps is to be a number from 0, not -1e-05.",
    ),
    "forward: eps nan": (
        lambda: forward(P, XB, YB, NAN),
        ValueError,
        "eps is to be a number from 0, not nan.",
    ),
    "forward: eps in words": (
        lambda: forward(P, XB, YB, "1e-5"),
        TypeError,
        "eps is to be a number, and is of type str.",
    ),
    "forward: an activation's name": (
        lambda: forward(P, XB, YB, activation="tanh"),
        TypeError,
        "activation is to be a function of hpreact, and is of type str.",
    ),
    "forward_merged: one row": (
        lambda: forward_merged(P, XB[:1], YB[:1]),
        ValueError,
        "a batch of 1: " + ONE_ROW,
    ),
    "forward_merged: letter -1": (
        lambda: forward_merged(P, XB - 27, YB),
        ValueError,
        f"Xb holds {XB.min() - 27}, and letters are numbered from 0 to 26.",
    ),
    # backward
    "backward_all: parameters": (
        lambda: backward.backward_all(P),
        TypeError,
        "v is to be what forward() returns, and has no Xb.",
    ),
    "backward_all: a merged pass": (
        lambda: backward.backward_all(MERGED),
        TypeError,
        "v is to be what forward() returns, and has no bndiff.",
    ),
    "backward_six: nothing": (
        lambda: backward.backward_six(None),
        TypeError,
        "v is to be what forward_merged() returns, and has no Xb.",
    ),
    "cross_entropy_backward: a list": (
        lambda: backward.cross_entropy_backward([[1.0]], YB),
        TypeError,
        TENSOR.format("logits", "list"),
    ),
    "cross_entropy_backward: one target": (
        lambda: backward.cross_entropy_backward(V.logits, YB[:1]),
        ValueError,
        SHAPE.format("Yb", "(1,)", "(5,)"),
    ),
    "cross_entropy_backward: a column": (
        lambda: backward.cross_entropy_backward(V.logits, YB[:, None]),
        ValueError,
        SHAPE.format("Yb", "(5, 1)", "(5,)"),
    ),
    "cross_entropy_backward: empty": (
        lambda: backward.cross_entropy_backward(V.logits[:0], YB[:0]),
        ValueError,
        "logits is empty.",
    ),
    "cross_entropy_backward: class 27": (
        lambda: backward.cross_entropy_backward(V.logits, YB * 0 + 27),
        ValueError,
        "Yb holds 27, and classes are numbered from 0 to 26.",
    ),
    "bn_backward: one row": (
        lambda: bn(dhpreact=V.hpreact.grad[:1], bnraw=V.bnraw[:1]),
        ValueError,
        "a batch of 1: " + ONE_ROW,
    ),
    "bn_backward: unequal": (
        lambda: bn(bnraw=V.bnraw[:4]),
        ValueError,
        SHAPE.format("bnraw", "(4, 6)", "(5, 6)"),
    ),
    "bn_backward: a gain a row": (
        lambda: bn(bngain=V.bnraw),
        ValueError,
        SHAPE.format("bngain", "(5, 6)", "(1, 6)"),
    ),
    "bn_backward: two dtypes": (
        lambda: bn(bnraw=V.bnraw.float()),
        ValueError,
        "bnraw holds torch.float32 and dhpreact torch.float64; they have to hold the same.",
    ),
    "bn_backward: divisor 0": (
        lambda: bn(divisor=0),
        ValueError,
        "divisor is to be a number above 0, not 0.",
    ),
    "bn_backward: divisor in words": (
        lambda: bn(divisor="n"),
        TypeError,
        "divisor is to be a number, and is of type str.",
    ),
    # evaluation
    "logits_eval: no statistics": (
        lambda: logits_eval(P, None, XB),
        TypeError,
        "stats is to be a Stats, as from calibrate(), and is of type NoneType.",
    ),
    "logits_eval: of another size": (
        lambda: logits_eval(P, Stats(*(s[:, :5] for s in STATS)), XB),
        ValueError,
        SHAPE.format("mean", "(1, 5)", "(1, 6)"),
    ),
    "evaluate: empty": (lambda: evaluate(P, STATS, XB[:0], YB[:0]), ValueError, "X is empty."),
    "evaluate: unequal": (
        lambda: evaluate(P, STATS, XB, YB[:3]),
        ValueError,
        SHAPE.format("Y", "(3,)", "(5,)"),
    ),
    "evaluate: chunk 0": (lambda: evaluate(P, STATS, XB, YB, 0), ValueError, WHOLE.format("chunk", 1, 0)),
    "calibrate: one row": (lambda: calibrate(P, XB[:1]), ValueError, "a batch of 1: " + ONE_ROW),
    "calibrate: a whole Data": (lambda: calibrate(P, DATA), TypeError, TENSOR.format("X", "Data")),
    "sample: half a name": (lambda: sample(P, STATS, 0.5), ValueError, WHOLE.format("count", 0, 0.5)),
    "sample: negative seed": (lambda: sample(P, STATS, 1, -1), ValueError, WHOLE.format("seed", 0, -1)),
    "sample: no statistics": (
        lambda: sample(P, None, 1),
        TypeError,
        "stats is to be a Stats, as from calibrate(), and is of type NoneType.",
    ),
    # names
    "build_dataset: a string": (
        lambda: data.build_dataset("emma"),
        TypeError,
        "names is to be a list of names, and is of type str.",
    ),
    "build_dataset: empty": (lambda: data.build_dataset([]), ValueError, "names is empty."),
    "build_dataset: numbers": (
        lambda: data.build_dataset([3]),
        TypeError,
        "a name is to be text, and is of type int.",
    ),
    "build_dataset: a capital": (
        lambda: data.build_dataset(["Emma"]),
        ValueError,
        "a name is to hold letters a-z, in lower case, and is 'Emma'.",
    ),
    "load: a number": (lambda: load(3), TypeError, "path is to be the name of a file, and is of type int."),
    "load: a NUL": (
        lambda: load("a\0b"),
        ValueError,
        "path is to be the name of a file, and 'a\\x00b' holds a NUL.",
    ),
    "load_model: a number": (
        lambda: store.load_model(3),
        TypeError,
        "path is to be the name of a file, and is of type int.",
    ),
    "save: a pair": (
        lambda: store.save("unused.npz", (1, 2), STATS),
        TypeError,
        PARAMS.format("tuple (draw() returns two things: params, g = draw())"),
    ),
    "save: no statistics": (
        lambda: store.save("unused.npz", P, None),
        TypeError,
        "stats is to be a Stats, as from calibrate(), and is of type NoneType.",
    ),
    "fetch: no time": (
        lambda: lecture.fetch(timeout=0),
        ValueError,
        "timeout is to be a number above 0, not 0.",
    ),
    "fetch: no address": (
        lambda: lecture.fetch(None),
        TypeError,
        "url is to be an address, and is of type NoneType.",
    ),
    # training: more of it in test_train.py
    "train: a list": (lambda: train.train([1]), TypeError, DATASET.format("list")),
    "train: no step": (lambda: train.train(DATA, steps=0), ValueError, WHOLE.format("steps", 1, 0)),
    "train: one row": (lambda: train.train(DATA, batch=1), ValueError, WHOLE.format("batch", 2, 1)),
    "train: by magic": (
        lambda: train.train(DATA, by="magic"),
        ValueError,
        "by is to be 'hand' or 'backward', not 'magic'; NumPy has train_numpy.train.",
    ),
    "train_numpy: negative steps": (
        lambda: train_numpy.train(DATA, steps=-1),
        ValueError,
        WHOLE.format("steps", 1, -1),
    ),
    "run_trials: a name": (
        lambda: trial.run_trials(DATA, "right"),
        TypeError,
        "cases is to be a list of pairs (name, seed), and is of type str.",
    ),
    "run_trials: no seed": (
        lambda: trial.run_trials(DATA, ["right"]),
        TypeError,
        "a case is to be a pair (name, seed), not 'right'.",
    ),
    "run_trials: a seed in words": (
        lambda: trial.run_trials(DATA, [("right", "1")]),
        ValueError,
        WHOLE.format("seed", 0, "'1'"),
    ),
    "run_trials: no process": (
        lambda: trial.run_trials(DATA, [("right", 1)], processes=0),
        ValueError,
        WHOLE.format("processes", 1, 0),
    ),
    # StepCheck and cmp's two that raise
    "StepCheck: one tensor": (
        lambda: StepCheck(P.C),
        TypeError,
        "parameters is to be a list of tensors, a Params or a dict, and is of type Tensor.",
    ),
    "StepCheck: numbers": (
        lambda: StepCheck([1.0] * 7),
        TypeError,
        "the parameter C is to be a tensor, and is of type float.",
    ),
    "StepCheck: letters in a list": (
        lambda: one_step(X=XB.tolist()),
        TypeError,
        TENSOR.format("Xb", "list"),
    ),
    "StepCheck: no rate": (
        lambda: one_step(grads=list(P), lr=None),
        TypeError,
        "lr is to be a number, and is of type NoneType.",
    ),
    "StepCheck: no gradients": (
        lambda: one_step(grads=None),
        TypeError,
        "grads is to be a list of gradients, a Params or a dict, and is of type NoneType.",
    ),
    "watch: a number": (
        lambda: Compare().watch(3),
        TypeError,
        "cmp.watch takes a forward pass or globals(), not an int.",
    ),
    "given: nothing watched": (
        lambda: Compare().given("counts"),
        KeyError,
        "\"no value named 'counts' is being watched by cmp.watch; hand the pass over with cmp.watch(v).\"",
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_bad_input_gets_one_sentence(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, error, sentence = TABLE[case]
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence and caught.type is error
    assert not list(tmp_path.iterdir())


def test_a_device_that_is_not_there():
    for device in ("cuda:77", "no such device", 3.5):
        with pytest.raises(ValueError, match=re.escape(f"device {device!r} cannot be used here: ")) as caught:
            draw(device=device)
        assert len(str(caught.value).splitlines()) == 1


def test_the_checks_know_the_parameters():
    assert tuple(checks.PARAMETERS) == Params._fields and tuple(checks.STATS) == Stats._fields
    shapes = checks.parameter_shapes(27, 10, 30, 64)
    assert shapes == {name: p.shape for name, p in draw(64)[0]._asdict().items()}


@pytest.mark.parametrize(
    "function, v, names",
    [(backward.backward_all, V, checks.ATOMIC), (backward.backward_six, MERGED, checks.MERGED)],
)
def test_what_a_pass_must_have_is_what_is_read_of_it(function, v, names, monkeypatch):
    read = set()

    class Noted:
        def __getattr__(self, name):
            read.add(name)
            return getattr(v, name)

    monkeypatch.setattr(checks, "has", lambda *arguments: None)
    function(Noted())
    assert sorted(read) == sorted(names)


# --- what the table did not think of

odd = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1,
        2**70,
        1.5,
        NAN,
        math.inf,
        "",
        "emma",
        b"x",
        [],
        [1, 2],
        {},
        (1, 2),
        object(),
        np.ones(3),
        print,
    ]
)
tensors = st.sampled_from(
    [
        torch.ones(()),
        torch.ones(3),
        torch.ones(0, 3),
        torch.ones(2, 3, 4),
        torch.ones(5, 6),
        torch.ones(5, 3, dtype=torch.int64),
        torch.full((5, 3), -1),
        torch.full((5,), 2**40),
        torch.full((5, 6), NAN),
        torch.ones(5, dtype=torch.bool),
        torch.ones(5, 6, dtype=torch.complex64),
        torch.ones(5, 6, device="meta"),
        torch.eye(6).to_sparse(),
    ]
)
things = st.one_of(odd, tensors, st.just(P), st.just(STATS), st.just(V), st.just(DATA))
GOOD = {
    draw: dict(hidden=3, seed=1, dtype=torch.float32, device="cpu"),
    minibatch: dict(X=XB, Y=YB, g=G, n=4),
    forward: dict(params=P, Xb=XB, Yb=YB, eps=1e-5, activation=torch.tanh),
    forward_merged: dict(params=P, Xb=XB, Yb=YB, eps=1e-5),
    logits_eval: dict(params=P, stats=STATS, X=XB, eps=1e-5),
    evaluate: dict(params=P, stats=STATS, X=XB, Y=YB, chunk=2),
    calibrate: dict(params=P, X=XB),
    sample: dict(params=P, stats=STATS, count=1, seed=1),
    backward.backward_all: dict(v=V),
    backward.backward_six: dict(v=MERGED),
    backward.cross_entropy_backward: dict(logits=V.logits, Yb=YB),
    bn: dict(dhpreact=V.h, bnraw=V.bnraw, bngain=V.bngain, bnvar_inv=V.bnvar_inv, divisor=4),
    data.build_dataset: dict(names=["emma"]),
    data.load: dict(path="no such file"),
    store.load_model: dict(path="no such file"),
    train.train: dict(
        data=DATA, by="hand", steps=1, seed=1, hidden=3, batch=4, dtype=torch.float32, progress=False
    ),
    train_numpy.train: dict(
        data=DATA, steps=1, seed=1, hidden=3, batch=4, dtype=torch.float32, progress=False
    ),
    one_step: dict(parameters=P, X=XB, Y=YB, grads=list(P), lr=0.1),
    StepCheck: dict(parameters=list(P), names=list(Params._fields), loss=None),
}


@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_one_wrong_argument_does_no_worse_than_one_sentence(draw_from):
    function = draw_from.draw(st.sampled_from(list(GOOD)), label="function")
    arguments = GOOD[function]
    names = [name for name in arguments if name != "progress"]  # any value is true or false
    name = draw_from.draw(st.sampled_from(names), label="argument")
    value = draw_from.draw(things, label="value")
    try:
        function(**{**arguments, name: value})
    except (TypeError, ValueError) as error:  # BadNames and BadModel are ValueErrors
        said = str(error)
        assert len(said.splitlines()) == 1 and said.endswith("."), said
        # the sentence is the course's own, not one from the depths
        module = error.__traceback__
        while module.tb_next:
            module = module.tb_next
        assert "makemore_bp" in module.tb_frame.f_code.co_filename, said
