"""What a round asks of an engine: train these clients, and yield their updates.

An engine decides how: one client after another, hundreds stacked into one tensor program, or spread over machines.
It is made for one task and one population, and keeps the data where it computes. It trains each client as

    given = work.given(client)              # what was sent; and the client's memory, where the program has one
    given["full_gradient"] = ∇F_k(w_t)      # where the program asks for it
    local = program.start(given, facts)
    for each minibatch:                     # in the order of `core.local_work.passes`
        local = program.step(local, gradient_at, facts)
    update = program.finish(given, local, facts)

and all engines agree: bit for bit where the arithmetic is the same, within a stated tolerance elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from stayput.core.algorithm import ClientProgram
from stayput.core.local_work import LocalPlan
from stayput.core.seeds import Indices
from stayput.core.tensors import MEMORY, Groups, Tensors, all_finite
from stayput.core.weighted_sum import WeightedSum


class KeptByClients(Protocol):
    """What clients keep from round to round, by the client's number. A dict is such a thing."""

    def get(self, client: int, /) -> Tensors | None:
        """A client's, or None if it keeps nothing yet."""
        ...


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
    memory: KeptByClients = field(default_factory=dict[int, Tensors])
    """What clients keep, where the program has such a thing; who has nothing yet begins with zeros."""
    following: Callable[[], tuple[Indices, LocalPlan]] | None = None
    """The cohort and the plan of the round after this one, if there is one: an engine may prepare it ahead."""

    def given(self, client: int) -> dict[str, Tensors]:
        """What a client's program is given: what was sent, and the client's memory if it has one."""
        if self.program.memory is None:
            return dict(self.sent)
        fresh = self.program.memory(self.sent)
        kept = self.memory.get(client)
        if kept is None:
            return {**self.sent, MEMORY: {name: torch.zeros_like(tensor) for name, tensor in fresh.items()}}
        return {**self.sent, MEMORY: {name: kept[name].to(tensor.device) for name, tensor in fresh.items()}}


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


@dataclass(frozen=True, slots=True)
class CohortResult:
    """What a whole cohort learned in a round: the mean of its updates, and what each client reported.

    The sequences are in the order of the cohort.
    """

    mean: Groups
    """Σ n_k/m_t · update_k, in float64."""
    num_examples: Sequence[int]
    num_steps: Sequence[int]
    train_losses: Sequence[float]
    finite: Sequence[bool]
    """Whether every number in a client's update is finite, as far as the engine looked."""
    memory: Mapping[int, Tensors] = field(default_factory=dict)
    """What clients keep now, by client, where the program has such a thing."""
    finite_mean: bool | None = None
    """Whether every number of the mean is finite, if the engine has looked: on a GPU, once for many experiments."""


def summed(work: RoundWork, updates: Iterable[ClientUpdate]) -> CohortResult:
    """The cohort's result from its clients' updates, whatever order they come in."""
    total = WeightedSum(work.cohort)
    reports = []
    memory: dict[int, Tensors] = {}
    for update in updates:
        finite = all_finite(update.update)
        if work.program.memory is not None:
            memory[update.client] = update.update[MEMORY]
        leaving = {group: tensors for group, tensors in update.update.items() if group != MEMORY}
        total.add(update.client, leaving, weight=update.num_examples)  # n_k
        reports.append((update.client, update.num_examples, update.num_steps, update.train_loss, finite))
    reports.sort()  # by client
    _, num_examples, num_steps, losses, finite_updates = zip(*reports, strict=True)
    return CohortResult(total.mean(), num_examples, num_steps, losses, finite_updates, memory)


class Engine(Protocol):
    """Trains clients for one task and one population."""

    def initial_model(self, seed: int) -> Groups:
        """w_0 on the engine's device: the task's model, initialised from the run's seed."""
        ...

    def train(self, work: RoundWork) -> Iterator[ClientUpdate]:
        """Yield the update of each client of the cohort, in any order."""
        ...

    def run(self, works: Sequence[RoundWork]) -> Sequence[CohortResult]:
        """Train several cohorts, each of an experiment of its own, and sum up each. Engines may do it at once."""
        ...

    def evaluate(self, model: Groups) -> Mapping[str, float]:
        """The loss and the metrics of a model on the test examples; empty if there are none."""
        ...
