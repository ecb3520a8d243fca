"""A cell on toy data: dropped, interrupted, resumed, widened; what comes out is what an undisturbed cell gives."""

from __future__ import annotations

import json

import numpy as np
import pytest
from toy_workshop import InterruptedHereError, ToyWorkshop

from stayput.errors import CorruptData
from stayput.paper.cells import Cell, fed_avg
from stayput.paper.dropping import BEHIND, TARGET
from stayput.paper.measuring import BudgetSpentError, Measurer
from stayput.paper.rates import grid_around
from stayput.paper.results import Results

CELL = Cell("toy", {"name": "iid", "num_clients": 8}, fed_avg(0.5, 1, 4), rounds=12, target=0.9, centre=-6)
ENDLESS = Cell(**{**vars(CELL), "target": None, "centre": -9})


def measurer(folder, **settings):
    return Measurer(Results(folder), ToyWorkshop(), **{"grid": 3, **settings})


def values(folder, cell=CELL):
    return {k: (c.ended, c.curve.values.tolist(), c.model_sha256) for k, c in Results(folder).curves(cell, 0).items()}


def test_a_cell_is_measured_and_not_measured_again(tmp_path):
    first = measurer(tmp_path)
    first.measure(CELL, 0)
    assert first.missing(CELL, 0) == []
    written = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    again = measurer(tmp_path)
    again.measure(CELL, 0)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")} == written
    assert not list((tmp_path / "unfinished").iterdir())
    (result, *_) = Results(tmp_path).of(CELL)
    assert {"machine", "versions", "commit", "seconds", "engine", "example_passes"} <= set(result.provenance)
    assert result.data["num_clients"] == 8


def test_rates_end_at_the_target_or_behind_and_the_file_says_which(tmp_path):
    measurer(tmp_path, grid=5).measure(CELL, 0)
    curves = Results(tmp_path).curves(CELL, 0)
    ended = {curve.ended for curve in curves.values()}
    assert TARGET in ended
    best = min(c.curve.rounds_to(0.9) for c in curves.values() if c.ended == TARGET)
    for curve in curves.values():
        if curve.ended == BEHIND:
            assert "another rate reached the target" in curve.why
            assert curve.last >= best


def test_a_grid_is_widened_until_the_best_rate_is_inside(tmp_path):
    low = Cell(**{**vars(CELL), "centre": -12})
    measurer(tmp_path).measure(low, 0)
    tried = sorted(Results(tmp_path).curves(low, 0))
    assert tried[0] == grid_around(-12, 3)[0]
    assert tried[-1] > grid_around(-12, 3)[-1]


@pytest.mark.parametrize("spent_at", range(1, 12, 3))
def test_a_spent_budget_loses_nothing(tmp_path, spent_at):
    measurer(tmp_path / "whole").measure(ENDLESS, 0)
    ticks = iter(range(10_000))
    with pytest.raises(BudgetSpentError):
        # The clock moves at every look: the budget ends in another round for each parameter.
        measurer(tmp_path / "cut", deadline=4 + 3 * spent_at, clock=lambda: float(next(ticks))).measure(ENDLESS, 0)
    (state,) = (tmp_path / "cut" / "unfinished").iterdir()
    assert state.stat().st_size > 100
    assert any(curve.ended == "unfinished" for curve in Results(tmp_path / "cut").curves(ENDLESS, 0).values())
    (file,) = (tmp_path / "cut").glob("*.json")
    assert file.name.endswith("-unfinished.json")  # so that it takes no finished file's place when it is copied
    foreign = file.read_text()
    measurer(tmp_path / "cut").measure(ENDLESS, 0)
    assert not file.exists()
    file.write_text(foreign)
    assert measurer(tmp_path / "cut").missing(ENDLESS, 0) == []  # the longer curves count
    file.unlink()
    assert values(tmp_path / "cut", ENDLESS) == values(tmp_path / "whole", ENDLESS)
    assert not list((tmp_path / "cut" / "unfinished").iterdir())


def test_ctrl_c_between_any_two_rates_of_a_round_loses_nothing(tmp_path):
    measurer(tmp_path / "whole").measure(ENDLESS, 0)
    for number in (1, 2, 5):
        folder = tmp_path / f"cut-{number}"
        cut = measurer(folder)
        cut.workshop.interrupt_after(number)
        with pytest.raises(InterruptedHereError):
            cut.measure(ENDLESS, 0)
        measurer(folder).measure(ENDLESS, 0)
        assert values(folder, ENDLESS) == values(tmp_path / "whole", ENDLESS)


def test_a_damaged_state_is_said_and_the_cell_begins_anew(tmp_path):
    ticks = iter(range(10_000))
    with pytest.raises(BudgetSpentError):
        measurer(tmp_path, deadline=30, clock=lambda: float(next(ticks))).measure(ENDLESS, 0)
    (state,) = (tmp_path / "unfinished").iterdir()
    content = bytearray(state.read_bytes())
    content[-3] ^= 1
    state.write_bytes(content)
    notes = []
    measurer(tmp_path, on_note=notes.append).measure(ENDLESS, 0)
    assert any("damaged" in note for note in notes)
    measurer(tmp_path / "whole").measure(ENDLESS, 0)
    assert values(tmp_path, ENDLESS) == values(tmp_path / "whole", ENDLESS)


def test_a_rate_that_diverges_is_recorded_and_the_others_go_on(tmp_path):
    wild = Cell(**{**vars(CELL), "target": None, "rates": (-6, 17), "rounds": 60})
    measurer(tmp_path).measure(wild, 0)
    curves = Results(tmp_path).curves(wild, 0)
    assert curves[-6].ended == "rounds"
    assert curves[17].ended in ("diverged", "hopeless")


def test_two_seeds_are_two_files_and_differ(tmp_path):
    both = measurer(tmp_path)
    both.measure(ENDLESS, 0)
    both.measure(ENDLESS, 1)
    assert Results(tmp_path).seeds(ENDLESS) == [0, 1]
    one, other = (Results(tmp_path).curves(ENDLESS, seed) for seed in (0, 1))
    assert any(not np.array_equal(one[k].curve.values, other[k].curve.values) for k in one if k in other)


def test_a_file_is_small_text_with_curves_to_five_digits(tmp_path):
    measurer(tmp_path).measure(ENDLESS, 0)
    path = next(tmp_path.glob("*.json"))
    found = json.loads(path.read_text())
    assert all(value == round(value, 5) for curve in found["curves"] for value in curve["values"])
    assert path.stat().st_size < 20_000


def test_a_cell_is_not_trained_on_other_clients_than_its_files_were(tmp_path):
    measurer(tmp_path).measure(CELL, 0)
    before = {path: path.read_text() for path in tmp_path.glob("*.json")}
    for path, text in before.items():
        mark = json.loads(text)["data"]["partition_fingerprint"]
        path.write_text(text.replace(mark, "0" * len(mark)))
    with pytest.raises(CorruptData, match="were measured on other clients"):
        measurer(tmp_path).measure(CELL, 1)
    assert set(tmp_path.glob("*.json")) == set(before)
