"""The live page as people use it: find a run, point at a curve, follow training, lose the connection, use a phone.

Its words are found as a screen reader finds them, by role and name, so that a test that passes says that it can be
used without seeing it.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from stayput.core.history import RoundReport
from stayput.runs.run_folder import RunFolder, report_line
from stayput.runs.run_writer import RunWriter
from stayput.runs.spec import RunSpec

pytestmark = pytest.mark.slow

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
TOY_RUN = Path(__file__).parents[1] / "toy_run.py"


def rows(page):
    return page.locator("#rows tr")


def names(page):
    return page.locator("#rows td.name a").all_inner_texts()


def tip(page):
    return page.locator(".tip:not([hidden])")


def test_runs_of_every_kind_are_listed_and_filtered(folder, board, open_page, keep):
    page = open_page(board(folder).url)
    expect(rows(page)).to_have_count(10)
    for name, state in {
        "shards-1": "reached target",
        "interrupted": "interrupted",
        "diverged": "diverged",
        "unreadable": "unreadable",
        "newer": "newer version",
    }.items():
        row = rows(page).filter(has=page.get_by_role("link", name=name, exact=True))
        expect(row.locator(".state")).to_have_text(state)
    expect(page.get_by_text("reads versions up to")).to_be_visible()
    expect(page.get_by_text("cannot be read as JSON")).to_be_visible()
    keep(page, "board")

    page.keyboard.press("/")  # the key leads to the filter
    page.keyboard.type("iid η=0.1")
    expect(rows(page)).to_have_count(1)
    assert names(page) == ["iid-1"]
    page.reload()  # the address says what is shown
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_role("searchbox")).to_have_value("iid η=0.1")
    page.get_by_role("searchbox").fill("no such run")
    expect(page.get_by_text("No run matches.")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    expect(rows(page)).to_have_count(10)

    page.get_by_role("button", name="in trouble").click()
    expect(rows(page)).to_have_count(4)
    expect(page.get_by_role("button", name="in trouble")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name=re.compile("^all")).click()
    page.get_by_role("button", name="Best", exact=True).click()
    expect(page.get_by_role("columnheader", name="Best")).to_have_attribute("aria-sort", "descending")
    best = [text for text in page.locator("td.best-cell").all_inner_texts() if text]
    assert best == sorted(best, key=lambda text: -float(text.rstrip("%")))


def test_curves_tell_their_values_to_the_mouse_and_to_the_keyboard(folder, board, open_page, keep):
    page = open_page(board(folder).url)
    page.get_by_role("checkbox", name="Draw the curve of iid-1").check()
    expect(page.get_by_role("button", name="Clear choice")).to_be_visible()
    expect(page.locator("#curves .legend-key")).to_have_count(4)  # the latest three, and this one
    page.goto(page.url.partition("#")[0] + "#/?runs=iid-1")
    chart = page.locator("#curves .plot")
    expect(chart).to_have_attribute("aria-label", re.compile("one run: iid-1"))
    box = page.locator("#curves .u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(tip(page)).to_contain_text("round 30")
    expect(tip(page)).to_contain_text(re.compile(r"best so far\s*86\.\d+%"))
    keep(page, "board-hover")
    page.mouse.move(0, 0)
    expect(tip(page)).to_have_count(0)

    chart.focus()
    page.keyboard.press("End")
    expect(tip(page)).to_contain_text("round 60")
    page.keyboard.press("ArrowLeft")
    expect(tip(page)).to_contain_text("round 59")
    expect(tip(page)).to_have_attribute("aria-live", "polite")
    page.keyboard.press("Escape")
    expect(tip(page)).to_have_count(0)

    page.get_by_label("What is drawn").select_option("seconds")
    expect(chart).to_have_attribute("aria-label", re.compile("^seconds by round"))
    chart.focus()
    page.keyboard.press("Home")
    expect(tip(page)).to_contain_text("0.6 s")
    page.reload()
    expect(page.get_by_label("What is drawn")).to_have_value("seconds")


def test_one_run_and_one_sweep_have_views_of_their_own(folder, board, open_page, keep):
    page = open_page(board(folder).url)
    page.get_by_role("link", name="shards-1", exact=True).click()
    expect(page.get_by_role("heading", name="shards-1")).to_be_visible()
    expect(page.locator("#single .plot")).to_have_count(4)
    expect(page.get_by_role("row", name=re.compile(r"partition\.shards_per_client 2"))).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("examples of a client"))).to_be_visible()
    keep(page, "board-run")
    page.go_back()
    expect(rows(page)).to_have_count(10)
    page.get_by_role("link", name="sweep", exact=True).click()
    expect(page.get_by_role("heading", name="Rounds to the target, by learning rate")).to_be_visible()
    expect(page.locator("#single tbody tr")).to_have_count(4)
    expect(page.locator("#single tbody tr").nth(2)).to_contain_text("the best")
    keep(page, "board-sweep")
    page.reload()
    expect(page.get_by_role("heading", name="sweep", exact=True)).to_be_visible()


def test_a_training_process_is_followed_to_its_end(tmp_path, board, open_page, keep, until):
    page = open_page(board(tmp_path / "runs").url)
    expect(page.get_by_text("There is no folder")).to_be_visible()
    command = [sys.executable, str(TOY_RUN), str(tmp_path / "runs" / "live"), "9000", "fed_avg"]
    training = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        row = rows(page).first
        expect(row.locator(".state")).to_have_text("running", timeout=60_000)
        label = page.locator("#curves .plot")
        expect(label).to_have_attribute("aria-label", re.compile("live"))
        number = re.compile(r"^(\d[\d,]*) /")

        def at():
            return int(number.match(row.locator("td.rounds-cell").inner_text())[1].replace(",", ""))

        first = at()
        until(page, f"parseInt(document.querySelector('.rounds-cell').innerText) > {first + 3}")
        page.get_by_role("link", name="live", exact=True).click()
        expect(page.get_by_text(re.compile(r"Round \d+ of 9000 in progress"))).to_be_visible()
        keep(page, "board-live")
        drawn = page.locator(".tiles").inner_text()
        until(page, f"document.querySelector('.tiles').innerText !== {json.dumps(drawn)}")
        page.reload()  # the same view, still alive
        expect(page.get_by_text(re.compile(r"Round \d+ of 9000 in progress"))).to_be_visible()
    finally:
        training.kill()
        training.communicate()
    # The process is gone, and its lock with it.
    expect(page.locator("h1 + p .state")).to_have_text("interrupted")
    last = RunFolder(tmp_path / "runs" / "live").history().last_round
    again = [sys.executable, str(TOY_RUN), str(tmp_path / "runs" / "live"), str(last + 3), "fed_avg"]
    subprocess.run(again, capture_output=True, check=True)
    expect(page.locator("h1 + p .state")).to_have_text("ended", timeout=30_000)
    expect(page.locator("#said")).to_contain_text(re.compile("live: "))


def test_a_lost_connection_is_said_and_comes_back_by_itself(folder, board, open_page, keep):
    served = board(folder)
    page = open_page(
        served.url, expected=("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET")
    )
    expect(page.locator("#link")).to_have_text("live")
    served.end()
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"Connection lost.*shown as of \d\d:\d\d:\d\d"))
    expect(page.locator("#link")).to_have_text("connection lost")
    expect(rows(page)).to_have_count(10)  # what was known stays
    keep(page, "board-lost")
    shutil.rmtree(folder / "diverged")
    served.start()
    expect(page.locator("#link")).to_have_text("live")
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(rows(page)).to_have_count(9)


@pytest.mark.parametrize("look", [("light", DESK), ("dark", PHONE)], ids=["light-desk", "dark-phone"])
@pytest.mark.parametrize("view", ["#/", "#/run/shards-1", "#/sweep/sweep", "#/run/unreadable"])
def test_nothing_keeps_anybody_from_using_it(folder, board, open_page, keep, serious_faults, until, view, look):
    scheme, size = look
    page = open_page(board(folder).url + view, scheme=scheme, size=size)
    expect(page.locator("#rows tr, #single h1").first).to_be_visible()
    until(page, "document.querySelector('.plot canvas') || location.hash.includes('unreadable')")
    assert serious_faults(page) == []
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{wide} pixels beyond the screen's edge"
    name = re.sub(r"\W+", "-", view).strip("-") or "runs"
    keep(page, f"board-{name}-{scheme}-{size['width']}")


def test_dark_follows_the_readers_choice(folder, board, open_page):
    page = open_page(board(folder).url, scheme="dark")
    expect(rows(page)).to_have_count(10)
    look = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(look)
    page.emulate_media(color_scheme="light")
    assert page.evaluate(look) != dark


def test_a_hostile_name_is_a_name(tmp_path, board, open_page):
    name = "<img src=x onerror=document.title='taken'>"
    spec_json = {"task": "<b>bold</b>", "partition": {"name": "iid"}, "algorithm": {"name": name}, "rounds": 3}
    with RunWriter.create(tmp_path / "runs" / name, RunSpec(**spec_json), {"num_clients": 2}):
        pass
    page = open_page(board(tmp_path / "runs").url)
    expect(page.get_by_role("link", name=name)).to_be_visible()
    page.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    assert page.locator("img, main b").count() == 0
    assert "taken" not in page.title().split(" - ")[0].replace(name, "")


def test_five_hundred_runs_of_two_thousand_rounds_open_in_a_second(tmp_path, board, open_page, keep, until):
    """The promise is one second on a quiet machine; three leave room for a loaded one."""
    runs = tmp_path / "runs"
    for number in range(10):
        write_many(runs, number)
    served = board(runs)
    page = open_page("about:blank")
    page.goto(served.url, wait_until="commit")
    took = until(page, "document.querySelectorAll('#rows tr').length === 100 && performance.now()")
    until(page, "Boolean(document.querySelector('canvas'))")
    keep(page, "board-500")
    expect(page.locator("#count")).to_have_text("500 runs")
    assert took < 3000, f"{took:.0f} ms"
    page.get_by_role("button", name=re.compile("Show 100 more")).click()
    expect(rows(page)).to_have_count(200)


def write_many(runs, number, copies=50, rounds=2000):
    """Fifty runs with one content: files of their own, as large as those of real runs."""
    first = runs / f"run-{number}-0"
    spec = RunSpec(
        task="mnist-2nn",
        partition={"name": "iid", "num_clients": 100},
        algorithm={"name": "fed_avg", "client_fraction": 0.1, "learning_rate": 0.1, "local_epochs": number + 1},
        rounds=rounds,
        target=0.9,
    )
    with RunWriter.create(first, spec, {"num_clients": 100}) as writer:
        lines = []
        for t in range(rounds + 1):
            value = 0.98 - 0.88 / (1 + t / (20 + number))
            evaluation = {"loss": 2 * (1 - value), "accuracy": value}
            lines.append(report_line(RoundReport(t, 10, 6000, 600, 0.1, 0.5, 0.123456, evaluation, 0.0345)) + "\n")
        (first / "history.jsonl").write_text("".join(lines))
        writer.finish({"rounds": rounds, "best": 0.97, "diverged": None, "rounds_to_target": 200.5 + number})
    for copy in range(1, copies):
        shutil.copytree(first, runs / f"run-{number}-{copy}")
