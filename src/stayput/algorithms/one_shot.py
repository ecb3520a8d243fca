"""One-shot averaging: every client trains to the end on its own, and the models are averaged once.

The other end of the FedAvg family (the paper's related work: Zinkevich et al. 2010, Zhang et al. 2012): one round
with C=1 and many local epochs. In the worst case it is no better than one client's model; it is the baseline that
shows what communicating more than once buys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from stayput.algorithms.fed_avg import FedAvg
from stayput.core.algorithm import Algorithm
from stayput.core.rules import BatchSize, require_batch_size, require_count


@dataclass(frozen=True)
class OneShotAveraging:
    """A single round over all clients."""

    name: ClassVar[str] = "one_shot"

    local_epochs: int = 20
    """E, passes over a client's data before the one average."""
    batch_size: BatchSize = 50
    """B, the local minibatch size, or "all" for a client's whole data."""
    learning_rate: float = 0.1
    """η, of the clients' SGD."""

    def __post_init__(self) -> None:
        """Refuse settings that break their rules."""
        require_count("local_epochs", self.local_epochs, "one round: there is nothing to schedule")
        require_batch_size("batch_size", self.batch_size)
        self.as_fed_avg()

    def as_fed_avg(self) -> FedAvg:
        """FedAvg with C=1, which is run for one round."""
        return FedAvg(
            client_fraction=1.0,
            local_epochs=self.local_epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
        )

    def algorithm(self) -> Algorithm:
        """The record of functions."""
        return replace(self.as_fed_avg().algorithm(), name=self.name, only_rounds=1)
