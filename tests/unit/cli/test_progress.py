from __future__ import annotations

import io
import re
from itertools import count
from pathlib import Path

import pytest
from rich.console import Console

from stayput.cli.progress import DownloadLines, Lines, Pace, Silence, is_round_figure, watcher
from stayput.cli.progress_bar import Bar
from stayput.core.history import History, RoundReport
from stayput.runs.spec import RunSpec

SPEC = RunSpec(
    task="mnist-2nn",
    partition={"name": "unbalanced", "over": {"name": "shards"}, "sizes": "log_normal", "spread": 1.0},
    algorithm={"name": "fed_avg"},
    rounds=30,
    target=0.97,
)
FOLDER = Path("runs/a")


def watch(watching, rounds, *, first=0, seconds=0.5, clock=None, step=0.0):
    history = History()
    for number in range(first, rounds + 1):
        report = RoundReport(number, seconds=seconds if number else 0.0, evaluation={"accuracy": number / 100})
        history = history.with_report(report)
        if clock is not None:
            clock[0] += step
        watching.on_round(report, history)


def test_round_figures_are_one_two_and_five_times_powers_of_ten():
    assert [n for n in range(1001) if is_round_figure(n)] == [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]


def test_lines_come_at_round_figures_and_at_the_end(capsys):
    watch(Lines(SPEC, FOLDER, clock=lambda: 0.0), 30)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0] == "run runs/a: mnist-2nn, fed_avg, unbalanced over shards, up to 30 rounds, target 97%"
    assert [line.split("   ")[0] for line in lines[1:]] == [f"round {n} of 30" for n in (0, 1, 2, 5, 10, 20, 30)]
    assert lines[1] == "round 0 of 30   accuracy 0%   best 0%"
    assert lines[5] == "round 10 of 30   accuracy 10%   best 10%   2 rounds/s, 10.0 s left"
    assert lines[-1] == "round 30 of 30   accuracy 30%   best 30%   2 rounds/s"


def test_a_line_comes_after_ten_seconds_of_silence(capsys):
    clock = [0.0]
    watch(Lines(SPEC, FOLDER, clock=lambda: clock[0]), 9, clock=clock, step=4.0)
    rounds = [line.split()[1] for line in capsys.readouterr().err.splitlines()[1:]]
    assert rounds == ["0", "1", "2", "5", "8"]


def test_rounds_without_an_evaluation_have_no_line(capsys):
    watching = Lines(SPEC, FOLDER, clock=lambda: 0.0)
    watching.on_round(RoundReport(1), History((RoundReport(1),)))
    assert capsys.readouterr().err.splitlines() == [
        "run runs/a: mnist-2nn, fed_avg, unbalanced over shards, up to 30 rounds, target 97%"
    ]


def test_the_pace_is_that_of_this_process_and_of_the_latest_rounds():
    pace = Pace(1000)
    assert pace.after(RoundReport(0)) == ""
    assert pace.after(RoundReport(101, seconds=2.0, evaluation_seconds=2.0)) == "0.25 rounds/s, 59 min 56 s left"
    for number in range(102, 125):
        said = pace.after(RoundReport(number, seconds=0.02))
    assert said.startswith("50 rounds/s, ")


def test_silence_says_notes_only(capsys):
    silence = Silence()
    watch(silence, 5)
    silence.on_download("unpacking", 0, None)
    silence.on_note("torch has another version")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "note: torch has another version\n")


def test_a_download_says_each_step_once(capsys):
    download = DownloadLines()
    for done in (0, 100, 200):
        download("download https://a", done, 200)
    download("storing", 0, None)
    assert capsys.readouterr().err == "data: download https://a\ndata: storing\n"


def test_the_watcher_fits_where_stderr_goes(monkeypatch):
    assert type(watcher(SPEC, FOLDER, quiet=True)) is Silence
    assert type(watcher(SPEC, FOLDER, quiet=False)) is Lines
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.delenv("CI", raising=False)
    assert type(watcher(SPEC, FOLDER, quiet=False)) is Bar
    monkeypatch.setenv("CI", "true")  # whose log may look like a terminal
    assert type(watcher(SPEC, FOLDER, quiet=False)) is Lines


@pytest.fixture
def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)


def test_the_bar_shows_rounds_accuracy_best_pace_and_what_is_left(terminal):
    with Bar(SPEC, FOLDER, console=terminal, clock=count().__next__) as bar:
        bar.on_download("download https://a/[x]", 1_000_000, 2_000_000)
        watch(bar, 10)
        bar.on_note("a [bracketed] note")
    shown = terminal.file.getvalue()
    assert "run runs/a: mnist-2nn, fed_avg" in shown
    assert "note: a [bracketed] note" in shown
    last = shown.rsplit("round 10 of 30", 1)[1]
    assert "accuracy 10%  best 10%" in last
    assert "2 rounds/s, 10.0 s left" in last
    assert re.search(r"▁\S*█ accuracy", last)  # a small curve


def test_the_picture_of_a_history_is_not_drawn_for_every_quick_round(terminal, monkeypatch):
    drawn = []
    monkeypatch.setattr("stayput.cli.progress_bar.small_curve", lambda spec, history: drawn.append(history) or "")
    with Bar(SPEC, FOLDER, console=terminal, clock=lambda: 5.0) as bar:
        watch(bar, SPEC.rounds)
    assert len(drawn) == 2  # the first, and the last


def test_the_bar_survives_names_that_look_like_markup(terminal):
    with Bar(SPEC, Path("runs/[red]"), console=terminal) as bar:
        bar.on_download("download [/bold] now", 0, None)
        watch(bar, 1)
    assert "run runs/[red]: " in terminal.file.getvalue()
