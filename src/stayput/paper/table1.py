"""Table 1: the effect of the client fraction C, on the 2NN with E=1 and on the CNN with E=5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stayput.core.rules import BatchSize
from stayput.paper.cells import IID_100, SHARDS_100, Cell, evaluations, fed_avg
from stayput.paper.exhibits import Entry, Row, Section, Table
from stayput.paper.published import TABLE_1, Setting

FRACTIONS = (0.0, 0.1, 0.2, 0.5, 1.0)
COLUMNS: tuple[tuple[Mapping[str, Any], BatchSize], ...] = (
    (IID_100, "all"), (IID_100, 10), (SHARDS_100, "all"), (SHARDS_100, 10)
)  # fmt: skip
MOST_ROUNDS: dict[tuple[str, BatchSize], int] = {
    ("mnist-2nn", "all"): 3000, ("mnist-2nn", 10): 1000, ("mnist-cnn", "all"): 1500, ("mnist-cnn", 10): 600
}  # fmt: skip
"""The rounds that are allowed; one client a round gets twice as many."""
CENTRES: dict[tuple[str, BatchSize], int] = {
    ("mnist-2nn", "all"): -3, ("mnist-2nn", 10): -5, ("mnist-cnn", "all"): -3, ("mnist-cnn", 10): -5
}  # fmt: skip


def _entry(task: str, trained: str, fraction: float, epochs: int, column: int, target: float) -> Entry:
    partition, size = COLUMNS[column]
    printed = TABLE_1[Setting(task, partition["name"], fraction, epochs, size)].rounds
    cell = Cell(
        task=trained,
        partition=partition,
        algorithm=fed_avg(fraction, epochs, size),
        rounds=MOST_ROUNDS[task, size] * (2 if fraction == 0 else 1),
        target=target,
        centre=CENTRES[task, size] - (1 if fraction == 0 else 0),
        evaluate_every=evaluations(printed),
        expected_rounds=printed,
    )
    return Entry(printed, target, (cell,))


def _section(title: str, task: str, trained: str, epochs: int, target: float) -> Section:
    rows = [
        Row((f"{fraction:.1f}",), tuple(_entry(task, trained, fraction, epochs, column, target) for column in range(4)))
        for fraction in FRACTIONS
    ]
    return Section(title, tuple(rows))


TABLE = Table(
    name="table1",
    title="Table 1: rounds to the target for different client fractions C",
    labels=("C",),
    columns=("IID, B=∞", "IID, B=10", "Non-IID, B=∞", "Non-IID, B=10"),
    sections=(
        _section("2NN, E=1, 97%", "mnist-2nn", "mnist-2nn-paper", 1, 0.97),
        _section("CNN, E=5, 99%", "mnist-cnn", "mnist-cnn", 5, 0.99),
    ),
)
