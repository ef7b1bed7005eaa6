"""Reading lists of names, good and bad, and fetching the lecture's from a server of our own."""

import contextlib
import hashlib
import http.server
import re
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import pytest
import torch

from makemore_bp import __main__ as commands
from makemore_bp import data, lecture

ROOT = Path(__file__).resolve().parent.parent
LECTURE_LIST = ROOT.parent / "shared" / "data" / "lecture-names.txt"
TEN = ["emma", "olivia", "ava", "isabella", "sophia", "mia", "zoe", "amelia", "harper", "evelyn"]


@pytest.fixture(autouse=True)
def no_list_from_outside(monkeypatch):
    monkeypatch.delenv(data.NAMES_VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "list.txt"
        path.write_bytes(content)
        return path

    return write


# --- what is read


@pytest.mark.parametrize(
    "content",
    [
        b"emma\nava\n",
        b"emma\r\nava\r\n",
        b"emma\nava",
        b"emma\r\nava",
        b"Emma\nAVA\n",
        b"emma\nava\n\n\n",
        b"emma\r\nava\r\n\r\n",
        b"\xef\xbb\xbfemma\nava\n",
    ],
)
def test_the_same_names_however_the_file_was_saved(write, content):
    assert data.read_names(write(content)) == ["emma", "ava"]


def test_one_name_is_a_list_and_may_be_there_twice(write):
    assert data.read_names(write(b"emma")) == ["emma"]
    assert data.read_names(write(b"emma\nemma\n")) == ["emma", "emma"]


@pytest.mark.parametrize(
    "content, line, says",
    [
        (b"", 1, "empty"),
        (b"\n\n", 1, "empty"),
        (b"\xef\xbb\xbf", 1, "empty"),
        (b"emma\n\nava\n", 2, "blank"),
        (b"\nemma\n", 1, "blank"),
        (b"emma\nav.a\n", 2, "'.'"),
        (b"emma\n.ava\n", 2, "'.'"),
        (b"emma\nav a\n", 2, "' '"),
        (b"emma\nava \n", 2, "' '"),
        (b"emma\n \n", 2, "' '"),
        (b"emma\nava\tb\n", 2, r"'\t'"),
        (b"emma\rava\n", 1, r"'\r'"),
        (b"emma\nava-lee\n", 2, "'-'"),
        (b"emma,F,7\n", 1, "','"),
        (b"emma\nava1\n", 2, "'1'"),
        ("emma\nzoë\n".encode(), 2, "'ë'"),
        ("emma\nava\u2028b\n".encode(), 2, r"'\u2028'"),
        (b"emma\nava\nzo\xeb\n", 3, "0xeb"),
        (b"\n\xeb\n", 2, "0xeb"),
        (b"emma\navaX1\n", 2, "'1'"),
        (b"\xff\xfee\x00m\x00", 1, "0xff"),
        (b"emma\nava\x00\n", 2, r"'\x00'"),
    ],
)
def test_a_bad_list_is_refused_with_file_and_line(write, content, line, says):
    path = write(content)
    with pytest.raises(data.BadNames) as caught:
        data.read_names(path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line {line}: ") and says in message
    assert "\n" not in message and "\r" not in message


def test_a_very_long_line_does_not_fill_the_screen(write):
    with pytest.raises(data.BadNames) as caught:
        data.read_names(write(b"x" * 100_000 + b"1\n"))
    assert f": '{'x' * 40}' holds '1'; " in str(caught.value)


def test_a_missing_file_and_a_folder(tmp_path):
    for path in (tmp_path / "no.txt", tmp_path):
        with pytest.raises(data.BadNames, match=re.escape(str(path))) as caught:
            data.read_names(path)
        assert data.NAMES_VARIABLE in str(caught.value)


def test_a_list_too_large_is_refused_before_it_fills_the_memory(write, monkeypatch):
    assert data.LIMIT > 10 * data.NAMES_FILE.stat().st_size
    monkeypatch.setattr(data, "LIMIT", 9)
    assert data.read_names(write(b"emma\nava\n")) == ["emma", "ava"]
    for path in (write(b"emma\nava\nb"), Path("/dev/zero")):
        if path.exists():
            with pytest.raises(data.BadNames, match=f"^{path}: larger than 9 bytes"):
                data.read_names(path)


def test_the_argument_comes_before_the_variable_and_that_before_the_shipped_list(
    write, monkeypatch, tmp_path
):
    path = write(b"emma\n")
    assert data.names_path() == ROOT / "data" / "names.txt"
    monkeypatch.setenv(data.NAMES_VARIABLE, str(path))
    assert data.read_names() == ["emma"]
    other = tmp_path / "other.txt"
    other.write_text("ava\n")
    assert data.read_names(other) == data.read_names(str(other)) == ["ava"]
    monkeypatch.setenv(data.NAMES_VARIABLE, "")
    assert data.names_path() == ROOT / "data" / "names.txt"


# --- what is made of it


@pytest.mark.parametrize("count", [1, 2, 5])
def test_too_few_names_to_cut_into_three(write, count):
    path = write("\n".join(TEN[:count]).encode())
    with pytest.raises(data.BadNames) as refused:
        data.load(path)
    assert (
        str(refused.value)
        == f"{path}: {count} names are too few to cut into train, val and test; take 10 or more."
    )


def test_ten_names_are_enough_and_every_letter_becomes_an_example(write):
    loaded = data.load(write("\n".join(TEN).encode()))
    assert [len(part) for part in loaded.names] == [8, 1, 1]
    assert sorted(sum(loaded.names, [])) == sorted(TEN)
    assert len(loaded.Ytr) + len(loaded.Yval) + len(loaded.Yte) == sum(len(name) + 1 for name in TEN)


def test_a_name_becomes_examples_of_three_letters_and_the_next():
    X, Y = data.build_dataset(["ab"])
    assert X.tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 2]] and Y.tolist() == [1, 2, 0]
    assert X.dtype == Y.dtype == torch.int64


