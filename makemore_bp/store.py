"""A trained model in a file: everything needed to evaluate it, written whole or not at all."""

import os
import secrets
import stat
import warnings
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from . import checks
from .data import CONTEXT, VOCAB
from .model import EMBEDDING, Params, Stats


class BadModel(ValueError):
    """A file that holds no model of this course; the message names the file and says why."""


FIELDS = [*Params._fields, *(f"running_{name}" for name in Stats._fields)]


def save(path: str | os.PathLike, params: Params, stats: Stats) -> None:
    """Write params and stats to path (NumPy's npz). An interruption leaves an older file there whole.

    Where path is a symbolic link, what it leads to is written. Raises OSError.
    """
    H = checks.params(params)["H"]
    checks.stats(stats, params, H)
    path = _target(path)
    arrays = dict(zip(FIELDS, (t.detach().cpu().numpy() for t in (*params, *stats)), strict=True))
    with _beside(path) as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
        file.close()  # Windows moves no open file
        os.replace(file.name, path)


def check_writable(path: str | os.PathLike) -> None:
    """Raise OSError where `save` could not write path: before hours of training, not after."""
    with _beside(_target(path)):
        pass


def _target(path):
    """The file that is written for path: where a symbolic link leads."""
    path = Path(checks.path(path))
    if path.is_dir():
        raise OSError(f"{path} is a folder; name a file to save the model in.")
    real = Path(os.path.realpath(path))
    if real.is_symlink() or (path.exists() and not path.is_file()):  # a circle of links; a device, a pipe
        raise OSError(f"{path} is no regular file; name another to save the model in.")
    if not real.parent.is_dir():
        raise OSError(f"{real.parent}: there is no such folder to save the model in.")
    return real


@contextmanager
def _beside(path):
    """A new file beside path, open for writing, and gone in the end if it did not take path's place."""
    # not tempfile's, which nobody else may read: open() gives the rights that any new file has
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(partial, "xb") as file:
            if path.exists():
                partial.chmod(stat.S_IMODE(path.stat().st_mode))
            yield file
    except OSError as error:
        raise OSError(f"{path}: the model cannot be saved ({error.strerror or error}).") from None
    finally:
        partial.unlink(missing_ok=True)


def load_model(path: str | os.PathLike) -> tuple[Params, Stats]:
    """Read what `save` wrote; return (Params, Stats). No code from the file is run. Raises BadModel."""
    path = checks.path(path)
    if os.path.exists(path) and not os.path.isdir(path) and not os.path.isfile(path):
        raise BadModel(f"{path}: not a model of this course, but a device or a pipe.")  # it may never end
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's, about a damaged header
            size = os.fstat(file.fileno()).st_size
            arrays = {name: _read(archive, name, size) for name in FIELDS}
    except OSError as error:
        raise BadModel(f"{path}: cannot be read ({error.strerror or error}).") from None
    except KeyError as error:
        raise BadModel(f"{path}: not a model of this course ({error.args[0]}).") from None
    except Exception:  # zipfile, struct, ast, tokenize: what is raised depends on the place of the damage
        raise BadModel(f"{path}: not a model of this course, or cut short.") from None
    hidden = arrays["b1"].shape[-1] if arrays["b1"].ndim else 0
    shapes = checks.parameter_shapes(len(VOCAB), EMBEDDING, CONTEXT * EMBEDDING, hidden)
    row = shapes["bngain"]
    for (name, array), shape in zip(arrays.items(), [*shapes.values(), row, row], strict=True):
        if array.shape != shape:
            raise BadModel(f"{path}: {name} has shape {array.shape} where {shape} is expected.")
        if array.dtype not in (np.float32, np.float64) or array.dtype != arrays["C"].dtype:
            raise BadModel(f"{path}: {name} holds {array.dtype}, where all are to be float32 or all float64.")
        if not np.isfinite(array).all():
            raise BadModel(f"{path}: {name} holds nan or inf.")
    if (arrays["running_var"] < 0).any():
        raise BadModel(f"{path}: running_var holds negative numbers, which no variance is.")
    tensors = [torch.from_numpy(array) for array in arrays.values()]
    return Params(*tensors[: len(Params._fields)]), Stats(*tensors[len(Params._fields) :])


def _read(archive, name, size):
    """One array, never larger than the file itself: np.load would make what a header claims, were it terabytes."""
    member = archive.getinfo(f"{name}.npy")
    if member.compress_type != zipfile.ZIP_STORED or max(member.file_size, member.compress_size) > size:
        raise ValueError("not as `save` writes it")
    with archive.open(member) as stored:
        if np.lib.format.read_magic(stored) != (1, 0):
            raise ValueError("not as `save` writes it")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stored)
        content = bytearray(stored.read())  # not bytes: PyTorch wants to be able to write
    numbers = np.frombuffer(content, dtype)
    return numbers.reshape(shape, order="F" if fortran else "C")
