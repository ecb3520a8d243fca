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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from stayput.core.algorithm import ClientProgram
from stayput.core.local_work import LocalPlan
from stayput.core.seeds import Indices
from stayput.core.tensors import Groups, all_finite
from stayput.core.weighted_sum import WeightedSum


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
    following: Callable[[], tuple[Indices, LocalPlan]] | None = None
    """The cohort and the plan of the round after this one, if there is one: an engine may prepare it ahead."""


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


def summed(work: RoundWork, updates: Iterable[ClientUpdate]) -> CohortResult:
    """The cohort's result from its clients' updates, whatever order they come in."""
    total = WeightedSum(work.cohort)
    reports = []
    for update in updates:
        total.add(update.client, update.update, weight=update.num_examples)  # n_k
        finite = all_finite(update.update)
        reports.append((update.client, update.num_examples, update.num_steps, update.train_loss, finite))
    reports.sort()  # by client
    _, num_examples, num_steps, losses, finite_updates = zip(*reports, strict=True)
    return CohortResult(total.mean(), num_examples, num_steps, losses, finite_updates)


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
