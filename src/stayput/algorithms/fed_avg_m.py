"""FedAvgM (Hsu et al. 2019, "Measuring the Effects of Non-Identical Data Distribution"): momentum at the server.

    v <- β v + Σ n_k/m_t (w^k - w_t)
    w_{t+1} <- w_t + η_s v

What clients do is FedAvg's. With β = 0 and η_s = 1 so is what the server does, to the last bit: its memory is float64
and the model is rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from stayput.algorithms.fed_avg import FedAvg
from stayput.algorithms.server_state import apart_from, beside_weights, scaled
from stayput.core.algorithm import Algorithm
from stayput.core.rules import require_below_one, require_positive
from stayput.core.tensors import WEIGHTS, Groups, add_in_own_dtype

MOMENTUM = "momentum"
"""The group of the server's state that holds v."""


@dataclass(frozen=True)
class FedAvgM(FedAvg):
    """Federated averaging with momentum at the server."""

    name: ClassVar[str] = "fed_avg_m"

    server_learning_rate: float = 1.0
    """η_s, of the server's step."""
    momentum: float = 0.9
    """β, how much of the last round's direction is kept."""

    def __post_init__(self) -> None:
        """Refuse settings that break their rules."""
        super().__post_init__()
        require_positive("server_learning_rate", self.server_learning_rate, "1 takes the mean as it is")
        require_below_one("momentum", self.momentum, "0 keeps nothing of the last round's direction")

    def algorithm(self) -> Algorithm:
        """The record of functions."""

        def server_update(state: Groups, mean: Groups) -> Groups:
            velocity = {name: self.momentum * old + mean[WEIGHTS][name] for name, old in state[MOMENTUM].items()}
            moved = add_in_own_dtype(state, {**mean, WEIGHTS: scaled(velocity, self.server_learning_rate)})
            return {**moved, MOMENTUM: velocity}

        return replace(
            super().algorithm(),
            init=beside_weights({MOMENTUM: 0.0}),
            broadcast=apart_from(MOMENTUM),
            server_update=server_update,
        )
