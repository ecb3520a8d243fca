"""FedSGD, FederatedSGD: the paper's baseline, large-batch synchronous SGD.

Each client of the cohort computes one gradient over all its data, the server takes one step along their weighted
mean. That is FedAvg at one end of its family, E=1 and B="all", so it is that here too; with C=1 a round is one
exact step of full-batch gradient descent, and a test holds it to that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from stayput.algorithms.fed_avg import FedAvg
from stayput.core.algorithm import Algorithm


@dataclass(frozen=True)
class FedSgd:
    """One full-batch gradient per client and round."""

    name: ClassVar[str] = "fed_sgd"

    client_fraction: float = 0.1
    """C, the share of clients in a round; 0 selects one client."""
    learning_rate: float = 0.1
    """η, of the step on the mean gradient in round 1."""
    learning_rate_decay: float = 1.0
    """η is multiplied with this after every round."""

    def __post_init__(self) -> None:
        """Refuse settings that break their rules."""
        self.as_fed_avg()

    def as_fed_avg(self) -> FedAvg:
        """FedAvg with E=1 and B="all"."""
        return FedAvg(
            client_fraction=self.client_fraction,
            local_epochs=1,
            batch_size="all",
            learning_rate=self.learning_rate,
            learning_rate_decay=self.learning_rate_decay,
        )

    def algorithm(self) -> Algorithm:
        """The record of functions."""
        return replace(self.as_fed_avg().algorithm(), name=self.name)
