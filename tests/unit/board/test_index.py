"""What the page lists, from folders in every state."""

import fcntl
import json
import time

import pytest

from stayput.board.index import RunsIndex
from stayput.board.locks import locked_inodes
from stayput.runs.run_writer import RunWriter


def listed(index, now=None):
    index.refresh(now)
    return {row["id"]: row for row in index.rows()}


def test_a_folder_that_is_not_there_or_empty_has_no_rows(tmp_path):
    assert listed(RunsIndex(tmp_path / "nothing")) == {}
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes").mkdir()
    assert listed(RunsIndex(tmp_path / "empty")) == {}


def test_a_row_says_what_the_run_is_and_how_far(runs):
    runs.write("a", (0.1, 0.95, 0.93), result={"best": 0.95, "rounds_to_target": 0.94})
    row = listed(RunsIndex(runs.folder))["a"]
    assert (row["state"], row["round"], row["rounds"], row["value"], row["best"]) == ("reached", 2, 100, 0.93, 0.95)
    assert row["spark"] == [[0, 1, 2], [0.1, 0.95, 0.93]]
    assert row["settings"]["learning_rate"] == "0.1"
    assert (row["task"], row["metric"], row["higher"], row["target"]) == ("toy", "accuracy", True, 0.9)


def test_sweeps_are_folders_of_runs(runs):
    runs.write("sw/rate=0.1")
    runs.write("deep/er/rate=0.2")
    assert {name: row["sweep"] for name, row in listed(RunsIndex(runs.folder)).items()} == {
        "sw/rate=0.1": "sw",
        "deep/er/rate=0.2": "deep/er",
    }


def test_how_a_run_ended(runs):
    runs.write("ended", result={"best": 0.5})
    runs.write("up", result={"best": 0.5, "diverged": "loss nan"})
    runs.write("cut", age=3600)
    states = {name: row["state"] for name, row in listed(RunsIndex(runs.folder)).items()}
    assert states == {"ended": "ended", "up": "diverged", "cut": "interrupted"}


def test_a_run_is_running_while_its_lock_is_held(runs):
    if locked_inodes() is None:
        pytest.fail("/proc/locks cannot be read here")
    index = RunsIndex(runs.folder)
    with RunWriter.create(runs.folder / "a", runs.spec_of(), {"num_clients": 10}) as writer:
        assert listed(index, time.time() + 9999)["a"]["state"] == "running"
        writer.add_report(runs.report_of(0, 0.2), {"weights": {}})
    assert listed(index)["a"]["state"] == "interrupted"  # at once: its lock had been seen


