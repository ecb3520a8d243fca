"""Figure 7 (appendix): test accuracy over rounds for the 2NN, C=0.1: figure 2 for table 4."""

from __future__ import annotations

from stayput.paper.exhibits import Figure
from stayput.paper.figure2 import panel_of
from stayput.paper.table4 import TABLE

FIGURE = Figure(
    "figure7",
    "Figure 7: test accuracy over rounds, MNIST 2NN, C=0.1",
    (panel_of(TABLE, 0, "MNIST 2NN, IID"), panel_of(TABLE, 1, "MNIST 2NN, Non-IID")),
)
