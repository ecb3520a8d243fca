"""Figure 5: the large-scale word LSTM, 200 clients a round: monotone curves of the best rates.

The paper's posts are not public. These are whatever posts by author the user has; the issue of scale is another
(`data/synthetic_posts.py`). It prints rates of 18 for FedSGD and 9 for FedAvg (B=8, E=1), evaluated every 20 rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stayput.core.rules import BatchSize
from stayput.paper.cells import Cell
from stayput.paper.exhibits import Figure, Line, Panel
from stayput.paper.published import WORD_LSTM_TARGET

BY_AUTHOR: Mapping[str, Any] = {"name": "by_key", "key": "author"}
CLIENTS_A_ROUND = 200


def word_cell(epochs: int, size: BatchSize, *, rounds: int, centre: int) -> Cell:
    """A setting on posts."""
    algorithm = {
        "name": "fed_avg", "clients_per_round": CLIENTS_A_ROUND, "local_epochs": epochs, "batch_size": size,
        "learning_rate_decay": 1.0,
    }  # fmt: skip
    return Cell("posts-lstm", BY_AUTHOR, algorithm, rounds, centre=centre, evaluate_every=20, expected_rounds=rounds)


FED_SGD = Line("FedSGD", word_cell(1, "all", rounds=1000, centre=8))
FED_AVG = Line("FedAvg, E=1 B=8", word_cell(1, 8, rounds=300, centre=6))
FED_AVG_5 = Line("FedAvg, E=5 B=8", word_cell(5, 8, rounds=200, centre=6))

FIGURE = Figure(
    "figure5",
    "Figure 5: the word LSTM on posts by author, 200 clients a round",
    (Panel("Posts by author", (FED_SGD, FED_AVG), WORD_LSTM_TARGET),),
)
