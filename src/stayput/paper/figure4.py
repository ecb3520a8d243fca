"""Figure 4: CIFAR-10 test accuracy over rounds: FedAvg (E=5, B=50, decay 0.99) and FedSGD (decay 0.9934)."""

from __future__ import annotations

from dataclasses import replace

from stayput.paper.exhibits import Figure, Line, Panel
from stayput.paper.table3 import CELLS

_FED_AVG, _FED_SGD = CELLS["FedAvg"][0], CELLS["FedSGD"][0]

FIGURE = Figure(
    "figure4",
    "Figure 4: CIFAR-10 test accuracy over rounds, C=0.1",
    (
        Panel(
            "CIFAR-10",
            (
                Line("FedAvg, E=5 B=50, decay 0.99", replace(_FED_AVG, rounds=600, target=None, expected_rounds=600)),
                Line("FedSGD, decay 0.9934", replace(_FED_SGD, rounds=2000, target=None, expected_rounds=2000)),
            ),
        ),
    ),
)
