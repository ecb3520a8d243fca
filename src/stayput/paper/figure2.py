"""Figure 2: test accuracy over rounds at C=0.1, the CNN and the LSTM, with the targets of table 2 as grey lines.

Most curves are those of table 2, which end a little after the target. The baseline and one FedAvg row go on beyond it,
for what the text says about where they end.
"""

from __future__ import annotations

from dataclasses import replace

from stayput.paper.exhibits import Figure, Line, Panel, Table
from stayput.paper.table2_cnn import TABLE as CNN
from stayput.paper.table2_lstm import TABLE as LSTM

BEYOND = {
    ("table2-cnn", "FedSGD"): 1200,
    ("table2-cnn", "E=5 B=10"): 300,
    ("table2-lstm", "FedSGD"): 4000,
    ("table2-lstm", "E=5 B=10"): 200,
    ("table4", "FedSGD"): 2500,
    ("table4", "E=10 B=10"): 300,
}
"""Rows that are trained on without a target, and for how many rounds."""


def row_name(labels: tuple[str, ...]) -> str:
    """FedSGD, or E=5 B=10."""
    algorithm, epochs, size, _ = labels
    return algorithm if algorithm == "FedSGD" else f"E={epochs} B={size}"


def panel_of(table: Table, column: int, title: str) -> Panel:
    """A column of a table as curves."""
    lines = []
    target = None
    for row in table.sections[0].rows:
        name, entry = row_name(row.labels), row.entries[column]
        (cell,), target = entry.cells, entry.target
        rounds = BEYOND.get((table.name, name))
        lines.append(Line(name, cell if rounds is None else replace(cell, rounds=rounds, target=None)))
    return Panel(title, tuple(lines), target)


FIGURE = Figure(
    "figure2",
    "Figure 2: test accuracy over rounds, CNN and LSTM, C=0.1",
    (
        panel_of(CNN, 0, "MNIST CNN, IID"),
        panel_of(CNN, 1, "MNIST CNN, Non-IID"),
        panel_of(LSTM, 0, "Shakespeare LSTM, IID"),
        panel_of(LSTM, 1, "Shakespeare LSTM, by role"),
    ),
)
