"""Figure 10 (appendix): the word LSTM's curves as they are, every 20 rounds: FedAvg's vary less, E=1 is above E=5."""

from __future__ import annotations

from stayput.paper.exhibits import Figure, Panel
from stayput.paper.figure5 import FED_AVG, FED_AVG_5, FED_SGD

FIGURE = Figure(
    "figure10",
    "Figure 10: the word LSTM's accuracy at every evaluation",
    (Panel("Posts by author", (FED_SGD, FED_AVG, FED_AVG_5)),),
    monotone=False,
)
