"""A trained model in a file: everything needed to evaluate it, written whole or not at all."""

import os
import tempfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch

from .data import CONTEXT, VOCAB
from .model import EMBEDDING, Params, Stats


class BadModel(ValueError):
    """A file that holds no model of this course; the message names the file and says why."""


FIELDS = [*Params._fields, *(f"running_{name}" for name in Stats._fields)]


def save(path, params, stats):
    """Write params and stats to path (NumPy's npz). An interruption leaves an older file there whole."""
    path = Path(path)
    arrays = dict(zip(FIELDS, (t.detach().cpu().numpy() for t in (*params, *stats)), strict=True))
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def load_model(path):
    """Read what `save` wrote; return (Params, Stats). No code from the file is run. Raises BadModel."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in FIELDS}
    except OSError as error:
        raise BadModel(f"{path}: cannot be read ({error.strerror or error}).") from None
    except KeyError as error:
        raise BadModel(f"{path}: not a model of this course ({error.args[0]}).") from None
    # what zipfile and NumPy raise, by the place of the damage
    except (ValueError, EOFError, AttributeError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error):
        raise BadModel(f"{path}: not a model of this course, or cut short.") from None
    hidden = arrays["b1"].shape[-1] if arrays["b1"].ndim else 0
    V, row = len(VOCAB), (1, hidden)
    expected = [
        (V, EMBEDDING),
        (CONTEXT * EMBEDDING, hidden),
        (hidden,),
        (hidden, V),
        (V,),
        row,
        row,
        row,
        row,
    ]
    for (name, array), shape in zip(arrays.items(), expected, strict=True):
        if array.shape != shape:
            raise BadModel(f"{path}: {name} has shape {array.shape} where {shape} is expected.")
        if array.dtype not in (np.float32, np.float64) or array.dtype != arrays["C"].dtype:
            raise BadModel(f"{path}: {name} holds {array.dtype}, where all are to be float32 or all float64.")
        if not np.isfinite(array).all():
            raise BadModel(f"{path}: {name} holds nan or inf.")
    tensors = [torch.from_numpy(array) for array in arrays.values()]
    return Params(*tensors[: len(Params._fields)]), Stats(*tensors[len(Params._fields) :])
