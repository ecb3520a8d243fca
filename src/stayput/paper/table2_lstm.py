"""Table 2, second half: the character LSTM on Shakespeare to 54% at C=0.1, by E and B.

The IID version deals the same training lines out evenly over as many clients, 1146 in the paper's text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stayput.paper.exhibits import Entry, Row, Section, Table
from stayput.paper.local_computation import COLUMNS, LABELS, local_cell, row_labels
from stayput.paper.published import LSTM_ROWS

BY_ROLE: Mapping[str, Any] = {"name": "by_key", "key": "role"}
IID: Mapping[str, Any] = {"name": "iid", "num_clients": 1146}
LINES_A_CLIENT = 74.2
"""n/K of the paper: its u column has 37.1 for E=5, B=10."""
TARGET = 0.54
CENTRES = {"all": 4, 50: 2, 10: 1}


def _rows() -> tuple[Row, ...]:
    rows = []
    for (epochs, size), printed in LSTM_ROWS.items():
        entries = tuple(
            Entry(
                rounds,
                TARGET,
                (
                    local_cell(
                        "shakespeare-lstm", partition, epochs, size,
                        rounds=max(100, 2 * rounds // 100 * 100), target=TARGET, centre=CENTRES[size], expected=rounds,
                    ),
                ),
            )
            for partition, rounds in zip((IID, BY_ROLE), printed, strict=True)
        )  # fmt: skip
        rows.append(Row(row_labels(epochs, size, LINES_A_CLIENT), entries))
    return tuple(rows)


TABLE = Table(
    "table2-lstm",
    "Table 2, LSTM: rounds to 54% on Shakespeare at C=0.1",
    LABELS,
    COLUMNS,
    (Section("54%", _rows()),),
)
