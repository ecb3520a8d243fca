"""A round's work as jobs: one client of one experiment each, with the rows of its every minibatch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stayput.core.algorithm import ClientProgram
from stayput.core.local_work import LocalPlan, passes
from stayput.core.seeds import Indices
from stayput.data.federated_data import FederatedData


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """What is known of a member's round before it begins: all of a `RoundWork` but what clients are sent."""

    seed: int
    round_number: int
    cohort: Indices
    plan: LocalPlan
    program: ClientProgram

    def is_that_of(self, other: Outline) -> bool:
        """Whether both ask for the same."""
        mine, theirs = (self.seed, self.round_number, self.plan), (other.seed, other.round_number, other.plan)
        return mine == theirs and self.program is other.program and np.array_equal(self.cohort, other.cohort)


@dataclass(frozen=True, slots=True)
class Job:
    """One client's training in one experiment."""

    member: int
    """Which of the experiments."""
    position: int
    """Which of its cohort."""
    client: int
    num_examples: int
    num_steps: int
    batch_length: int
    """The size of its full minibatches."""


def jobs_of(outlines: Sequence[Outline], clients: FederatedData) -> list[Job]:
    """Every client of every experiment."""
    jobs = []
    for member, outline in enumerate(outlines):
        sizes = clients.client_sizes[outline.cohort].tolist()
        for position, (client, size) in enumerate(zip(outline.cohort.tolist(), sizes, strict=True)):
            steps, length = outline.plan.num_steps(size), outline.plan.batch_length(size)
            jobs.append(Job(member, position, client, size, steps, length))
    return jobs


def by_padded_length(jobs: Iterable[Job], outlines: Sequence[Outline]) -> dict[int, list[Job]]:
    """Jobs that share a program: those whose minibatches are padded to one length.

    That is B, or for B="all" the next of the lengths 1, 2, 3, 4, 6, 8, 12, ... that hold a client's data.
    """
    groups: dict[int, list[Job]] = {}
    for job in jobs:
        batch_size = outlines[job.member].plan.batch_size
        padded = _next_length(job.batch_length) if batch_size == "all" else int(batch_size)
        groups.setdefault(padded, []).append(job)
    return groups


class RowsOfJobs:
    """The rows of jobs' minibatches. Members that differ in their learning rate alone share them."""

    def __init__(
        self,
        jobs: Sequence[Job],
        outlines: Sequence[Outline],
        clients: FederatedData,
        padded_length: int,
        *,
        in_stored_order: bool = False,
    ) -> None:
        self._jobs, self._outlines, self._clients, self._padded = jobs, outlines, clients, padded_length
        self._in_stored_order = in_stored_order
        self._known: dict[tuple[object, ...], tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]] = {}

    def job(self, number: int) -> Job:
        """A job by its number."""
        return self._jobs[number]

    def of(self, number: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Those of a job, [step, padded length], and how many of each are not padding, [step]."""
        job = self._jobs[number]
        outline = self._outlines[job.member]
        plan = outline.plan
        key = (outline.seed, outline.round_number, job.client, plan.batch_size, plan.local_epochs, plan.minibatches)
        if key not in self._known:
            key_of_shuffles = {"seed": outline.seed, "round_number": outline.round_number, "client": job.client}
            orders = (
                [np.arange(job.num_examples, dtype=np.int64)]
                if self._in_stored_order
                else passes(plan, job.num_examples, **key_of_shuffles)
            )
            self._known[key] = minibatch_rows(job, orders, self._clients, self._padded)
        return self._known[key]


def minibatch_rows(
    job: Job, orders: Iterable[Indices], clients: FederatedData, padded_length: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The rows of minibatches, [step, padded length], and how many of each are not padding, [step].

    `orders` are those of a job's passes over its data.
    """
    held = clients.rows(job.client)
    rows = np.empty((job.num_steps, padded_length), dtype=np.int32)
    counts = np.empty(job.num_steps, dtype=np.int32)
    step, length = 0, job.batch_length
    for order in orders:
        ordered = held[order]
        full, rest = divmod(len(ordered), length)
        rows[step : step + full, :length] = ordered[: full * length].reshape(full, length)
        counts[step : step + full] = length
        if rest:
            rows[step + full, :rest] = ordered[full * length :]
            rows[step + full, rest:length] = ordered[0]
            counts[step + full] = rest
        step += full + bool(rest)
    rows[:, length:] = held[0]
    return rows, counts


def _next_length(length: int) -> int:
    power = 1 << (length - 1).bit_length()
    return power * 3 // 4 if power >= 4 and power * 3 // 4 >= length else power