def test_millions_of_letters_need_no_gigabytes():
    names = TEN * 1000
    letters = sum(map(len, names)) + len(names)
    tracemalloc.start()
    try:
        assert len(data.build_dataset(names)[1]) == letters
        assert tracemalloc.get_traced_memory()[1] < 20 * letters  # beside the tensors, which it does not see
    finally:
        tracemalloc.stop()


def test_the_split_is_the_same_each_time_and_leaves_the_global_generator_alone(write):
    import random

    path = write("\n".join(TEN).encode())
    random.seed(7)
    expected = random.Random(7).random()
    assert data.load(path).names == data.load(path).names
    assert random.random() == expected


def test_the_shipped_list():
    loaded = data.load()
    assert [len(part) for part in loaded.names] == [25_742, 3_218, 3_218]
    assert loaded.Xtr.shape == (len(loaded.Ytr), data.CONTEXT)


@pytest.mark.skipif(not LECTURE_LIST.exists(), reason="the lecture's list is not beside this checkout")
def test_the_lectures_list_gives_the_lectures_split():
    assert lecture.is_lecture_list(LECTURE_LIST)
    loaded = data.load(LECTURE_LIST)
    assert [len(Y) for Y in (loaded.Ytr, loaded.Yval, loaded.Yte)] == [182_625, 22_655, 22_866]


# --- fetching the lecture's list


