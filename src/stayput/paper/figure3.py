"""Figure 3: many local epochs on the LSTM, B=10, C=0.1, at the fixed rate of 1.47: the training loss may plateau.

Curves are as they are, not made monotone, as the paper says of this figure. Which E it shows is not in its text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stayput.paper.cells import TRAIN, Cell, fed_avg
from stayput.paper.exhibits import Figure, Line, Panel
from stayput.paper.table2_lstm import BY_ROLE, IID

EPOCHS = (1, 5, 10, 25, 50)


def many_epochs_panel(
    title: str,
    task: str,
    partition: Mapping[str, Any],
    *,
    exponent: int,
    epochs: Sequence[int],
    rounds: int,
    every: int = 1,
) -> Panel:
    """The training loss for several E at one fixed rate."""
    cells = [
        Cell(
            task, partition, fed_avg(0.1, e, 10), rounds, rates=(exponent,), evaluate_every=every,
            measured_on=TRAIN, expected_rounds=rounds,
        )
        for e in epochs
    ]  # fmt: skip
    lines = tuple(Line(f"E={e}", cell) for e, cell in zip(epochs, cells, strict=True))
    return Panel(title, lines, log=True)


FIGURE = Figure(
    "figure3",
    "Figure 3: many local epochs on the Shakespeare LSTM, B=10, C=0.1, η=1.47",
    (
        many_epochs_panel("IID", "shakespeare-lstm", IID, exponent=1, epochs=EPOCHS, rounds=40),
        many_epochs_panel("by role", "shakespeare-lstm", BY_ROLE, exponent=1, epochs=EPOCHS, rounds=40),
    ),
    monotone=False,
)
