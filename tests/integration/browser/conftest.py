"""A real browser: Debian's chromium, driven by Playwright. Screenshots are kept in tests/artefacts, to be looked at."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from stayput.core.history import RoundReport
from stayput.runs.run_folder import report_line
from stayput.runs.run_writer import RunWriter
from stayput.runs.spec import RunSpec

ARTEFACTS = Path(__file__).parents[2] / "artefacts"
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu"]
DESK = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def chromium():
    """The browser; a machine without one fails here, and says what to do.

    One for each file of tests: while Playwright runs, its event loop does, and tests elsewhere want one of their own.
    """
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.fail(
            "no chromium here, which the tests of pages drive: `make chromium` installs it as root on Debian "
            "(apt-get install chromium chromium-driver); elsewhere install it yourself"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """Opens an address in a fresh profile; what the page complains about fails the test."""
    complaints, contexts = [], []

    def open_it(url, *, size=DESK, scheme="light", offline=False, expected=()):
        context = chromium.new_context(viewport=size, color_scheme=scheme, offline=offline, reduced_motion="reduce")
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: complaints.append(f"{error}\n{error.stack}"))
        page.on(
            "console",
            lambda message: (
                complaints.append(message.text)
                if message.type == "error" and not any(part in message.text for part in expected)
                else None
            ),
        )
        page.goto(url)
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def keep(request):
    """Keeps a screenshot among the artefacts."""

    def keep_it(page, name):
        ARTEFACTS.mkdir(exist_ok=True)
        page.screenshot(path=ARTEFACTS / f"{name}.png", full_page=True)

    return keep_it


class Board:
    """`stayput board` as a process, which may be ended and started again on the same port."""

    def __init__(self, folder):
        self.folder, self.port = folder, "0"
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stayput", "board", str(self.folder), "--port", self.port],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.url = self.process.stdout.readline().strip()
        assert self.url, "the board did not start"
        self.port = self.url.rstrip("/").rpartition(":")[2]

    def end(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def board():
    """Starts boards, and ends them."""
    boards = []

    def start(folder):
        boards.append(Board(folder))
        return boards[-1]

    yield start
    for each in boards:
        each.end()


def spec_of(**changes):
    settings = {
        "task": "mnist-2nn",
        "partition": {"name": "shards", "num_clients": 20, "shards_per_client": 2},
        "algorithm": {"name": "fed_avg", "client_fraction": 0.1, "local_epochs": 1, "learning_rate": 0.1},
        "rounds": 100,
        "target": 0.9,
    }
    return RunSpec(**{**settings, **changes})


def write_run(path, rounds, *, spec=None, result=None, rise=20.0, labels=True):
    """A run with a curve that rises towards 95%, and dips now and then."""
    counts = [[30 if label in (k % 10, (k * 3 + 1) % 10) else 0 for label in range(10)] for k in range(20)]
    environment = {
        "num_clients": 20,
        "num_examples": 1200,
        "versions": {"torch": "2"},
        "machine": {"processor": "P", "cores": 2},
    }
    lines = []
    for number in range(rounds + 1):
        value = 0.95 - 0.85 * 2 ** (-number / rise) - (0.06 if number % 7 == 3 else 0)
        report = RoundReport(
            number,
            cohort_size=2 if number else 0,
            num_examples=120 if number else 0,
            num_steps=12 if number else 0,
            learning_rate=0.1,
            train_loss=2.3 / (1 + number / rise) if number else None,
            seconds=0.4 + 0.1 * (number % 5) if number else 0.0,
            evaluation={"accuracy": value, "loss": 2.4 * (1 - value)},
            evaluation_seconds=0.1,
        )
        lines.append(report_line(report) + "\n")
    with RunWriter.create(path, spec or spec_of(), environment, counts if labels else None) as writer:
        (path / "history.jsonl").write_text("".join(lines))
        if result is not None:
            writer.finish(
                {"rounds": rounds, "metric": "accuracy", "diverged": None, "rounds_to_target": None, **result}
            )
    return path


@pytest.fixture
def folder(tmp_path):
    """Runs of every kind: ended, interrupted, diverged, unreadable, of a newer version, and a sweep."""
    runs = tmp_path / "runs"
    write_run(runs / "shards-1", 80, result={"best": 0.94, "final": 0.93, "rounds_to_target": 61.2})
    iid = {"name": "iid", "num_clients": 20}
    write_run(runs / "iid-1", 60, spec=spec_of(partition=iid), rise=9, result={"best": 0.95, "rounds_to_target": 33.0})
    write_run(runs / "interrupted", 30)
    old = time.time() - 3600
    for file in (runs / "interrupted").iterdir():
        if file.is_file():
            os.utime(file, (old, old))
    write_run(runs / "diverged", 5, result={"best": 0.2, "diverged": "round 6, client 3: loss nan"})
    for rate, rise in {0.05: 30, 0.1: 15, 0.2: 8, 0.4: 12}.items():
        algorithm = {"name": "fed_avg", "client_fraction": 0.1, "local_epochs": 1, "learning_rate": rate}
        reached = 3.9 * rise
        write_run(
            runs / "sweep" / f"learning_rate={rate}",
            100,
            spec=spec_of(algorithm=algorithm),
            rise=rise,
            result={"best": 0.95 - rise / 1000, "rounds_to_target": reached},
        )
    (runs / "unreadable").mkdir()
    (runs / "unreadable" / "spec.json").write_text('{"task": ')
    newer = write_run(runs / "newer", 3)
    spec = json.loads((newer / "spec.json").read_text())
    (newer / "spec.json").write_text(json.dumps({**spec, "spec_version": 99}))
    return runs


@pytest.fixture
def until():
    """Waits until an expression holds in a page. Playwright's own way evaluates it there, which our policy forbids."""

    def wait(page, expression, *, seconds=15):
        end = time.monotonic() + seconds
        while not (found := page.evaluate(expression)):
            assert time.monotonic() < end, f"not within {seconds} s: {expression}"
            page.wait_for_timeout(20)
        return found

    return wait


@pytest.fixture
def serious_faults():
    """What axe-core finds wrong with a page that keeps somebody from using it."""
    from axe_playwright_python.sync_playwright import Axe

    def find(page):
        found = Axe().run(page).response["violations"]
        return [
            f"{fault['id']}: {node['target']} {node['failureSummary']}"
            for fault in found
            if fault["impact"] in ("serious", "critical")
            for node in fault["nodes"]
        ]

    return find