def test_locks_are_listed_and_never_taken(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert path.stat().st_ino in locked_inodes()
    assert path.stat().st_ino not in locked_inodes()
    assert locked_inodes(tmp_path / "nothing") is None


def test_a_run_without_a_spec_yet_is_being_prepared(runs):
    path = runs.folder / "a"
    path.mkdir(parents=True)
    with (path / "lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        index = RunsIndex(runs.folder)
        assert listed(index)["a"]["state"] == "preparing"
    runs.write("b")
    assert listed(index)["b"]["state"] in ("running", "interrupted")


def break_runs(runs):
    """Folders that hold no run that can be read, and what their rows say."""
    for name in ("newer", "cut", "torn", "result", "list"):
        runs.write(name, result={"best": 0.5} if name == "result" else None)
    runs.spec("newer", spec_version=99)
    (runs.folder / "cut" / "spec.json").write_text('{"task"')
    (runs.folder / "torn" / "history.jsonl").write_bytes(b"\x00\xff\nwhat\n")
    (runs.folder / "result" / "result.json").write_text("[]")
    (runs.folder / "list" / "spec.json").write_text("[1]")
    return {
        "newer": ("newer", "reads versions up to 1"),
        "cut": ("broken", "cannot be read as JSON"),
        "torn": ("broken", "not a round's report"),
        "result": ("broken", "result.json"),
        "list": ("broken", "spec.json"),
    }


def test_what_cannot_be_read_is_a_row_with_the_reason_and_stays_one(runs):
    runs.write("good")
    expected = break_runs(runs)
    index = RunsIndex(runs.folder)
    for _ in range(12):  # also when it is looked at again, unchanged
        rows = listed(index)
    assert rows["good"]["value"] == 0.5
    for name, (state, reason) in expected.items():
        assert rows[name]["state"] == state, name
        assert reason in rows[name]["reason"], name
    json.dumps(list(rows.values()), allow_nan=False)


def test_a_run_that_is_mended_is_shown_again(runs):
    runs.write("a")
    text = (runs.folder / "a" / "spec.json").read_text()
    (runs.folder / "a" / "spec.json").write_text("{")
    index = RunsIndex(runs.folder)
    assert listed(index)["a"]["state"] == "broken"
    (runs.folder / "a" / "spec.json").write_text(text)
    for _ in range(11):
        rows = listed(index)
    assert rows["a"]["reason"] == ""
    assert rows["a"]["round"] == 1


def test_values_that_are_not_numbers_are_null(runs):
    runs.write("a", (0.1, float("nan"), float("inf")))
    rows = listed(RunsIndex(runs.folder))
    assert rows["a"]["value"] is None
    json.dumps(list(rows.values()), allow_nan=False)


def test_only_what_changed_is_told(runs):
    runs.write("a", age=100)
    runs.write("b")
    index = RunsIndex(runs.folder)
    seen = index.refresh()
    index.refresh()  # what is going on is read through a little later
    seen = index.refresh()
    assert index.refresh() == seen
    assert index.rows(seen) == []
    runs.add("b", 2, 0.7)
    after = index.refresh()
    assert [row["id"] for row in index.rows(seen)] == ["b"]
    runs.write("c")
    index.refresh()
    assert [row["id"] for row in index.rows(after)] == ["c"]


def test_a_run_that_is_gone_is_told(runs):
    import shutil

    runs.write("a")
    runs.write("b")
    index = RunsIndex(runs.folder)
    seen = index.refresh()
    shutil.rmtree(runs.folder / "a")
    index.refresh()
    assert index.removed(seen) == ["a"]
    assert set(listed(index)) == {"b"}
    runs.write("a")
    index.refresh()
    assert index.removed(seen) == []


def test_the_best_value_of_a_run_that_has_not_ended_is_found(runs):
    runs.write("a", [0.1, 0.99, *[0.5] * 1000])
    index = RunsIndex(runs.folder)
    row = listed(index)["a"]
    assert row["best"] == 0.99
    assert row["rounds_to_target"] == pytest.approx(0.8 / 0.89)


def test_curves_are_whole_then_what_was_added(runs):
    runs.write("a", [n / 2000 for n in range(1500)])
    index = RunsIndex(runs.folder)
    index.refresh()
    found = index.series("a")
    assert found["whole"]
    assert found["last_round"] == 1499
    assert len(found["curves"]["accuracy"]["x"]) <= 600
    assert found["curves"]["accuracy"]["y"][-1] == 1499 / 2000
    assert set(found["curves"]) == {"accuracy", "loss", "train_loss", "seconds"}
    runs.add("a", 1500, 0.9)
    added = index.series("a", after=1499)
    assert not added["whole"]
    assert added["curves"]["accuracy"] == {"x": [1500], "y": [0.9]}
    assert index.series("nobody") is None


def test_a_history_with_a_broken_line_is_drawn_up_to_there(runs):
    path = runs.write("a") / "history.jsonl"
    path.write_bytes(path.read_bytes() + b"what\n")
    index = RunsIndex(runs.folder)
    index.refresh()
    found = index.series("a")
    assert found["curves"]["accuracy"]["x"] == [0, 1]
    assert "line 3" in found["broken"]


def test_looking_writes_nothing_and_changes_no_times(runs):
    runs.write("a")
    before = {path: path.stat().st_mtime_ns for path in runs.folder.rglob("*")}
    index = RunsIndex(runs.folder)
    index.refresh()
    index.series("a")
    index.details("a")
    assert {path: path.stat().st_mtime_ns for path in runs.folder.rglob("*")} == before


def test_a_member_of_a_sweep_has_the_pace_of_its_rounds_as_they_come(runs):
    import os

    runs.write("a", (0.1, 0.2))
    path = runs.folder / "a" / "history.jsonl"
    start = time.time() - 100
    os.utime(path, (start, start))
    index = RunsIndex(runs.folder)
    assert listed(index)["a"]["pace"] == 0.5  # what the round says of itself
    for number in (2, 3, 4):
        runs.add("a", number, 0.3)
        os.utime(path, (start + 20 * number, start + 20 * number))
        rows = listed(index)
    assert rows["a"]["pace"] == pytest.approx(20, rel=0.01)
