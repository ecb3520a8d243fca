"""What is done first, and how long it takes."""

from __future__ import annotations

import pytest

from stayput.errors import UnknownName
from stayput.paper.catalogue import FIGURES, TABLES, TITLES, cells_of, named
from stayput.paper.measuring import Measurer
from stayput.paper.planning import calibrated_speed, measured_speeds, passes_of, planned, runs_in, seconds_of
from stayput.paper.results import Results
from stayput.paper.workshop import Workshop
from stayput.tasks.catalogue import NAMED_TASKS


def test_every_table_and_figure_of_the_paper_is_there():
    tables = ["table1", "table2-cnn", "table2-lstm", "table3", "table4"]
    assert list(TITLES) == [*tables, *(f"figure{number}" for number in range(1, 11))]
    assert named(["all"]) == list(TITLES)
    assert named(["figure10", "table4"]) == ["table4", "figure10"]
    with pytest.raises(UnknownName, match="figure11"):
        named(["figure11"])


def test_tables_have_the_papers_number_of_places():
    cells = {name: len(table.cells) for name, table in TABLES.items()}
    assert cells == {"table1": 40, "table2-cnn": 18, "table2-lstm": 12, "table3": 6, "table4": 18}


@pytest.mark.parametrize("name", [*TABLES, *FIGURES])
def test_each_cell_can_be_trained(name):
    for cell in cells_of(name):
        assert cell.task in NAMED_TASKS
        assert cell.rounds % cell.evaluate_every == 0
        quick = cell.quickened()
        assert quick.rounds % quick.evaluate_every == 0
        assert passes_of(quick) < passes_of(cell)
        workshop = Workshop()
        for exponent in cell.rates or (cell.centre,):
            assert workshop.algorithm(workshop.spec(cell, exponent, 0, 1146)).client_fraction <= 1


def test_the_cheapest_of_each_comes_first_and_what_two_share_comes_once():
    works = planned(["table1", "table4"])
    assert [work.exhibit for work in works[:2]] == ["table1", "table4"]
    for name in ("table1", "table4"):
        mine = [work.cell for work in works if work.exhibit == name]
        same = [cell for cell in mine if cell.task == "mnist-2nn-paper"]
        assert [passes_of(cell) for cell in same] == sorted(passes_of(cell) for cell in same)
    keys = [f"{w.cell.key} {w.cell.rounds} {w.cell.target}" for w in works]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("other", ["table2-cnn", "table4"])
def test_settings_that_table_1_shares_with_another_table_are_one_cell(other):
    """C=0.1 with E=1 of the 2NN and E=5 of the CNN: four settings each, whatever rounds the two tables print."""
    mine, its = ({cell.key for cell in cells_of(name)} for name in ("table1", other))
    assert len(mine & its) == 4


def test_the_short_version_is_small_and_of_every_kind():
    works = planned(named(["all"]), quick=True)
    assert len(works) < 45
    assert {work.exhibit for work in works} >= set(TABLES)
    assert {work.cell.task for work in works if work.cell} == {
        "mnist-2nn-paper", "mnist-cnn", "shakespeare-lstm", "cifar10-cnn", "posts-lstm"
    }  # fmt: skip
    assert all(work.cell.quick for work in works if work.cell)


def test_times_follow_from_what_was_measured_on_a_machine_like_this(tmp_path, keep, crossing):
    from stayput.runs.environment import machine

    results = Results(tmp_path)
    cell = TABLES["table4"].cells[0]
    keep(results, cell, {-4: crossing([0.97], [10], 1, 100)})
    assert measured_speeds(results, "cpu") == {}  # another processor's
    result = results.all()[0]
    result.provenance["machine"].update(machine("cpu"))
    speeds = measured_speeds(results, "cpu")
    assert speeds == {"mnist-2nn-paper": 100.0}
    work = next(work for work in planned(["table4"]) if work.cell and work.cell.key == cell.key)
    assert seconds_of(work, 2, speeds) == pytest.approx(2 * passes_of(cell) / 100.0)
    assert seconds_of(work, 2, {}) is None


def test_runs_left_are_those_that_no_file_has(tmp_path, keep, crossing):
    results = Results(tmp_path)
    measurer = Measurer(results, Workshop(), grid=5)
    cell = TABLES["table4"].cells[0]
    work = next(work for work in planned(["table4"]) if work.cell and work.cell.key == cell.key)
    assert runs_in(work, measurer, [0, 1]) == 10
    keep(results, cell, {cell.centre: crossing([0.97], [40], 1, 3000)})
    assert runs_in(work, measurer, [0, 1]) == 9


def test_a_calibration_trains_a_few_rounds_of_several_rates():
    from toy_workshop import ToyWorkshop

    speed = calibrated_speed(TABLES["table4"].cells[0], ToyWorkshop())
    assert speed > 0


def test_where_the_data_are_not_here_nothing_is_judged(tmp_path, monkeypatch):
    monkeypatch.setenv("STAYPUT_CACHE", str(tmp_path))
    monkeypatch.delenv("STAYPUT_DATA", raising=False)
    assert calibrated_speed(FIGURES["figure5"].cells[0], Workshop()) is None
