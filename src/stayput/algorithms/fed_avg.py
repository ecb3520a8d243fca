"""FedAvg, FederatedAveraging: the paper's Algorithm 1.

Read `core/round.py` for the server's loop, `local_sgd.py` for ClientUpdate, and here for what each round asks of
its clients and what the server does with the mean. The settings are the paper's: C, E, B and η, and its two ways
of doing less over time: a decaying η, and schedules for E and B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stayput.algorithms.local_sgd import LOCAL_SGD
from stayput.core.algorithm import Algorithm
from stayput.core.local_work import LocalPlan
from stayput.core.rules import (
    require_batch_size,
    require_count,
    require_fraction,
    require_positive,
)
from stayput.core.schedules import ScheduledBatchSize, ScheduledCount, at_round, values_of
from stayput.core.tensors import Groups, add_in_own_dtype


@dataclass(frozen=True)
class FedAvg:
    """Federated averaging: clients train locally, the server averages, weighted with their examples.

    >>> FedAvg(client_fraction=0.1, local_epochs=5, batch_size=10, learning_rate=0.05).algorithm().name
    'fed_avg'
    """

    name: ClassVar[str] = "fed_avg"

    client_fraction: float = 0.1
    """C, the share of clients in a round; 0 selects one client."""
    local_epochs: ScheduledCount = 1
    """E, passes over a client's data in a round; may change over rounds, as {1: 20, 50: 5}."""
    batch_size: ScheduledBatchSize = 10
    """B, the local minibatch size, or "all" for a client's whole data; may change over rounds."""
    learning_rate: float = 0.1
    """η, of the clients' SGD in round 1."""
    learning_rate_decay: float = 1.0
    """η is multiplied with this after every round."""

    def __post_init__(self) -> None:
        """Refuse settings that break their rules."""
        require_fraction("client_fraction", self.client_fraction, "selects one client")
        for epochs in values_of("local_epochs", self.local_epochs):
            require_count("local_epochs", epochs, "passes over a client's data in a round")
        for size in values_of("batch_size", self.batch_size):
            require_batch_size("batch_size", size)
        require_positive("learning_rate", self.learning_rate, "the paper's are between 0.001 and 2")
        require_positive("learning_rate_decay", self.learning_rate_decay, "1 keeps the learning rate")

    def plan(self, round_number: int) -> LocalPlan:
        """What each client of a round does."""
        return LocalPlan(
            learning_rate=self.learning_rate * self.learning_rate_decay ** (round_number - 1),
            batch_size=at_round(self.batch_size, round_number),
            local_epochs=at_round(self.local_epochs, round_number),
        )

    def algorithm(self) -> Algorithm:
        """The record of functions."""
        return Algorithm(
            name=self.name,
            client_fraction=self.client_fraction,
            init=dict,
            plan=self.plan,
            broadcast=dict,
            client=LOCAL_SGD,
            server_update=average,
        )


def average(state: Groups, mean: Groups) -> Groups:
    """w_{t+1} <- w_t + Σ n_k/m_t (w^k - w_t), which is Σ n_k/m_t w^k."""
    return add_in_own_dtype(state, mean)
