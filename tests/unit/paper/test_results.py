"""Files of cells: what is written is what is read, and files of several machines add up."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from stayput.core.history import Curve
from stayput.errors import CorruptData
from stayput.paper.cells import IID_100, Cell, fed_avg
from stayput.paper.results import MeasuredCurve, Results, is_settled, outcome

CELL = Cell("mnist-2nn-paper", IID_100, fed_avg(0.1, 1, 10), rounds=100, target=0.97)


def rising(last, *, at=0.97, length=None):
    length = length or last
    return Curve(np.arange(length + 1), np.linspace(0.0, at * length / last, length + 1))


def test_what_is_written_is_what_is_read(tmp_path, keep):
    keep(Results(tmp_path), CELL, {-4: rising(40), -3: Curve(np.array([0, 1]), np.array([0.1, np.nan]))})
    curves = Results(tmp_path).curves(CELL, 0)
    assert curves[-4].curve.values == pytest.approx(rising(40).values, abs=6e-6)
    assert np.isnan(curves[-3].curve.values[1])
    assert Results(tmp_path).curves(CELL, 1) == {}


def test_files_of_two_machines_add_up_by_copying(tmp_path, keep):
    keep(Results(tmp_path / "a"), CELL, {-5: rising(60), -4: rising(50)})
    keep(Results(tmp_path / "b"), CELL, {-4: rising(50, length=30), -3: rising(45)})
    keep(Results(tmp_path / "b"), CELL, {-4: rising(70)}, seed=1)
    for path in (tmp_path / "b").iterdir():
        shutil.copy(path, tmp_path / "a")
    merged = Results(tmp_path / "a")
    assert list(merged.curves(CELL, 0)) == [-5, -4, -3]
    assert merged.curves(CELL, 0)[-4].last == 50  # the longer one
    assert merged.seeds(CELL) == [0, 1]
    one = outcome(CELL, merged.curves(CELL, 0))
    assert (one.state, one.exponent, one.inside) == ("measured", -3, False)
    assert one.rounds == pytest.approx(45, abs=0.01)


def test_the_same_question_has_the_same_name_and_others_have_others(tmp_path, keep):
    results = Results(tmp_path)
    other = Cell(**{**vars(CELL), "algorithm": fed_avg(0.1, 1, 50)})
    quick = CELL.quickened()
    for cell in (CELL, CELL, other, quick):
        keep(results, cell, {-4: rising(5)})
    assert len(list(tmp_path.glob("*.json"))) == 3
    assert len(results.of(CELL)) == 1
    assert quick.key != CELL.key  # the short version never mixes with the whole one


def test_cells_of_other_clients_do_not_mix(tmp_path, keep):
    results = Results(tmp_path)
    for exponent in (-5, -4, -3):
        keep(results, CELL, {exponent: rising(50)})
    path = next(path for path in tmp_path.iterdir() if '"k":-3' in path.read_text())
    path.write_text(path.read_text().replace('"partition_fingerprint": "a"', '"partition_fingerprint": "b"'))
    assert list(Results(tmp_path).curves(CELL, 0)) == [-5, -4]


@pytest.mark.parametrize(
    ("ended", "length", "settled"),
    [("diverged", 3, True), ("hopeless", 30, True), ("behind", 30, True), ("unfinished", 30, False),
     ("rounds", 100, True), ("unfinished", 100, True)],
)  # fmt: skip
def test_whether_more_rounds_would_tell_more(tmp_path, keep, ended, length, settled):
    results = Results(tmp_path)
    keep(results, CELL, {0: rising(200, length=length)}, ended=ended)
    curve = results.curves(CELL, 0)[0]
    assert is_settled(curve, CELL) is settled
    assert outcome(CELL, {0: curve}).state == ("not reached" if settled else "unfinished")
    if ended == "behind":  # behind a target, but a figure goes on without one
        assert not is_settled(curve, Cell(**{**vars(CELL), "target": None}))


def test_a_file_that_is_no_cell_is_named(tmp_path):
    (tmp_path / "broken.json").write_text('{"curves": [')
    with pytest.raises(CorruptData, match=r"broken\.json"):
        Results(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: text.index('"curves"') - 20],
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: text.replace('"machine"', '"engine"'),
        lambda text: text.replace('"partition_fingerprint"', '"fingerprint"'),
        lambda text: text.replace('"format": 1', '"format": 2'),
    ],
    ids=["cut before its curves", "cut in half", "empty", "no machine", "no fingerprint", "of a newer stayput"],
)
def test_a_file_that_is_not_whole_is_named_rather_than_left_out(tmp_path, keep, damage):
    keep(Results(tmp_path), CELL, {-4: rising(40)})
    (path,) = tmp_path.glob("*.json")
    path.write_text(damage(path.read_text()))
    with pytest.raises(CorruptData, match=path.name):
        Results(tmp_path)


def test_bytes_that_are_no_text_are_named(tmp_path):
    (tmp_path / "cell.json").write_bytes(b'\xff"curves"')
    with pytest.raises(CorruptData, match=r"cell\.json: cannot be read"):
        Results(tmp_path)


def test_a_rate_that_was_never_a_number_has_no_best_value():
    curve = MeasuredCurve(-4, Curve(np.arange(2), np.array([np.nan, np.nan])), "diverged")
    assert outcome(CELL, {-4: curve}).best_value is None
