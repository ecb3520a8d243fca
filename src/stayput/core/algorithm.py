"""The shape of a federated algorithm: a record of pure functions, cut where the network is.

      server                              client k
      init(weights)      -> state
      plan(round)        -> LocalPlan
      broadcast(state)   -> sent  ......> start(sent, facts)              -> local
                                          step(local, gradient_at, facts) -> local     once per minibatch
                         update <........ finish(sent, local, facts)      -> update
      server_update(state, mean of updates) -> state

All of it speaks dicts of tensors. The functions keep nothing, change nothing they are given, and never ask which
client they run for; so the same record drives a plain loop, hundreds of clients stacked under `vmap`, a Ray
cluster, and clients behind a network. The model and the loss stay outside: a step gets `gradient_at`, a function
from weights to the gradient of the mean loss over the minibatch at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from stayput.core.local_work import LocalPlan
from stayput.core.tensors import Groups, Tensors

GradientAt = Callable[[Tensors], Tensors]
"""The gradient of the mean loss over the minibatch at hand, as a function of the weights. The caller owns the result
and may write over it."""


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """What a client knows about its work in a round. Numbers, or one-per-lane tensors in a stacking engine."""

    learning_rate: float | Tensor
    """η in this round."""
    num_examples: int | Tensor
    """n_k."""
    num_steps: int | Tensor
    """u_k, the local steps the client takes."""


@dataclass(frozen=True, slots=True)
class ClientProgram:
    """ClientUpdate of the paper's Algorithm 1, as three functions."""

    start: Callable[[Groups, ClientFacts], Groups]
    """From what the server sent to the client's local state."""
    step: Callable[[Groups, GradientAt, ClientFacts], Groups]
    """One minibatch. The local state holds the current weights in its group "weights"."""
    finish: Callable[[Groups, Groups, ClientFacts], Groups]
    """From what was sent and the final local state to the update that goes back."""
    full_gradient: bool = False
    """Whether the client first takes ∇F_k(w_t), the gradient of its mean loss over all its data at the model it was
    sent: `start` and `finish` find it in the group "full_gradient" of `sent`."""
    memory: Callable[[Groups], Tensors] | None = None
    """From what was sent to tensors like those that the client keeps from one round it takes part in to the next; they
    begin as zeros. `start` and `finish` find them in the group "memory" of `sent`, and `finish` returns them as they
    are now in the group "memory" of the update, which stays at the client: whoever runs the program takes it out."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A federated algorithm."""

    name: str
    client_fraction: float
    """C, the share of clients in a round; 0 means one client."""
    init: Callable[[Groups], Groups]
    """The server's state before round 1, from the initial model (groups "weights" and perhaps "buffers")."""
    plan: Callable[[int], LocalPlan]
    """What clients are asked to do in a round (rounds count from 1)."""
    broadcast: Callable[[Groups], Groups]
    """What each client of the cohort is sent."""
    client: ClientProgram
    server_update: Callable[[Groups, Groups], Groups]
    """The next state, from the state and the mean of the updates, weighted with n_k / m_t."""
    over_population: tuple[str, ...] = ()
    """Groups of the update whose mean is over all clients, weighted with n_k / n: who was not in the cohort changed
    nothing, and adds zeros. For what the server keeps of clients' memories."""
    pools_clients: bool = False
    """The data is pooled into one place first: not federated, but the baseline federated learning is held to."""
    only_rounds: int | None = None
    """The number of rounds that this algorithm is, if it is not the caller's choice."""


class AlgorithmSettings(Protocol):
    """What a user writes: a frozen dataclass of settings, checked when made, that turns into an `Algorithm`."""

    @property
    def name(self) -> str:
        """The name in `stayput algorithms` and in a run's spec."""
        ...

    def algorithm(self) -> Algorithm:
        """The record of functions that these settings stand for."""
        ...
