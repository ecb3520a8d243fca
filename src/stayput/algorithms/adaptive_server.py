"""What FedAdagrad, FedAdam and FedYogi share (Reddi et al. 2021, "Adaptive Federated Optimization", algorithm 2).

With Δ = Σ n_k/m_t (w^k - w_t), the mean of what clients moved:

    m <- β1 m + (1 - β1) Δ
    v <- what each of the three makes of v and Δ², for every weight
    w_{t+1} <- w_t + η_s m / (√v + τ)

m begins at 0 and v at τ², as in the paper; there is no correction for that beginning. Both stay at the server, in
float64. What clients do is FedAvg's; buffers are averaged as FedAvg averages them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from stayput.algorithms.fed_avg import FedAvg
from stayput.algorithms.server_state import apart_from, beside_weights
from stayput.core.algorithm import Algorithm
from stayput.core.rules import require_below_one, require_positive
from stayput.core.tensors import WEIGHTS, Groups, add_in_own_dtype

FIRST, SECOND = "first_moment", "second_moment"
"""The groups of the server's state that hold m and v."""


@dataclass(frozen=True)
class AdaptiveServer(FedAvg):
    """Federated averaging whose server adapts its step to each weight."""

    server_learning_rate: float = 0.01
    """η_s, of the server's step."""
    beta1: float = 0.9
    """β1, how much of the mean direction is kept from round to round."""
    tau: float = 0.001
    """τ, how adaptive the server is: the smaller, the more."""

    def __post_init__(self) -> None:
        """Refuse settings that break their rules."""
        super().__post_init__()
        require_positive("server_learning_rate", self.server_learning_rate, "the paper's are between 0.001 and 10")
        require_below_one("beta1", self.beta1, "0 takes each round's direction as it is")
        require_positive("tau", self.tau, "the paper's is 0.001")

    def second_moment(self, old: Tensor, squared: Tensor) -> Tensor:
        """The next v, from v and Δ²."""
        raise NotImplementedError

    def algorithm(self) -> Algorithm:
        """The record of functions."""

        def server_update(state: Groups, mean: Groups) -> Groups:
            first, second, step = {}, {}, {}
            for name, move in mean[WEIGHTS].items():
                first[name] = self.beta1 * state[FIRST][name] + (1 - self.beta1) * move
                second[name] = self.second_moment(state[SECOND][name], move.square())
                step[name] = self.server_learning_rate * first[name] / (second[name].sqrt() + self.tau)
            return {**add_in_own_dtype(state, {**mean, WEIGHTS: step}), FIRST: first, SECOND: second}

        return replace(
            super().algorithm(),
            init=beside_weights({FIRST: 0.0, SECOND: self.tau**2}),
            broadcast=apart_from(FIRST, SECOND),
            server_update=server_update,
        )
