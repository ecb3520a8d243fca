"""Mime-lite (Karimireddy et al. 2021, "Breaking the centralized barrier"): clients that step as a central one would.

The server keeps momentum m, and every client uses it, unchanged, in each of its steps, so that a step is what SGD with
momentum would do if it went on from the server's:

    client:  w <- w - η ((1 - β) ∇ℓ(w; b) + β m)        once per minibatch
    server:  w_{t+1} <- w_t + Σ n_k/m_t (w^k - w_t)
             m <- (1 - β) Σ n_k/m_t ∇F_k(w_t) + β m

The momentum follows from full gradients at the server's model, not from where clients went; so a client first takes
one pass over its data for ∇F_k(w_t), which doubles the cost of a round with E = 1. (Mime, without -lite, also corrects
each step with that gradient.) With β = 0 this is FedAvg, at that price.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from stayput.algorithms.fed_avg import FedAvg
from stayput.core.algorithm import Algorithm, ClientFacts, ClientProgram, GradientAt
from stayput.core.rules import require_below_one
from stayput.core.tensors import FULL_GRADIENT, WEIGHTS, Groups, add_in_own_dtype, descend, difference

MOMENTUM = "momentum"
"""The group of the server's state, and of what clients are sent, that holds m."""


@dataclass(frozen=True)
class MimeLite(FedAvg):
    """Clients step with the server's momentum, which follows from full gradients."""

    name: ClassVar[str] = "mime_lite"

    momentum: float = 0.9
    """β, how much of the last round's direction is kept."""

    def __post_init__(self) -> None:
        """Refuse settings that break their rules."""
        super().__post_init__()
        require_below_one("momentum", self.momentum, "0 keeps nothing of the last round's direction")

    def algorithm(self) -> Algorithm:
        """The record of functions."""
        beta = self.momentum

        def step(local: Groups, gradient_at: GradientAt, facts: ClientFacts) -> Groups:
            """w <- w - η ((1 - β) ∇ℓ(w; b) + β m)."""
            weights, momentum = local[WEIGHTS], local[MOMENTUM]
            direction = {
                name: (1 - beta) * gradient + beta * momentum[name] for name, gradient in gradient_at(weights).items()
            }
            return {**local, WEIGHTS: descend(weights, direction, facts.learning_rate)}

        def server_update(state: Groups, mean: Groups) -> Groups:
            moves = {group: tensors for group, tensors in mean.items() if group != FULL_GRADIENT}
            momentum = {
                name: (beta * old + (1 - beta) * mean[FULL_GRADIENT][name]).to(old.dtype)
                for name, old in state[MOMENTUM].items()
            }
            return {**add_in_own_dtype(state, moves), MOMENTUM: momentum}

        return replace(
            super().algorithm(),
            init=init,
            client=ClientProgram(start, step, finish, full_gradient=True),
            server_update=server_update,
        )


def init(model: Groups) -> Groups:
    """The model, and momentum that begins at zero."""
    return {**model, MOMENTUM: {name: torch.zeros_like(weight) for name, weight in model[WEIGHTS].items()}}


def start(sent: Groups, facts: ClientFacts) -> Groups:  # noqa: ARG001 - the signature every program shares
    """Begin at the server's model, with the server's momentum."""
    return {group: tensors for group, tensors in sent.items() if group != FULL_GRADIENT}


def finish(sent: Groups, local: Groups, facts: ClientFacts) -> Groups:  # noqa: ARG001 - shared signature
    """How far the client moved, and its full gradient at the server's model."""
    model = {group: tensors for group, tensors in sent.items() if group not in {MOMENTUM, FULL_GRADIENT}}
    return {**difference(local, model), FULL_GRADIENT: sent[FULL_GRADIENT]}
