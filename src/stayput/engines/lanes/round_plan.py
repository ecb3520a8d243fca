"""A round on lanes, as far as it can be known before it begins: pure index arithmetic, on the host.

A round's clients are jobs; jobs that run the same program on minibatches padded to the same length share lanes and make
a part. For each part there is a schedule, and two tables with a row for each job: in the order in which jobs begin, and
in the order in which they end. Everything a device must know of a round is in the tables and in the rows of the
minibatches, and is sent at once: nothing waits for what runs there.

None of it depends on the model, so a round can be planned while the one before it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stayput.core.algorithm import ClientProgram
from stayput.core.seeds import Purpose
from stayput.core.tensor_streams import tensor_key
from stayput.data.federated_data import FederatedData
from stayput.engines.lanes.jobs import Job, Outline, RowsOfJobs, by_padded_length, jobs_of
from stayput.engines.lanes.schedule import Schedule, pack
from stayput.engines.masks import stream_name

PartKey = tuple[ClientProgram, int]
"""The program of a part, and the length its minibatches are padded to."""

LANE, MEMBER, EXAMPLES, STEPS, RATE = range(5)
AUGMENTATION, MASKS, COLUMNS = slice(5, 9), slice(9, 13), 13
"""Columns of a table; a rate is kept as the bits of a float64."""


@dataclass(frozen=True)
class Event:
    """Jobs that begin, or end, at the same step: rows `first` to `last` of the table."""

    first: int
    last: int


@dataclass(frozen=True)
class Part:
    """Jobs that share lanes."""

    key: PartKey
    jobs: Sequence[Job]
    """In the order in which they end, those of one step by member and place in the cohort."""
    schedule: Schedule
    capacity: int
    table: npt.NDArray[np.int64]
    """A row for each job as they begin, then one for each as they end."""
    begins: dict[int, Event]
    """By the step before which they begin."""
    ends: dict[int, Event]
    """By the step after which they end, counted from 1; rows are counted in `jobs`."""
    rows: RowsOfJobs

    def prepare(self) -> None:
        """Work out the rows of all jobs, ahead of need."""
        for number in range(len(self.jobs)):
            self.rows.of(number)

    def window(self, first: int, last: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The rows of steps `first` to `last`, [step, lane, place in the minibatch], and how many count."""
        length = self.key[1]
        rows = np.zeros((last - first, self.capacity, length), dtype=np.int32)
        counts = np.zeros((last - first, self.capacity), dtype=np.int32)
        for placement in self.schedule.placements:
            begin, end = max(first, placement.first_step), min(last, placement.last_step + 1)
            if begin < end:
                job_rows, job_counts = self.rows.of(placement.job)
                mine = slice(begin - placement.first_step, end - placement.first_step)
                rows[begin - first : end - first, placement.lane] = job_rows[mine]
                counts[begin - first : end - first, placement.lane] = job_counts[mine]
        return rows, counts


def plan_round(
    outlines: Sequence[Outline], clients: FederatedData, capacity_for: Callable[[PartKey, int], int]
) -> list[Part]:
    """The parts of a round; `capacity_for` says how many lanes a number of jobs gets."""
    by_key: dict[PartKey, list[Job]] = {}
    for length, jobs in by_padded_length(jobs_of(outlines, clients), outlines).items():
        for job in jobs:
            by_key.setdefault((outlines[job.member].program, length), []).append(job)
    return [_part(key, jobs, outlines, clients, capacity_for(key, len(jobs))) for key, jobs in by_key.items()]


def full_pass(part: Part, outlines: Sequence[Outline], clients: FederatedData) -> Part:
    """One pass over the data of a part's clients, in stored order, for their full gradients."""
    jobs = [replace(job, num_steps=-(-job.num_examples // job.batch_length)) for job in part.jobs]
    return _part(part.key, jobs, outlines, clients, part.capacity, in_stored_order=True)


def _part(
    key: PartKey,
    jobs: Sequence[Job],
    outlines: Sequence[Outline],
    clients: FederatedData,
    capacity: int,
    *,
    in_stored_order: bool = False,
) -> Part:
    schedule = pack([job.num_steps for job in jobs], capacity)
    lines = np.empty((len(jobs), COLUMNS), dtype=np.int64)  # by job
    for number, job in enumerate(jobs):
        lines[number, MEMBER], lines[number, EXAMPLES], lines[number, STEPS] = (
            job.member,
            job.num_examples,
            job.num_steps,
        )
    _name(lines, jobs, outlines)
    for placement in schedule.placements:
        lines[placement.job, LANE] = placement.lane
    begin_order = [placement.job for placement in schedule.placements]  # sorted by their first steps
    by_end = sorted(schedule.placements, key=lambda p: (p.last_step, jobs[p.job].member, jobs[p.job].position))
    end_order = [placement.job for placement in by_end]
    return Part(
        key,
        [jobs[number] for number in end_order],
        schedule,
        capacity,
        np.concatenate([lines[begin_order], lines[end_order]]),
        _events([placement.first_step for placement in schedule.placements]),
        _events([placement.last_step + 1 for placement in by_end]),
        RowsOfJobs(jobs, outlines, clients, key[1], in_stored_order=in_stored_order),
    )


def _name(lines: npt.NDArray[np.int64], jobs: Sequence[Job], outlines: Sequence[Outline]) -> None:
    """What is the member's, and what names the random choices of its clients."""
    members = lines[:, MEMBER]
    rates = np.array([outline.plan.learning_rate for outline in outlines], dtype=np.float64)
    lines[:, RATE] = rates.view(np.int64)[members]
    streams = [(*tensor_key(outline.seed, Purpose.AUGMENTATION), 0, outline.round_number) for outline in outlines]
    lines[:, AUGMENTATION] = np.array(streams, dtype=np.int64)[members]
    masks = [stream_name(outline.seed, outline.round_number, 0) for outline in outlines]
    lines[:, MASKS] = np.array(masks, dtype=np.int64)[members]
    lines[:, MASKS.start + 2] = [job.client for job in jobs]


def _events(steps: Sequence[int]) -> dict[int, Event]:
    """Where each step's rows are, in a table that is sorted by step."""
    values, firsts = np.unique(np.array(steps), return_index=True)
    lasts = [*firsts[1:].tolist(), len(steps)]
    return {step: Event(first, last) for step, first, last in zip(values.tolist(), firsts.tolist(), lasts, strict=True)}
