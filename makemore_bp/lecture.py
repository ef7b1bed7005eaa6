"""The lecture's own list of names, fetched on request. The course itself needs no network."""

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from pathlib import Path

from . import checks
from .data import NAMES_FILE, NAMES_VARIABLE

URL = "https://raw.githubusercontent.com/karpathy/makemore/master/names.txt"
SHA256 = "0a30b5557f192f32ab962680889aac5f6fda0f4cecf40a6d0b5694f58ea8cc4d"
FILE = NAMES_FILE.with_name("lecture-names.txt")
LIMIT = 1_000_000  # bytes; the list has 228,145


class NotFetched(RuntimeError):
    """The list could not be had; the message says why, and what to do without a network."""


def is_lecture_list(path: Path) -> bool:
    """Whether the file is there and is the lecture's list, to the byte."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == SHA256
    except OSError:
        return False


def fetch(url: str = URL, target: str | os.PathLike = FILE, timeout: float = 30) -> None:
    """Download the list to `target`; the file is put in place whole and checked, or not at all.

    timeout: seconds, for the connection and then for the whole download.
    Raises NotFetched; TypeError or ValueError for arguments of no use.
    """
    checks.kind("url", url, "an address", str)
    checks.number("timeout", timeout, 0, above=True)
    target = Path(checks.path(target))
    try:
        content = _download(url, timeout)
    except urllib.error.HTTPError as error:
        error.close()
        raise _not_fetched(f"the server answered {error.code} {error.reason}", url, target) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)  # URLError wraps what happened
        if isinstance(reason, TimeoutError):
            reason = f"not all of it came within {timeout} seconds"
        why = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise _not_fetched(why, url, target) from None
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise _not_fetched(f"what came is another file (SHA-256 {found})", url, target)
    part = target.with_name(target.name + ".part")
    try:
        part.write_bytes(content)
        os.replace(part, target)
    except OSError as error:
        raise NotFetched(f"{target} cannot be written: {error.strerror}.") from None
    finally:
        if part.exists():
            part.unlink()


def _download(url, timeout):
    deadline = time.monotonic() + timeout
    content = b""
    with urllib.request.urlopen(url, timeout=timeout) as response:
        length = response.headers.get("Content-Length")
        # in pieces, since `timeout` is for each of them and a slow server could go on for ever
        while piece := response.read1(65536):
            content += piece
            if len(content) > LIMIT:
                raise OSError(f"what came is no list of names, it is larger than {LIMIT:,} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError
    if length and len(content) < int(length):
        raise OSError(f"the connection broke after {len(content):,} of {int(length):,} bytes")
    return content


def _not_fetched(why, url, target):
    why = " ".join(why.split()).rstrip(".")
    return NotFetched(
        f"The lecture's list was not fetched: {why}. Without a network, get {url} by hand and save it as "
        f"{target}, or set {NAMES_VARIABLE} to where you have it."
    )
