"""A round's work as parcels: clients that one worker trains before it is given others, and what comes back of them.

Where a cohort has many blocks (`core/weighted_sum.py`) for each worker, a parcel is a block: the worker adds up its
clients and returns one sum. Where it has few, a parcel is a few clients of a block, whose updates are returned one by
one. Either way the cohort's sum has the same bits, whoever trained whom. Lanes are the exception: what they compute
depends in the last bits on who shares them, so there a parcel is always a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stayput.core.engine import RoundWork
from stayput.core.local_work import LocalPlan
from stayput.core.weighted_sum import blocks_of
from stayput.data.federated_data import FederatedData
from stayput.engines.worker_process import Layout

Packed = tuple[Layout, npt.NDArray[np.uint8]]
"""Tensors as bytes, and where in them each lies."""

SHORT_SECONDS = 0.05
"""A parcel that takes less is not worth a message, if there are others it could be with."""
BLOCKS_PER_WORKER = 8
"""With this many blocks for each worker, whole blocks can be placed evenly."""
PARCELS_PER_WORKER = 16
"""Fewer clients in a parcel would cost more messages than they even out."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """Clients to be trained by one worker."""

    member: int
    """Which of the experiments."""
    clients: tuple[int, ...]
    whole_block: bool
    steps: int
    examples: int
    """In all these steps together."""


class Order(NamedTuple):
    """A parcel as a worker is given it, beside what its clients are sent."""

    round_number: int
    seed: int
    clients: tuple[int, ...]
    plan: LocalPlan
    summed: bool
    """Whether the updates are to be added up."""
    memory: Mapping[int, Packed]
    """What clients keep from round to round, where they keep anything yet."""


class Trained(NamedTuple):
    """What a worker returns."""

    clients: tuple[int, ...]
    num_examples: tuple[int, ...]
    num_steps: tuple[int, ...]
    train_losses: tuple[float, ...]
    finite: tuple[bool, ...]
    layouts: tuple[Layout, ...]
    """Of each client's update, or of the one sum; one behind the other in `content`."""
    content: npt.NDArray[np.uint8]
    memory: Mapping[int, Packed]
    summed: bool
    seconds: float
    """How long the training took, without the way there and back."""


class CostModel:
    """How long clients take: seconds per step and per example, from what was measured, later rounds counting more."""

    _FORGETTING = 0.98

    def __init__(self) -> None:
        self._products = np.zeros((2, 2))
        self._seconds = np.zeros(2)
        self.seconds_per_client: float | None = None
        """As it was lately; None before anything was measured."""

    def learn(self, parcel: Parcel, seconds: float) -> None:
        """Take what a parcel took."""
        features = np.array([parcel.steps, parcel.examples], dtype=np.float64)
        self._products = self._FORGETTING * self._products + np.outer(features, features)
        self._seconds = self._FORGETTING * self._seconds + features * seconds
        each, before = seconds / len(parcel.clients), self.seconds_per_client
        self.seconds_per_client = each if before is None else 0.9 * before + 0.1 * each

    def seconds(self, parcel: Parcel) -> float | None:
        """What a parcel should take; None before anything was measured."""
        if not self._products.any():
            return None
        # A little of the identity: where all clients are alike, what a step and what an example costs are one number.
        ridge = 1e-6 * np.trace(self._products) * np.eye(2)
        per_step, per_example = np.maximum(np.linalg.solve(self._products + ridge, self._seconds), 0)
        return float(per_step * parcel.steps + per_example * parcel.examples)

    def rank(self, parcel: Parcel) -> float:
        """By what the longest come first: by examples, as long as nothing was measured."""
        seconds = self.seconds(parcel)
        return float(parcel.examples) if seconds is None else seconds


def parcels_of(
    works: Sequence[RoundWork],
    clients: FederatedData,
    cost: CostModel,
    *,
    num_workers: int,
    always_blocks: bool = False,
) -> list[Parcel]:
    """All parcels of some works, the longest first."""
    parcels = []
    num_blocks = sum(len(blocks_of(len(work.cohort))) for work in works)
    num_clients = sum(len(work.cohort) for work in works)
    for member, work in enumerate(works):
        cohort = work.cohort.tolist()
        if always_blocks or num_blocks >= BLOCKS_PER_WORKER * num_workers:
            cuts, whole = blocks_of(len(cohort)), True
        else:
            size, whole = _few(num_clients, num_workers, cost), False
            cuts = [
                range(first, min(first + size, block.stop))
                for block in blocks_of(len(cohort))
                for first in range(block.start, block.stop, size)
            ]
        for cut in cuts:
            mine = tuple(cohort[position] for position in cut)
            parcels.append(Parcel(member, mine, whole, *_amount(work.plan, mine, clients)))
    return sorted(parcels, key=cost.rank, reverse=True)


def _few(num_clients: int, num_workers: int, cost: CostModel) -> int:
    """How many clients a parcel has where it is no block: more where clients are so short that messages would count."""
    few = max(1, num_clients // (PARCELS_PER_WORKER * num_workers))
    at_most = max(1, -(-num_clients // (2 * num_workers)))  # two parcels for each worker even things out
    if cost.seconds_per_client is None or cost.seconds_per_client >= SHORT_SECONDS:
        return few
    return min(at_most, max(few, int(SHORT_SECONDS / max(cost.seconds_per_client, 1e-6))))


def _amount(plan: LocalPlan, mine: Sequence[int], clients: FederatedData) -> tuple[int, int]:
    """The steps of some clients, and the examples in them."""
    sizes = [int(clients.client_sizes[client]) for client in mine]
    steps = [plan.num_steps(size) for size in sizes]
    return sum(steps), sum(count * plan.batch_length(size) for count, size in zip(steps, sizes, strict=True))
