"""The numbers that the paper prints, held against the speedups and the captions that it prints beside them."""

from __future__ import annotations

import pytest

from stayput.paper.published import TABLE_1, TABLES_2_AND_4, Setting, published_rounds

CNN, TWO_NN = "mnist-cnn", "mnist-2nn"


def rounds(table, task, partition, fraction, epochs, size):
    return table[Setting(task, partition, fraction, epochs, size)].rounds


def test_the_cell_that_the_demo_is_compared_with():
    cells = published_rounds(Setting(TWO_NN, "iid", 0.1, 1, 10))
    assert [(cell.rounds, cell.table, cell.target) for cell in cells] == [(87, "table 1", 0.97), (92, "table 4", 0.97)]


def test_five_cells_are_dashes():
    # The caption of table 1: "Five runs with the large batch size did not reach the target accuracy".
    dashes = [setting for setting, cell in TABLE_1.items() if cell.rounds is None]
    assert len(dashes) == 5
    assert {setting.batch_size for setting in dashes} == {"all"}


@pytest.mark.parametrize(
    ("task", "partition", "row", "printed"),
    [
        # The speedups that tables 2 and 4 print beside the rounds, over the FedSGD row.
        (CNN, "iid", (5, "all"), 3.5),
        (CNN, "iid", (1, 50), 9.6),
        (CNN, "iid", (20, "all"), 2.7),
        (CNN, "iid", (1, 10), 18.4),
        (CNN, "iid", (5, 50), 21.6),
        (CNN, "iid", (20, 50), 19.6),
        (CNN, "iid", (5, 10), 31.3),
        (CNN, "iid", (20, 10), 34.8),
        (CNN, "shards", (5, "all"), 0.5),
        (CNN, "shards", (1, 50), 0.8),
        (CNN, "shards", (20, "all"), 0.7),
        (CNN, "shards", (1, 10), 1.4),
        (CNN, "shards", (5, 50), 1.4),
        (CNN, "shards", (20, 50), 1.1),
        (CNN, "shards", (5, 10), 2.1),
        (CNN, "shards", (20, 10), 2.8),
        (TWO_NN, "iid", (10, "all"), 9.4),
        (TWO_NN, "iid", (1, 50), 10.2),
        (TWO_NN, "iid", (20, "all"), 16.0),
        (TWO_NN, "iid", (1, 10), 16.0),
        (TWO_NN, "iid", (10, 50), 32.6),
        (TWO_NN, "iid", (20, 50), 37.6),
        (TWO_NN, "iid", (10, 10), 43.2),
        (TWO_NN, "iid", (20, 10), 45.9),
        (TWO_NN, "shards", (10, "all"), 1.7),
        (TWO_NN, "shards", (1, 50), 1.5),
        (TWO_NN, "shards", (20, "all"), 1.9),
        (TWO_NN, "shards", (1, 10), 2.2),
        (TWO_NN, "shards", (10, 50), 2.1),
        (TWO_NN, "shards", (20, 50), 2.2),
        (TWO_NN, "shards", (10, 10), 3.7),
        (TWO_NN, "shards", (20, 10), 2.5),
    ],
)
def test_the_rounds_give_the_speedups_that_the_paper_prints(task, partition, row, printed):
    baseline = rounds(TABLES_2_AND_4, task, partition, 0.1, 1, "all")
    speedup = baseline / rounds(TABLES_2_AND_4, task, partition, 0.1, *row)
    assert speedup == pytest.approx(printed, abs=0.051)


@pytest.mark.parametrize(
    ("task", "epochs", "column", "printed"),
    [
        # The speedups that table 1 prints over its first row, C=0.
        (TWO_NN, 1, ("iid", "all"), [1.0, 0.9]),
        (TWO_NN, 1, ("iid", 10), [3.6, 4.1, 4.2, 4.5]),
        (TWO_NN, 1, ("shards", "all"), [2.4, 2.8]),
        (TWO_NN, 1, ("shards", 10), [4.9, 5.3, 7.4, 8.6]),
        (CNN, 5, ("iid", "all"), [1.1, 1.1, 2.4, 1.6]),
        (CNN, 5, ("iid", 10), [2.8, 2.8, 2.8, 3.1]),
        (CNN, 5, ("shards", "all"), [1.1, 1.2, 1.1]),
        (CNN, 5, ("shards", 10), [4.6, 4.8, 3.7, 9.9]),
    ],
)
def test_table_1_gives_the_speedups_that_the_paper_prints(task, epochs, column, printed):
    partition, size = column
    baseline = rounds(TABLE_1, task, partition, 0.0, epochs, size)
    ours = [rounds(TABLE_1, task, partition, fraction, epochs, size) for fraction in (0.1, 0.2, 0.5, 1.0)]
    assert [baseline / reached for reached in ours if reached] == pytest.approx(printed, abs=0.055)


def test_a_setting_that_the_paper_does_not_have():
    assert published_rounds(Setting(TWO_NN, "dirichlet", 0.1, 1, 10)) == []
