"""A round's work as jobs: one client of one experiment each, with the rows of its every minibatch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stayput.core.engine import RoundWork
from stayput.core.local_work import passes
from stayput.data.federated_data import FederatedData


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


def jobs_of(works: Sequence[RoundWork], clients: FederatedData) -> list[Job]:
    """Every client of every experiment."""
    jobs = []
    for member, work in enumerate(works):
        sizes = clients.client_sizes[work.cohort].tolist()
        for position, (client, size) in enumerate(zip(work.cohort.tolist(), sizes, strict=True)):
            steps, length = work.plan.num_steps(size), work.plan.batch_length(size)
            jobs.append(Job(member, position, client, size, steps, length))
    return jobs


def by_padded_length(jobs: Iterable[Job], works: Sequence[RoundWork]) -> dict[int, list[Job]]:
    """Jobs that share a program: those whose minibatches are padded to one length.

    That is B, or for B="all" the next of the lengths 1, 2, 3, 4, 6, 8, 12, ... that hold a client's data.
    """
    groups: dict[int, list[Job]] = {}
    for job in jobs:
        batch_size = works[job.member].plan.batch_size
        padded = _next_length(job.batch_length) if batch_size == "all" else int(batch_size)
        groups.setdefault(padded, []).append(job)
    return groups


def minibatch_rows(
    job: Job, work: RoundWork, clients: FederatedData, padded_length: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The rows of a job's minibatches, [step, padded length], and how many of each are not padding, [step]."""
    held = clients.rows(job.client)
    rows = np.empty((job.num_steps, padded_length), dtype=np.int32)
    counts = np.empty(job.num_steps, dtype=np.int32)
    step, length = 0, job.batch_length
    key = {"seed": work.seed, "round_number": work.round_number, "client": job.client}
    for order in passes(work.plan, job.num_examples, **key):
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
