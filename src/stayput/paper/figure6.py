"""Figure 6 (appendix): the training loss of the CNN over more rounds than figure 2, C=0.1, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stayput.core.rules import BatchSize
from stayput.paper.cells import IID_100, SHARDS_100, TRAIN, Cell, fed_avg
from stayput.paper.exhibits import Figure, Line, Panel, named

ROWS: tuple[tuple[int, BatchSize, int], ...] = ((1, "all", -3), (1, 50, -4), (1, 10, -5), (5, 10, -5), (20, 10, -6))
"""E, B and the middle of the grid, of the rows of table 2 that are drawn."""
ROUNDS = 500


def _panel(title: str, partition: Mapping[str, Any]) -> Panel:
    lines = []
    for epochs, size, centre in ROWS:
        cell = Cell(
            "mnist-cnn", partition, fed_avg(0.1, epochs, size), ROUNDS, centre=centre, evaluate_every=5,
            measured_on=TRAIN, expected_rounds=ROUNDS,
        )  # fmt: skip
        lines.append(Line("FedSGD" if (epochs, size) == (1, "all") else f"E={epochs} B={named(size)}", cell))
    return Panel(title, tuple(lines), log=True)


FIGURE = Figure(
    "figure6",
    "Figure 6: training loss over rounds, MNIST CNN, C=0.1",
    (_panel("IID", IID_100), _panel("Non-IID", SHARDS_100)),
)
