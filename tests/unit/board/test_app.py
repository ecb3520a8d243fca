"""The pages and their stream, over real sockets."""

import asyncio
import contextlib
import json
import os
import re
import threading
import time
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
import uvicorn

from stayput.board.app import ASSETS, board_app
from stayput.board.index import RunsIndex
from stayput.board.serve import bound
from stayput.errors import InvalidSetting


@contextlib.contextmanager
def served(folder):
    """The board on a free port."""
    listener = bound(0)
    app = board_app(RunsIndex(folder), seconds=0.05)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


def ask(url, *, method="GET", **headers):
    """An answer's status, headers and content."""
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname, address.port, timeout=10)
    with contextlib.closing(connection):
        connection.request(method, url.removeprefix(f"http://{address.netloc}"), headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def get(url):
    """The content of an address that is there."""
    status, _, content = ask(url)
    assert status == 200, (url, status)
    return content


def get_json(url):
    return json.loads(get(url))


class Events:
    """A stream of events, one after another."""

    def __init__(self, url, **headers):
        address = urlsplit(url)
        self._connection = HTTPConnection(address.hostname, address.port, timeout=10)
        self._connection.request("GET", "/events", headers=headers)
        self._answer = self._connection.getresponse()
        self.kind = self._answer.headers["content-type"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._answer.close()
        self._connection.close()

    def next(self, name):
        """The next event of that name: its id and its data."""
        fields = {}
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            line = self._answer.readline().decode().rstrip("\n")
            if line:
                key, _, value = line.partition(": ")
                fields[key] = value
            elif fields.get("event") == name:
                return fields.get("id"), json.loads(fields["data"])
            else:
                fields = {}
        raise AssertionError(f"no event {name}")


def test_the_page_and_what_it_is_made_of_are_served(runs):
    with served(runs.folder) as url:
        _, headers, page = ask(url + "/")
        assert b"stayput" in page
        assert "script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        for name in re.findall(rb'(?:src|href)="/assets/([^"]*)"', page):
            assert get(f"{url}/assets/{name.decode()}")


def test_scripts_import_only_what_is_served():
    for name, (content, _) in ASSETS.items():
        for other in re.findall(rb'from "\./([^"]*)"', content):
            assert other.decode() in ASSETS, name
        if name.endswith(".js") and not name.startswith("uplot"):
            assert not re.search(
                rb"innerHTML|insertAdjacentHTML|document\.write|eval\(|https?://(?!www\.w3\.org)", content
            )


def test_the_page_has_no_inline_scripts_or_styles():
    page = ASSETS["board.html"][0].decode()
    assert not re.search(r"<script(?![^>]*src=)|<style|style=|\son[a-z]+=", page)


@pytest.mark.parametrize(
    "path", ["/assets/nothing.js", "/assets/..%2fapp.py", "/assets/vendored.json", "/runs/a/spec.json"]
)
def test_nothing_else_is_served(runs, path):
    runs.write("a")
    with served(runs.folder) as url:
        assert ask(url + path)[0] == 404


@pytest.mark.parametrize("name", ["../secret", "/etc", "a/../..", ""])
def test_a_run_is_looked_up_and_never_a_path(runs, name):
    runs.write("a")
    runs.folder.parent.joinpath("secret").mkdir()
    with served(runs.folder) as url:
        get(url + "/api/runs")
        assert ask(f"{url}/api/run?run={name}")[0] == 404
        assert get_json(f"{url}/api/series?run={name}") == {}


def test_a_page_from_elsewhere_cannot_read_along(runs):
    with served(runs.folder) as url:
        assert ask(url + "/api/runs", Host="attacker.example")[0] == 400
        assert ask(url + "/", Host="localhost:8017")[0] == 200


def test_only_reading_is_possible(runs):
    with served(runs.folder) as url:
        for method in ("POST", "PUT", "DELETE"):
            assert ask(url + "/api/runs", method=method)[0] == 405


def test_rows_come_at_once_and_then_as_they_change(runs):
    runs.write("a")
    runs.write("old", age=1000)
    with served(runs.folder) as url, Events(url) as events:
        assert events.kind.startswith("text/event-stream")
        _, news = events.next("runs")
        assert news["whole"]
        assert {row["id"] for row in news["rows"]} == {"a", "old"}
        runs.add("a", 2, 0.75)
        while not any(row["id"] == "a" and row["round"] == 2 for row in news["rows"]):
            number, news = events.next("runs")
            assert not news["whole"]
            assert {row["id"] for row in news["rows"]} <= {"a"}
        assert number.count(":") == 1


def test_silence_is_broken_by_beats(runs):
    with served(runs.folder) as url, Events(url) as events:
        events.next("runs")
        assert abs(events.next("beat")[1]["now"] - time.time()) < 60


def test_a_page_that_comes_back_is_sent_what_it_missed(runs):
    runs.write("a", result={"best": 0.5})
    runs.write("b", result={"best": 0.5})
    with served(runs.folder) as url:
        with Events(url) as events:
            number, _ = events.next("runs")
        runs.write("c")
        with Events(url, **{"Last-Event-ID": number}) as events:
            missed = set()
            while "c" not in missed:
                _, news = events.next("runs")
                assert not news["whole"]
                missed |= {row["id"] for row in news["rows"]}
            assert missed == {"c"}
        with Events(url, **{"Last-Event-ID": "another:7"}) as events:
            assert events.next("runs")[1]["whole"]


def test_an_empty_folder_is_told_and_its_first_run_appears(runs):
    with served(runs.folder) as url, Events(url) as events:
        _, news = events.next("runs")
        assert (news["rows"], news["exists"]) == ([], False)
        runs.write("first")
        assert [row["id"] for row in events.next("runs")[1]["rows"]] == ["first"]


def test_a_runs_files_and_curves(runs):
    runs.write("sw/a", result={"best": 0.5})
    with served(runs.folder) as url:
        get(url + "/api/runs")
        found = get_json(url + "/api/run?run=sw/a")
        assert found["spec"]["task"] == "toy"
        assert found["result"]["best"] == 0.5
        assert found["clients"]["examples of a client"] == "10"
        curves = get_json(url + "/api/series?run=sw/a&run=nothing")
        assert set(curves) == {"sw/a"}
        assert get_json(url + "/api/series?run=sw/a&after=0")["sw/a"]["curves"]["accuracy"]["x"] == [1]


def test_a_hostile_name_stays_data(runs):
    name = "<img src=x onerror=alert(1)>"
    runs.write(name, spec=runs.spec_of(task="<script>alert(1)</script>"))
    with served(runs.folder) as url:
        _, headers, content = ask(url + "/api/runs")
        assert headers["content-type"] == "application/json"
        assert json.loads(content)["rows"][0]["id"] == name


def test_a_port_in_use_is_a_sentence():
    with bound(0) as listener, pytest.raises(InvalidSetting, match=r"--port 0 takes a free one"):
        bound(listener.getsockname()[1])


SPEC = {
    "task": "toy", "partition": {"name": "iid"}, "algorithm": {"name": "fed_avg"}, "rounds": 9, "spec_version": 1,
}  # fmt: skip
ODD_FILES = {
    "an infinite target": {"spec.json": json.dumps({**SPEC, "target": float("inf"), "metrics": {"f": True}})},
    "an infinite rate": {"spec.json": json.dumps({**SPEC, "algorithm": {"name": "a", "learning_rate": 1e999}})},
    "an algorithm that is a word": {"spec.json": json.dumps({**SPEC, "algorithm": "fed_avg"})},
    "metrics that are a list": {"spec.json": json.dumps({**SPEC, "metrics": ["accuracy"]})},
    "a schedule of no rounds": {
        "spec.json": json.dumps({**SPEC, "algorithm": {"name": "a", "local_epochs": {"x": 1}}})
    },
    "JSON too deep": {"spec.json": "[" * 100_000},
    "an outcome that is no number": {"result.json": '{"diverged": NaN, "best": "x"}'},
    "an evaluation that is a list": {"history.jsonl": '{"round_number": 1, "evaluation": [1]}\n'},
    "a value that is a word": {"history.jsonl": '{"round_number": 1, "evaluation": {"accuracy": "x"}}\n'},
    "a round that is a word": {"history.jsonl": '{"round_number": "x", "evaluation": {}}\n'},
    "a round beyond all counting": {"history.jsonl": '{"round_number": 1%s, "evaluation": {}}\n' % ("0" * 30)},
    "seconds that are no number": {"history.jsonl": '{"round_number": 1, "seconds": NaN}\n'},
    "an environment with no number": {"environment.json": '{"a": NaN}'},
}


@pytest.mark.parametrize("files", ODD_FILES.values(), ids=ODD_FILES)
def test_one_odd_run_does_not_take_the_page_away_from_the_others(runs, files):
    runs.write("sound")
    odd = runs.folder / "odd"
    odd.mkdir()
    for name, content in ({"spec.json": json.dumps(SPEC)} | files).items():
        (odd / name).write_text(content)
    with served(runs.folder) as url:
        found = {row["id"]: row for row in json.loads(get(url + "/api/runs"), parse_constant=pytest.fail)["rows"]}
        assert found["sound"]["best"] is not None or found["sound"]["value"] == 0.5
        for name in ("odd", "sound"):
            json.loads(get(f"{url}/api/run?run={name}"), parse_constant=pytest.fail)
            json.loads(get(f"{url}/api/series?run={name}"), parse_constant=pytest.fail)
        with Events(url) as events:
            assert {row["id"] for row in events.next("runs")[1]["rows"]} == {"odd", "sound"}


def test_a_name_that_is_no_text_does_not_either(runs):
    runs.write("sound")
    runs.write("odd").rename(runs.folder / os.fsdecode(b"odd-\xff"))
    with served(runs.folder) as url:
        assert len(get_json(url + "/api/runs")["rows"]) == 2


def test_a_number_of_thousands_of_digits_is_none(runs):
    runs.write("a")
    with served(runs.folder) as url:
        get(url + "/api/runs")
        assert get_json(f"{url}/api/series?run=a&after={'9' * 5000}")["a"]["whole"]
