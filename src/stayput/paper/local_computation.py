"""Tables of rounds by E and B at C=0.1, in the paper's order, which is that of u: what tables 2 and 4 share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stayput.core.rules import BatchSize
from stayput.paper.cells import IID_100, SHARDS_100, Cell, evaluations, fed_avg
from stayput.paper.exhibits import Entry, Row, Section, Table, named, updates_text
from stayput.paper.published import TABLES_2_AND_4, Setting

LABELS = ("algorithm", "E", "B", "u")
COLUMNS = ("IID", "Non-IID")


def mnist_table(
    name: str,
    title: str,
    *,
    task: str,
    trained: str,
    target: float,
    most_rounds: Mapping[str, int],
    centres: Mapping[BatchSize, int],
) -> Table:
    """The table of an MNIST model; `trained` is the named task, `task` what the published numbers are filed under."""
    settings = [(s.local_epochs, s.batch_size) for s in TABLES_2_AND_4 if s.task == task and s.partition == "iid"]
    rows = []
    for epochs, size in settings:
        entries = []
        for partition in (IID_100, SHARDS_100):
            printed = TABLES_2_AND_4[Setting(task, partition["name"], 0.1, epochs, size)].rounds
            cell = local_cell(
                trained, partition, epochs, size,
                rounds=most_rounds[partition["name"]], target=target, centre=centres[size], expected=printed,
            )  # fmt: skip
            entries.append(Entry(printed, target, (cell,)))
        rows.append(Row(row_labels(epochs, size, 600), tuple(entries)))
    return Table(name, title, LABELS, COLUMNS, (Section(f"{int(100 * target)}%", tuple(rows)),))


def local_cell(
    task: str,
    partition: Mapping[str, Any],
    epochs: int,
    size: BatchSize,
    *,
    rounds: int,
    target: float | None,
    centre: int,
    expected: int | None,
) -> Cell:
    """A cell with C=0.1."""
    return Cell(
        task, partition, fed_avg(0.1, epochs, size), rounds, target=target, centre=centre,
        evaluate_every=evaluations(expected), expected_rounds=expected,
    )  # fmt: skip


def row_labels(epochs: int, size: BatchSize, examples_a_client: float) -> tuple[str, ...]:
    """What stands before a row's rounds."""
    algorithm = "FedSGD" if (epochs, size) == (1, "all") else "FedAvg"
    return (algorithm, str(epochs), named(size), updates_text(epochs, size, examples_a_client))
