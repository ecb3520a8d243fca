"""What the live page costs: how soon it opens, and what looking takes while a run is trained.

    python benchmarks/board.py [OUTPUT.json]      both figures, in one go; needs chromium and MNIST
    python benchmarks/board.py picture RUNS       docs/images/board.png, of the runs in a folder

Opening is from the request to 100 rows of 500 runs with 2,000 rounds each, in a browser. For the cost, one training
process goes on while the board is listened to and left alone by turns, 500 ended runs beside it: rounds that are
watched are compared with those that are not, and the board's own processor time is measured against the clock.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

from stayput.core.history import RoundReport
from stayput.runs.environment import machine, versions
from stayput.runs.run_folder import RunFolder, report_line
from stayput.runs.run_writer import RunWriter
from stayput.runs.spec import RunSpec

ROOT = Path(__file__).resolve().parents[1]
RUNS, ROUNDS = 500, 2000
TURNS, SECONDS_A_TURN = 12, 5.0
STAYPUT = [sys.executable, "-m", "stayput"]


def write_runs(folder: Path) -> None:
    """Runs that have ended, each with files of its own."""
    spec = RunSpec("mnist-2nn", {"name": "iid", "num_clients": 100}, {"name": "fed_avg", "learning_rate": 0.1}, ROUNDS)
    lines = []
    for t in range(ROUNDS + 1):
        value = 0.98 - 0.88 / (1 + t / 20)
        evaluation = {"loss": 2 * (1 - value), "accuracy": value}
        lines.append(report_line(RoundReport(t, 10, 6000, 600, 0.1, 0.5, 0.123456, evaluation, 0.0345)) + "\n")
    first = folder / "run-0"
    with RunWriter.create(first, spec, {"num_clients": 100}) as writer:
        (first / "history.jsonl").write_text("".join(lines), encoding="utf-8")
        writer.finish({"rounds": ROUNDS, "best": 0.97, "diverged": None, "rounds_to_target": None})
    for number in range(1, RUNS):
        shutil.copytree(first, folder / f"run-{number}")


def started(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """A board, and its address."""
    board = subprocess.Popen([*STAYPUT, "board", str(folder), "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert board.stdout is not None
    return board, board.stdout.readline().strip()


def opened(browser: Any, url: str) -> float:  # noqa: ANN401 - Playwright's browser
    """Milliseconds from the request to the first hundred rows."""
    page = browser.new_page()
    page.goto(url, wait_until="commit")
    while not (took := page.evaluate("document.querySelectorAll('#rows tr').length >= 100 && performance.now()")):
        time.sleep(0.005)
    page.close()
    return float(took)


def processor_seconds(pid: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def listened(url: str, seconds: float) -> None:
    """Hear the stream of events, as a page does; a browser's own drawing would be measured with it."""
    with urlopen(url + "events", timeout=10) as stream:  # noqa: S310 - the board that was just started
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            stream.readline()


def cost(board: subprocess.Popen[str], url: str, folder: Path) -> dict[str, Any]:
    """Rounds while the board looks beside rounds while it does not, in one training process."""
    command = ["run", "mnist-2nn", "--rounds", "100000", "--keep-going", "--no-report", "-q", "--threads", "1"]
    training = subprocess.Popen([*STAYPUT, *command, "--folder", str(folder / "live")], stderr=subprocess.DEVNULL)
    run = folder / "live" / "history.jsonl"
    turns: dict[bool, list[float]] = {True: [], False: []}
    used = 0.0
    try:
        while not run.is_file() or run.stat().st_size < 4000:
            time.sleep(0.1)
        for turn in range(TURNS):
            watching = turn % 2 == 1
            before, spent = lines_in(run), processor_seconds(board.pid)
            if watching:
                listened(url, SECONDS_A_TURN)
                used += processor_seconds(board.pid) - spent
            else:
                time.sleep(SECONDS_A_TURN)
            reports = RunFolder(folder / "live").history().reports[before:]
            turns[watching] += [report.seconds + report.evaluation_seconds for report in reports]
    finally:
        training.terminate()
        training.wait()
    return {
        "rounds compared": len(turns[True]) + len(turns[False]),
        "round alone, s": median(turns[False]),
        "round watched, s": median(turns[True]),
        "ratio": median(turns[True]) / median(turns[False]),
        "board's share of one core": used / (TURNS // 2 * SECONDS_A_TURN),
    }


def lines_in(path: Path) -> int:
    """Rounds that are written."""
    return path.read_bytes().count(b"\n")


def measured() -> dict[str, Any]:
    """Both figures."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name) / "runs"
        write_runs(folder)
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        board, url = started(folder)
        try:
            times = [opened(browser, url) for _ in range(5)]
            found = cost(board, url, folder)
        finally:
            board.terminate()
            board.wait()
            browser.close()
    rows = {"opens first, ms": times[0], "opens again, ms": median(times[1:]), **found}
    return {
        "results": [{"runs": RUNS, "rounds each": ROUNDS, **rows}],
        "machine": machine("cpu"),
        "versions": versions(),
    }


def picture(folder: Path) -> None:
    """The page as the documentation shows it."""
    from playwright.sync_api import sync_playwright

    board, url = started(folder)
    try:
        with sync_playwright() as playwright:
            flags = ["--headless", "--no-sandbox", "--disable-gpu"]
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
            page = browser.new_page(viewport={"width": 1200, "height": 820})
            page.goto(url)
            page.locator("#curves canvas").wait_for()
            page.locator("#rows tr").first.wait_for()
            page.evaluate("document.getElementById('folder').textContent = 'runs'")
            page.screenshot(path=ROOT / "docs" / "images" / "board.png")
            browser.close()
    finally:
        board.terminate()
        board.wait()


def main(arguments: list[str]) -> int:
    """Measure, or take the picture."""
    if arguments[:1] == ["picture"]:
        picture(Path(arguments[1]))
        return 0
    found = measured()
    print(json.dumps(found["results"], indent=1))
    if arguments:
        Path(arguments[0]).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
