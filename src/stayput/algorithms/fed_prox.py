"""FedProx (Li et al. 2020, "Federated Optimization in Heterogeneous Networks"): clients that stay near the server.

Each client minimises its loss plus μ/2 · ‖w - w_t‖², which adds μ · (w - w_t) to every gradient. The server does what
FedAvg's does, and with μ = 0 so do the clients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from stayput.algorithms import local_sgd
from stayput.algorithms.fed_avg import FedAvg
from stayput.core.algorithm import Algorithm, ClientFacts, ClientProgram, GradientAt
from stayput.core.rules import require_at_least_zero
from stayput.core.tensors import WEIGHTS, Groups, descend

ANCHOR = "anchor"
"""The group of the local state that holds w_t."""


@dataclass(frozen=True)
class FedProx(FedAvg):
    """Federated averaging whose clients are pulled back towards the server's model."""

    name: ClassVar[str] = "fed_prox"

    mu: float = 0.01
    """μ, the strength of the pull; 0 is FedAvg."""

    def __post_init__(self) -> None:
        """Refuse settings that break their rules."""
        super().__post_init__()
        require_at_least_zero("mu", self.mu, "0 is FedAvg; the paper tries 0.001 to 1")

    def algorithm(self) -> Algorithm:
        """The record of functions."""
        mu = self.mu

        def step(local: Groups, gradient_at: GradientAt, facts: ClientFacts) -> Groups:
            """w <- w - η (∇ℓ(w; b) + μ (w - w_t))."""
            weights, anchor = local[WEIGHTS], local[ANCHOR]
            gradients = gradient_at(weights)
            pulled = {name: gradients[name] + mu * (weights[name] - anchor[name]) for name in weights}
            return {**local, WEIGHTS: descend(weights, pulled, facts.learning_rate)}

        return replace(super().algorithm(), client=ClientProgram(start, step, local_sgd.finish))


def start(sent: Groups, facts: ClientFacts) -> Groups:  # noqa: ARG001 - the signature every program shares
    """Begin at the server's model, and remember it."""
    return {**sent, ANCHOR: sent[WEIGHTS]}
