"""Central SGD: minibatch SGD on all data in one place, the paper's CIFAR-10 baseline (B=100).

Not federated: the data is pooled first. A "round" is a fixed number of minibatch updates, 1 in the paper, whose
every update would cost a round of communication. Minibatches come from one endless sequence of reshuffled passes
that goes on from round to round, so the number of updates in a round does not change what is learned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from stayput.algorithms.fed_avg import FedAvg
from stayput.core.algorithm import Algorithm
from stayput.core.local_work import LocalPlan
from stayput.core.rules import BatchSize, require_batch_size, require_count


@dataclass(frozen=True)
class CentralSgd:
    """Plain SGD on pooled data."""

    name: ClassVar[str] = "central_sgd"

    batch_size: BatchSize = 100
    """B, the minibatch size, or "all" for full-batch gradient descent."""
    learning_rate: float = 0.1
    """η in round 1."""
    learning_rate_decay: float = 1.0
    """η is multiplied with this after every round."""
    updates_per_round: int = 1
    """Minibatch updates between two evaluations; the paper counts each update as a round."""

    def __post_init__(self) -> None:
        """Refuse settings that break their rules."""
        require_count("updates_per_round", self.updates_per_round, "the paper counts each update as a round")
        require_batch_size("batch_size", self.batch_size)  # no schedule: the sequence of minibatches is one
        self.as_fed_avg()

    def as_fed_avg(self) -> FedAvg:
        """FedAvg on a population of one, the pool; `plan` replaces its epochs by numbered minibatches."""
        return FedAvg(
            client_fraction=1.0,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            learning_rate_decay=self.learning_rate_decay,
        )

    def plan(self, round_number: int) -> LocalPlan:
        """The round's stretch of the endless sequence of minibatches."""
        last = round_number * self.updates_per_round
        stretch = range(last - self.updates_per_round, last)
        return replace(self.as_fed_avg().plan(round_number), minibatches=stretch)

    def algorithm(self) -> Algorithm:
        """The record of functions."""
        record = self.as_fed_avg().algorithm()
        return replace(record, name=self.name, plan=self.plan, pools_clients=True)
