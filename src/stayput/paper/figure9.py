"""Figure 9 (appendix): CIFAR-10 test accuracy by minibatch gradients (B=50): SGD, and FedAvg for several C and E.

A round is m clients · E passes · 500/50 minibatches; one of ours of SGD is a hundred. C=0 is one client a round.
"""

from __future__ import annotations

from stayput.paper.cells import IID_100, Cell, fed_avg
from stayput.paper.exhibits import Figure, Line, Panel
from stayput.paper.table3 import UPDATES_A_ROUND, central_sgd, cifar_cell

GRADIENTS = 60_000
"""How far each curve goes."""
SETTINGS = ((0.0, 1), (0.0, 5), (0.1, 1), (0.1, 5), (0.2, 1))
"""C and E."""
BATCHES_A_CLIENT = 10


def _line(fraction: float, epochs: int) -> Line:
    work = max(int(100 * fraction), 1) * epochs * BATCHES_A_CLIENT
    every = max(1, 1000 // work)
    rounds = GRADIENTS // work // every * every
    cell = Cell(
        "cifar10-cnn", IID_100, fed_avg(fraction, epochs, 50, 1.0), rounds, centre=-6, evaluate_every=every,
        expected_rounds=rounds,
    )  # fmt: skip
    return Line(f"FedAvg, C={fraction:g} E={epochs}", cell, work)


_SGD = Line(
    "SGD",
    cifar_cell(central_sgd(50, 1.0), rounds=GRADIENTS // UPDATES_A_ROUND, target=None, centre=-6, every=10),
    UPDATES_A_ROUND,
)

FIGURE = Figure(
    "figure9",
    "Figure 9: CIFAR-10 test accuracy by minibatch gradients, B=50",
    (Panel("CIFAR-10", (_SGD, *(_line(fraction, epochs) for fraction, epochs in SETTINGS))),),
    monotone=False,
    x_label="minibatch gradients",
)
