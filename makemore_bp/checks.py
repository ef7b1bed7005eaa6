"""Arguments that cannot be used: what is wrong, in one sentence, before anything is computed.

For the functions that readers call. The 26 in backward.py do without: they are what the course derives.
Each raises TypeError for another kind of thing, and ValueError for a value or a shape that does not fit.
"""

import math
import os
import re
from functools import cache

import torch

FLOATS = (torch.float32, torch.float64)
# V letters, E numbers for each, D = context * E inputs, H hidden units
PARAMETERS = {
    "C": ("V", "E"),
    "W1": ("D", "H"),
    "b1": ("H",),
    "W2": ("H", "V"),
    "b2": ("V",),
    "bngain": (1, "H"),
    "bnbias": (1, "H"),
}
ATOMIC = "Xb Yb n eps C W1 W2 bngain emb embcat bndiff bndiff2 bnvar bnvar_inv bnraw h logits counts counts_sum counts_sum_inv probs logprobs".split()
MERGED = "Xb Yb C W1 W2 bngain emb embcat bnvar_inv bnraw h logits".split()
ONE_ROW = "BatchNorm divides by n - 1 and needs n of at least 2 (a single row has no variance)."
STATS = {"mean": (1, "H"), "var": (1, "H")}


def a(word):
    return f"an {word}" if word[:1] in tuple("aeiou") else f"a {word}"


def shown(value):
    """The value itself where it fits into a sentence, else its type."""
    text = repr(value)
    return text if len(text) <= 60 and text.isprintable() else a(type(value).__name__)


def kind(name, value, wanted, types):
    if not isinstance(value, types):
        raise TypeError(f"{name} is to be {wanted}, and is of type {type(value).__name__}.")


def whole(name, value, least):
    if not isinstance(value, int) or not least <= value < 2**63:
        raise ValueError(f"{name} is to be an int from {least} to 2**63 - 1, not {shown(value)}.")


def number(name, value, least, above=False):
    """A finite number of at least `least` (above: of more)."""
    kind(name, value, "a number", (int, float))
    if not math.isfinite(value) or value < least or (above and value == least):
        raise ValueError(
            f"{name} is to be a number {'above' if above else 'from'} {least}, not {shown(value)}."
        )


def dtype(value):
    if not isinstance(value, torch.dtype) or value not in FLOATS:
        raise ValueError(f"dtype is to be torch.float32 or torch.float64, not {shown(value)}.")


def device(value, dtype):
    """Where a tensor of this dtype can lie (Apple's MPS, for one, has no float64)."""
    try:
        torch.empty(0, device=value, dtype=dtype)
    except Exception as error:  # by the device: RuntimeError, AssertionError, NotImplementedError, TypeError
        why = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ValueError(f"device {shown(value)} cannot be used here: {why}.") from None


def path(value):
    """The path as text; one that no file can have is refused."""
    kind("path", value, "the name of a file", (str, os.PathLike))
    value = os.fspath(value)
    if "\0" in value:
        raise ValueError(f"path is to be the name of a file, and {shown(value)} holds a NUL.")
    return value


def tensor(name, value, shape, dtypes=FLOATS, **sizes):
    """A tensor of one of the dtypes, with numbers in it, of this shape; letters in it are free, or in sizes."""
    kind(name, value, "a tensor", torch.Tensor)
    if value.dtype not in dtypes:
        raise TypeError(f"{name} is to hold {' or '.join(map(str, dtypes))}, and holds {value.dtype}.")
    if value.is_nested or value.layout != torch.strided or value.device.type == "meta":
        what = "nested" if value.is_nested else "on meta" if value.device.type == "meta" else value.layout
        raise TypeError(f"{name} is to be an ordinary tensor with numbers in it, and is {what}.")
    wanted = tuple([sizes.get(size, size) for size in shape])
    found = value.shape
    if len(found) != len(wanted) or any(
        [size != length for size, length in zip(wanted, found) if size.__class__ is int]
    ):
        wanted = f"({', '.join(map(str, wanted))}{',' * (len(wanted) == 1)})"
        raise ValueError(f"{name} has shape {tuple(found)} and should be {wanted}.")


def alike(first, second, a, b):
    """Two tensors, named first and second, on one device and, if they hold floats, of one dtype."""
    if a.device != b.device:
        raise ValueError(
            f"{second} lies on {b.device} and {first} on {a.device}; they have to lie on one device."
        )
    if a.dtype != b.dtype and a.is_floating_point() and b.is_floating_point():
        raise ValueError(f"{second} holds {b.dtype} and {first} {a.dtype}; they have to hold the same.")


