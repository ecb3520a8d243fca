from itertools import pairwise

import pytest

from stayput.board.growing import GrowingHistory, last_report, sampled_values
from stayput.errors import RunFolderError
from stayput.runs.run_folder import RunFolder


def columns(history):
    return list(history.rounds), {name: list(values) for name, (_, values) in history.evaluated.items()}


def test_a_history_is_read_on_from_where_it_was_read_to(runs):
    path = runs.write("a", (0.1, 0.2)) / "history.jsonl"
    history = GrowingHistory(path)
    assert history.read_on()
    assert not history.read_on()
    runs.add("a", 2, 0.3)
    assert history.read_on()
    assert columns(history) == ([0, 1, 2], {"accuracy": [0.1, 0.2, 0.3], "loss": [0.9, 0.8, 0.7]})


def test_it_reads_what_a_run_folder_reads(runs):
    path = runs.write("a", [None if n % 3 else n / 500 for n in range(400)])
    history, folder = GrowingHistory(path / "history.jsonl"), RunFolder(path)
    history.read_on()
    curve = folder.curve("accuracy")
    assert list(history.evaluated["accuracy"][0]) == curve.rounds.tolist()
    assert list(history.evaluated["accuracy"][1]) == curve.values.tolist()
    assert history.train_loss == [report.train_loss for report in folder.history().reports]


def test_a_line_that_is_being_written_is_left_for_later(runs):
    path = runs.write("a") / "history.jsonl"
    whole = path.read_bytes()
    line = whole.split(b"\n")[1].replace(b'"round_number": 1', b'"round_number": 2') + b"\n"
    history = GrowingHistory(path)
    for cut in range(0, len(line), 17):
        path.write_bytes(whole + line[:cut])
        history.read_on()
        assert list(history.rounds) == [0, 1]
    path.write_bytes(whole + line)
    assert history.read_on()
    assert list(history.rounds) == [0, 1, 2]


def test_a_run_that_went_back_is_read_anew(runs):
    path = runs.write("a", (0.1, 0.2, 0.3, 0.4)) / "history.jsonl"
    history = GrowingHistory(path)
    history.read_on()
    kept = path.read_bytes().split(b"\n")[:2]
    other = path.with_name("new")
    other.write_bytes(b"\n".join(kept) + b"\n")
    other.replace(path)
    runs.add("a", 2, 0.7)
    runs.add("a", 3, 0.8)
    history.read_on()
    assert columns(history)[1]["accuracy"] == [0.1, 0.2, 0.7, 0.8]


def test_no_history_yet(tmp_path):
    assert not GrowingHistory(tmp_path / "history.jsonl").read_on()


def test_a_broken_line_is_named(runs):
    path = runs.write("a") / "history.jsonl"
    path.write_bytes(path.read_bytes() + b"{}\nwhat\n")
    history = GrowingHistory(path)
    with pytest.raises(RunFolderError, match="line 3"):
        history.read_on()
    assert list(history.rounds) == [0, 1]  # what came before is kept


@pytest.mark.parametrize("length", [1, 2, 30, 3000])
def test_the_last_line_is_found_from_the_end(runs, length):
    path = runs.write("a", [n / 4000 for n in range(length)]) / "history.jsonl"
    assert last_report(path, path.stat().st_size).round_number == length - 1
    with path.open("ab") as file:
        file.write(b'{"round_number": 77, ')
    assert last_report(path, path.stat().st_size).round_number == length - 1


def test_no_last_line_before_there_is_one(tmp_path):
    (tmp_path / "h").write_bytes(b'{"round_nu')
    assert last_report(tmp_path / "h", 10) is None


@pytest.mark.parametrize("length", [3, 100, 4000])
def test_samples_are_evaluations_from_all_over(runs, length):
    path = runs.write("a", [n / 5000 for n in range(length)]) / "history.jsonl"
    points = sampled_values(path, path.stat().st_size, "accuracy")
    assert points[0][0] == 0
    assert points[-1][0] == length - 1
    assert all(value == number / 5000 for number, value in points)
    gaps = [after[0] - before[0] for before, after in pairwise(points)]
    assert max(gaps) <= max(length // 20, 1)
    assert len(points) <= 230
