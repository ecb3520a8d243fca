"""`stayput reproduce` on the command line: what it refuses, what it lists, what it writes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from stayput.cli.reproduce import seconds_of_budget
from stayput.errors import InvalidSetting


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("25m", 1500), ("2h", 7200), ("5", 300), ("0.5m", 30)])
def test_a_budget_is_a_time(text, seconds):
    assert seconds_of_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "0s", "-3m", "soon", "infh", "nan"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(InvalidSetting, match="budget="):
        seconds_of_budget(text)


def test_unknown_exhibits_are_named_with_the_known_ones(command):
    ended = command("reproduce", "table9")
    assert ended.code == 2
    assert "table2-lstm" in ended.err


def test_a_grid_has_rates(command):
    assert command("reproduce", "table4", "--grid", "0").code == 2
    refused = command("reproduce", "list", "table4", "--grid", "44")
    assert (refused.code, "grid=44: must be at most 43 learning rates, from 0.0001 to 1000" in refused.err) == (2, True)


@pytest.mark.parametrize("arguments", [["list", "--quick"], ["table4", "--seeds", "0:1000000000000:1000000000001"]])
def test_what_cannot_be_meant_is_refused(command, arguments):
    assert command("reproduce", *arguments).code == 2


@pytest.mark.parametrize("what", ["figure1", "page"])
def test_a_damaged_figure_is_one_sentence(command, tmp_path, what):
    (tmp_path / "results").mkdir()
    for damaged in ('{"thetas": [', '{"thetas": [], "different": [], "shared": [], "provenance": {}}', "[]"):
        (tmp_path / "results" / "figure1-s0.json").write_text(damaged)
        ended = command("reproduce", what, "--results", str(tmp_path / "results"))
        assert (ended.code, "remove it or copy it anew" in ended.err) == (3, True)


@pytest.mark.parametrize("arguments", [["figure1", "--results", "file"], ["figure1", "--results", "file/inner"],
                                       ["page", "--output", "file/paper.md"]])  # fmt: skip
def test_a_place_that_cannot_be_written_is_one_sentence(command, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    ended = command("reproduce", *arguments)
    assert (ended.code, "file" in ended.err) == (2, True)


def test_without_data_cells_are_left_out_and_that_is_an_error(command, monkeypatch):
    from stayput.data import DATA_SETS
    from stayput.errors import DataUnavailable

    def absent(*_, **__):
        raise DataUnavailable("posts: is not here")

    monkeypatch.setitem(DATA_SETS, "posts", replace(DATA_SETS["posts"], load=absent))
    ended = command("reproduce", "figure5", "--quick")
    assert ended.code == 3
    assert "left out" in ended.err
    assert "posts: is not here" in ended.err


def test_the_list_says_how_many_runs_are_left_and_asks_nobody_for_data(command, monkeypatch):
    monkeypatch.setattr("stayput.paper.planning.calibrated_speed", lambda cell, workshop: 100.0)
    rows = {row["name"]: row for row in json.loads(command("reproduce", "list", "--json", "--grid", "5").out)}
    assert len(rows) == 15
    assert rows["table4"]["cells"] == 18
    assert rows["table4"]["runs_left"] == 18 * 5
    assert rows["table4"]["seconds_left"] > rows["figure1"]["seconds_left"] > 0
    assert "table4" in command("reproduce", "list").out


def test_the_page_of_nothing_says_not_run(command, tmp_path):
    (tmp_path / "docs").mkdir()
    assert command("reproduce", "page").code == 0
    assert "not run" in (tmp_path / "docs" / "paper.md").read_text()


def test_a_spent_budget_has_an_exit_code_of_its_own(command, monkeypatch):
    from toy_workshop import ToyWorkshop

    monkeypatch.setattr("stayput.paper.workshop.Workshop", lambda *_: ToyWorkshop())
    ended = command("reproduce", "table4", "--grid", "3", "--budget", "0.01s")
    assert ended.code == 7
    assert "the same command goes on" in ended.err


def test_a_table_is_measured_and_told(command, monkeypatch, tmp_path):
    from toy_workshop import ToyWorkshop

    monkeypatch.setattr("stayput.paper.workshop.Workshop", lambda *_: ToyWorkshop())
    ended = command("reproduce", "table4", "--quick", "--json")
    assert ended.code == 0
    plain = json.loads(ended.out)
    assert plain["quick"]
    assert plain["places"] == []  # numbers of the short version are never those of a table
    assert list((tmp_path / "results" / "quick").glob("*.json"))
    assert "QUICK" in command("reproduce", "table4", "--quick").out


@pytest.mark.parametrize("what", ["list", "table4"])
def test_a_device_that_is_not_here_is_refused_at_once(command, what):
    ended = command("reproduce", what, "--device", "abacus")
    assert ended.code == 2
    assert "device='abacus'" in ended.err
