"""SCAFFOLD (Karimireddy et al. 2020): control variates take out what makes clients drift apart.

Client k keeps c_k, an estimate of its own gradient, and the server keeps c = Σ n_k/n c_k over all K clients. A step is
corrected by the difference, so that clients walk together although their data differ:

    client:  w <- w - η (∇ℓ(w; b) - c_k + c)             once per minibatch, u_k of them
             c_k' = c_k - c + (w_t - w^k) / (u_k η)      (the paper's option II)
             returns w^k - w_t and c_k' - c_k; keeps c_k'
    server:  w_{t+1} <- w_t + η_g Σ n_k/m_t (w^k - w_t)
             c <- c + Σ n_k/n (c_k' - c_k)                over all clients; who did not train changed nothing

The paper weighs all clients alike; here both means are weighted with examples, as everywhere in stayput, so that the
corrections n_k (c - c_k) of all clients sum to zero whatever their sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from stayput.algorithms.fed_avg import FedAvg
from stayput.algorithms.server_state import beside_weights, scaled
from stayput.core.algorithm import Algorithm, ClientFacts, ClientProgram, GradientAt
from stayput.core.rules import require_positive
from stayput.core.tensors import MEMORY, WEIGHTS, Groups, Tensors, add_in_own_dtype, descend, difference, per_lane

CONTROL = "control"
"""The group of c in the server's state and in what is sent, and of c_k' - c_k in an update."""
CORRECTION = "correction"
"""The group of the local state that holds c - c_k."""


@dataclass(frozen=True)
class Scaffold(FedAvg):
    """Control variates, which every client keeps from round to round, against client drift."""

    name: ClassVar[str] = "scaffold"

    server_learning_rate: float = 1.0
    """η_g, of the server's step."""

    def __post_init__(self) -> None:
        """Refuse settings that break their rules."""
        super().__post_init__()
        require_positive("server_learning_rate", self.server_learning_rate, "1 takes the mean as it is")

    def algorithm(self) -> Algorithm:
        """The record of functions."""

        def server_update(state: Groups, mean: Groups) -> Groups:
            moves = {group: tensors for group, tensors in mean.items() if group != CONTROL}
            moves[WEIGHTS] = scaled(mean[WEIGHTS], self.server_learning_rate)
            control = {name: c + mean[CONTROL][name] for name, c in state[CONTROL].items()}
            return {**add_in_own_dtype(state, moves), CONTROL: control}

        return replace(
            super().algorithm(),
            init=beside_weights({CONTROL: 0.0}),
            broadcast=broadcast,
            client=ClientProgram(start, step, finish, memory=control_variate),
            server_update=server_update,
            over_population=(CONTROL,),
        )


def broadcast(state: Groups) -> Groups:
    """The model and c, which the server keeps in float64, in the model's dtype."""
    return {**state, CONTROL: {name: c.to(state[WEIGHTS][name].dtype) for name, c in state[CONTROL].items()}}


def control_variate(sent: Groups) -> Tensors:
    """What a client's c_k looks like."""
    return sent[CONTROL]


def start(sent: Groups, facts: ClientFacts) -> Groups:  # noqa: ARG001 - the signature every program shares
    """Begin at the server's model, with the correction c - c_k."""
    model = {group: tensors for group, tensors in sent.items() if group not in {CONTROL, MEMORY}}
    return {**model, CORRECTION: {name: c - sent[MEMORY][name] for name, c in sent[CONTROL].items()}}


def step(local: Groups, gradient_at: GradientAt, facts: ClientFacts) -> Groups:
    """w <- w - η (∇ℓ(w; b) + c - c_k)."""
    weights, correction = local[WEIGHTS], local[CORRECTION]
    corrected = {name: gradient + correction[name] for name, gradient in gradient_at(weights).items()}
    return {**local, WEIGHTS: descend(weights, corrected, facts.learning_rate)}


def finish(sent: Groups, local: Groups, facts: ClientFacts) -> Groups:
    """How far the client moved, how its control variate changed, and, to be kept, what it is now."""
    model = {group: tensors for group, tensors in sent.items() if group not in {CONTROL, MEMORY}}
    moved = difference(local, model)

    def change(name: str, c: Tensor) -> Tensor:
        """-c + (w_t - w^k) / (u_k η)."""
        move = moved[WEIGHTS][name]
        return -c - move / (per_lane(facts.num_steps, move) * per_lane(facts.learning_rate, move))

    changed = {name: change(name, c) for name, c in sent[CONTROL].items()}
    kept = {name: old + changed[name] for name, old in sent[MEMORY].items()}
    return {**moved, CONTROL: changed, MEMORY: kept}
