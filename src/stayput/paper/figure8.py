"""Figure 8 (appendix): many local epochs on the CNN, B=10, C=0.1, at η=0.215 (IID) and 0.1 (non-IID)."""

from __future__ import annotations

from stayput.paper.cells import IID_100, SHARDS_100
from stayput.paper.exhibits import Figure
from stayput.paper.figure3 import many_epochs_panel

EPOCHS = (1, 5, 10, 20, 40)

FIGURE = Figure(
    "figure8",
    "Figure 8: many local epochs on the MNIST CNN, B=10, C=0.1",
    (
        many_epochs_panel("IID, η=0.215", "mnist-cnn", IID_100, exponent=-4, epochs=EPOCHS, rounds=50),
        many_epochs_panel("Non-IID, η=0.1", "mnist-cnn", SHARDS_100, exponent=-6, epochs=EPOCHS, rounds=100, every=2),
    ),
    monotone=False,
)