def params(value):
    """A Params, of any sizes; returns these, by their letters."""
    if getattr(value, "_fields", None) != tuple(PARAMETERS):
        pair = isinstance(value, tuple) and len(value) == 2
        why = " (draw() returns two things: params, g = draw())" if pair else ""
        raise TypeError(
            f"params is to be a Params, as from draw(), and is of type {type(value).__name__}{why}."
        )
    C, W1 = value.C, value.W1
    for name, p in (("C", C), ("W1", W1)):
        if not isinstance(p, torch.Tensor) or p.dim() != 2 or not p.numel():
            tensor(name, p, PARAMETERS[name])
            raise ValueError(f"{name} is empty.")
    sizes = dict(zip("VEDH", (*C.shape, *W1.shape)))
    # each step of a training comes by here, and nearly always all is right: a quick look first
    shapes, same = parameter_shapes(**sizes), (C.dtype, C.device, torch.strided)
    if C.dtype not in FLOATS or not all(
        [
            isinstance(p, torch.Tensor) and p.shape == shapes[name] and (p.dtype, p.device, p.layout) == same
            for name, p in zip(shapes, value)
        ]
    ):
        for name, p in zip(PARAMETERS, value):
            tensor(name, p, PARAMETERS[name], **sizes)
            alike("C", name, C, p)
    return sizes


@cache
def parameter_shapes(V, E, D, H):
    """By name, the seven shapes that go together."""
    sizes = {"V": V, "E": E, "D": D, "H": H}
    return {name: tuple(sizes.get(size, size) for size in shape) for name, shape in PARAMETERS.items()}


def stats(value, params, H):
    if getattr(value, "_fields", None) != tuple(STATS):
        raise TypeError(
            f"stats is to be a Stats, as from calibrate(), and is of type {type(value).__name__}."
        )
    for name, t in zip(STATS, value):
        tensor(name, t, STATS[name], H=H)
        alike("C", name, params.C, t)


def letters(name, value, shape, C, what="letters", **sizes):
    """Indices into the rows of C."""
    tensor(name, value, shape, (torch.int64,), **sizes)
    alike("C", name, C, value)
    if not value.numel():
        raise ValueError(f"{name} is empty.")
    least, most = [end.item() for end in value.aminmax()]
    if least < 0 or most >= len(C):
        wrong = least if least < 0 else most
        raise ValueError(f"{name} holds {wrong}, and {what} are numbered from 0 to {len(C) - 1}.")


def batch(p, X, Y=None, eps=0, names=("Xb", "Yb"), least=1):
    """Params, the examples they are to read, X (n, context) and, if given, Y (n,), and BatchNorm's epsilon."""
    sizes = params(p)
    context, left = divmod(sizes["D"], sizes["E"])
    if left:
        raise ValueError(f"W1 has {sizes['D']} rows, which is no multiple of C's {sizes['E']} columns.")
    letters(names[0], X, ("n", context), p.C)
    if Y is not None:
        letters(names[1], Y, ("n",), p.C, n=len(X))
    if len(X) < least:
        raise ValueError(f"a batch of {len(X)}: {ONE_ROW}")
    number("eps", eps, 0)
    return sizes


def evaluation(p, s, X, Y=None, eps=0):
    stats(s, p, batch(p, X, Y, eps, names="XY")["H"])


def examples(X, Y, g, n):
    """What a minibatch of n is drawn from, and by which generator."""
    kind("X", X, "a tensor", torch.Tensor)
    kind("Y", Y, "a tensor", torch.Tensor)
    if not X.dim() or X.shape[:1] != Y.shape:
        raise ValueError(
            f"X has shape {tuple(X.shape)} and Y {tuple(Y.shape)}; they should be (N, 3) and (N,)."
        )
    if not len(X):
        raise ValueError("X is empty.")
    kind("g", g, "the generator that draw() returned", torch.Generator)
    whole("n", n, 1)


def names(value):
    kind("names", value, "a list of names", (list, tuple))
    if not value:
        raise ValueError("names is empty.")
    for name in value:
        kind("a name", name, "text", str)
        if not re.fullmatch("[a-z]+", name):
            raise ValueError(f"a name is to hold letters a-z, in lower case, and is {name[:40]!r}.")


def targets(logits, Yb):
    tensor("logits", logits, ("n", "V"))
    if not logits.numel():
        raise ValueError("logits is empty.")
    letters("Yb", Yb, ("n",), logits.T, "classes", n=len(logits))


def batchnorm(dhpreact, bnraw, bngain, bnvar_inv, divisor):
    tensor("dhpreact", dhpreact, ("n", "H"))
    n, H = dhpreact.shape
    tensor("bnraw", bnraw, ("n", "H"), n=n, H=H)
    alike("dhpreact", "bnraw", dhpreact, bnraw)
    for name, row in (("bngain", bngain), ("bnvar_inv", bnvar_inv)):
        tensor(name, row, ("H",) if getattr(row, "shape", ()) == (H,) else (1, "H"), H=H)
        alike("dhpreact", name, dhpreact, row)
    if n < 2:
        raise ValueError(f"a batch of {n}: {ONE_ROW}")
    if divisor is not None:
        number("divisor", divisor, 0, above=True)


def has(v, names, wanted):
    """A forward pass with all the values that are read of it."""
    for name in names:
        if not hasattr(v, name):
            raise TypeError(f"v is to be {wanted}, and has no {name}.")
