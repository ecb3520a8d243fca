"""What a round asks of an engine: train these clients, and yield their updates.

An engine decides how: one client after another, hundreds stacked into one tensor program, or spread over machines.
It is made for one task and one population, and keeps the data where it computes. It trains each client as

    local = program.start(sent, facts)
    for each minibatch:                     # in the order of `core.local_work.passes`
        local = program.step(local, gradient_at, facts)
    update = program.finish(sent, local, facts)

and all engines agree: bit for bit where the arithmetic is the same, within a stated tolerance elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from stayput.core.algorithm import ClientProgram
from stayput.core.local_work import LocalPlan
from stayput.core.seeds import Indices
from stayput.core.tensors import Groups


@dataclass(frozen=True, slots=True)
class RoundWork:
    """The local training of one round, as an engine is given it."""

    round_number: int
    seed: int
    """The run's seed: shuffles and dropout masks follow from (seed, round, client)."""
    cohort: Indices
    """S_t, in ascending order."""
    plan: LocalPlan
    sent: Groups
    """What every client of the cohort is sent."""
    program: ClientProgram


@dataclass(frozen=True, slots=True)
class ClientUpdate:
    """What comes back from one client."""

    client: int
    num_examples: int
    """n_k, the update's weight."""
    update: Groups
    num_steps: int
    train_loss: float
    """The mean loss over the minibatches it trained on, each before the step taken on it."""


class Engine(Protocol):
    """Trains clients for one task and one population."""

    def initial_model(self, seed: int) -> Groups:
        """w_0 on the engine's device: the task's model, initialised from the run's seed."""
        ...

    def train(self, work: RoundWork) -> Iterator[ClientUpdate]:
        """Yield the update of each client of the cohort, in any order."""
        ...

    def evaluate(self, model: Groups) -> Mapping[str, float]:
        """The loss and the metrics of a model on the test examples; empty if there are none."""
        ...