@contextlib.contextmanager
def server(answer):
    """A real server on this machine; answer(handler) writes the response. Yields the address to ask."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            with contextlib.suppress(OSError):  # the client may have gone
                answer(self)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}/names.txt"
        finally:
            running.shutdown()
            thread.join()


def respond(handler, content, status=200, length=None):
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content) if length is None else length))
    handler.end_headers()
    handler.wfile.write(content)


LIST = "".join(f"{name}\n" for name in TEN).encode()


@pytest.fixture
def target(tmp_path, monkeypatch):
    """Where the list is to go. The list itself is a short one, whose checksum stands in for the real one."""
    monkeypatch.setattr(lecture, "SHA256", hashlib.sha256(LIST).hexdigest())
    monkeypatch.setattr(lecture, "FILE", tmp_path / "data" / "lecture-names.txt")
    lecture.FILE.parent.mkdir()
    return lecture.FILE


def refused(url, target, **options):
    """Fetch what must not be taken; the file that was there stays as it was. Returns the message."""
    target.write_text("old")
    with pytest.raises(lecture.NotFetched) as caught:
        lecture.fetch(url, target, **options)
    assert [path.name for path in target.parent.iterdir()] == [target.name] and target.read_text() == "old"
    message = str(caught.value)
    assert (
        "\n" not in message and url in message and str(target) in message and data.NAMES_VARIABLE in message
    )
    return message


def test_the_real_checksum_is_the_lectures():
    assert lecture.SHA256 == "0a30b5557f192f32ab962680889aac5f6fda0f4cecf40a6d0b5694f58ea8cc4d"
    assert lecture.FILE == ROOT / "data" / "lecture-names.txt"


def test_fetched_and_put_in_place(target):
    with server(lambda handler: respond(handler, LIST)) as url:
        lecture.fetch(url, target)
    assert target.read_bytes() == LIST
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.skipif(not LECTURE_LIST.exists(), reason="the lecture's list is not beside this checkout")
def test_the_real_list_passes_the_real_check(tmp_path):
    content = LECTURE_LIST.read_bytes()
    with server(lambda handler: respond(handler, content)) as url:
        lecture.fetch(url, tmp_path / "names.txt")
    assert (tmp_path / "names.txt").read_bytes() == content


def test_not_found(target):
    with server(lambda handler: respond(handler, b"", 404)) as url:
        assert "404 Not Found" in refused(url, target)


def test_another_file(target):
    with server(lambda handler: respond(handler, LIST + b"zara\n")) as url:
        assert "another file" in refused(url, target)


def test_cut_short(target):
    with server(lambda handler: respond(handler, LIST[:20], length=len(LIST))) as url:
        assert f"broke after 20 of {len(LIST)} bytes" in refused(url, target)


def test_too_large(target):
    with server(lambda handler: respond(handler, b"a" * (lecture.LIMIT + 100_000))) as url:
        assert "larger than 1,000,000 bytes" in refused(url, target)


def test_no_answer(target):
    gone = threading.Event()
    with server(lambda handler: gone.wait(5)) as url:
        start = time.monotonic()
        assert "within 0.3 seconds" in refused(url, target, timeout=0.3)
        gone.set()
    assert time.monotonic() - start < 4


def test_a_byte_at_a_time(target):
    gone = threading.Event()

    def trickle(handler):
        respond(handler, b"", length=len(LIST))
        while not gone.wait(0.05):
            handler.wfile.write(b"a")

    with server(trickle) as url:
        assert "within 0.4 seconds" in refused(url, target, timeout=0.4)
        gone.set()


def test_not_http(target):
    def babble(handler):
        handler.wfile.write(b"good day\r\n")

    with server(babble) as url:
        refused(url, target)


def test_nobody_listens_and_no_address(target):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert "refused" in refused(f"http://127.0.0.1:{port}/names.txt", target)
    refused("no address", target)


def test_a_folder_that_cannot_be_written(target, tmp_path):
    with server(lambda handler: respond(handler, LIST)) as url:
        with pytest.raises(lecture.NotFetched, match="cannot be written"):
            lecture.fetch(url, tmp_path / "no" / "names.txt")


def test_interrupted(target, monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(lecture.urllib.request, "urlopen", interrupted)
    assert commands.main(["names", "--lecture"]) == 130
    said = capsys.readouterr()
    assert said.out == "" and len(said.err.splitlines()) == 1
    assert list(target.parent.iterdir()) == []


# --- the command


def test_the_command_fetches_once_and_says_how_to_use_the_list(target, monkeypatch, capsys):
    asked = []

    def answer(handler):
        asked.append(handler.path)
        respond(handler, LIST)

    with server(answer) as url:
        monkeypatch.setattr(lecture.fetch, "__defaults__", (url, target, 30))
        assert commands.main(["names", "--lecture"]) == 0
        assert commands.main(["names", "--lecture"]) == 0
    assert len(asked) == 1 and target.read_bytes() == LIST
    assert f"{data.NAMES_VARIABLE}={target}" in capsys.readouterr().out


def test_the_command_without_a_network(target, monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setattr(lecture.fetch, "__defaults__", (f"http://127.0.0.1:{port}/", target, 30))
    assert commands.main(["names", "--lecture"]) == 2
    assert "by hand" in capsys.readouterr().err and list(target.parent.iterdir()) == []


def test_the_command_tells_which_list_is_read(write, monkeypatch, capsys):
    path = write(LIST)
    assert commands.main(["names", str(path)]) == 0
    said = capsys.readouterr().out
    assert f"{path} (as asked for): 10 names" in said and re.search(r"train +8 names", said)
    monkeypatch.setenv(data.NAMES_VARIABLE, str(path))
    assert commands.main(["names"]) == 0
    assert f"(from {data.NAMES_VARIABLE}): 10 names" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["names", "a", "b"], ["names", "no.txt"], ["names", "--lecture", "a"]]
)
def test_a_wrong_command_gets_one_line(arguments, capsys):
    try:
        status = commands.main(arguments)
    except SystemExit as left:
        status = left.code
    said = capsys.readouterr()
    assert status == 2 and said.out == "" and len(said.err.splitlines()) == 1


def test_the_command_as_a_person_types_it():
    command = [sys.executable, "-m", "makemore_bp", "names", "no.txt"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("no.txt: ")
