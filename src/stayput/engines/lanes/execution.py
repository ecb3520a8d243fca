"""One part of a round, run on lanes from its first step to its last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from stayput.engines.lanes.jobs import Job
from stayput.engines.lanes.programs import Facts, StackedGroups
from stayput.engines.lanes.round_plan import AUGMENTATION, EXAMPLES, LANE, MASKS, MEMBER, RATE, STEPS, Event, Part
from stayput.engines.lanes.stepping import Lanes, Names
from stayput.engines.placed_examples import sendable

SUM_BYTES = 2**28
"""Memory for the float64 copies of finished clients' updates, at a time."""

GivenTo = Callable[[Sequence[Job], Tensor], StackedGroups]
"""From clients, and the members they belong to as a tensor, to what they are given, [client, ...]."""


class Finished(NamedTuple):
    """Clients that have finished."""

    jobs: Sequence[Job]
    members_J: Tensor
    examples_J: Tensor
    update: StackedGroups
    losses_J: Tensor


def execute(part: Part, lanes: Lanes, given: GivenTo, finished: Callable[[Finished], None]) -> None:
    """Step from event to event: clients begin, clients finish, the width falls, a window of rows ends."""
    schedule = part.schedule
    begin_jobs = [part.rows.job(placement.job) for placement in schedule.placements]
    table = sendable(torch.from_numpy(part.table), lanes.device).to(lanes.device, non_blocking=True)
    begin_table, end_table = table.tensor_split(2)
    windows = range(0, schedule.num_steps, lanes.window_steps)
    stops = {*part.begins, *part.ends, *windows, schedule.num_steps}
    stops.update(stretch.first_step for stretch in schedule.stretches)
    for step, until in pairwise(sorted(stops)):
        if step in windows:
            lanes.open_window(*part.window(step, min(step + lanes.window_steps, schedule.num_steps)))
        if step in part.begins:
            event = part.begins[step]
            _begin(begin_table[event.first : event.last], begin_jobs[event.first : event.last], lanes, given)
        lanes.advance(schedule.width_at(step), until - step)
        if until in part.ends:
            for event in _few_at_once(part.ends[until], lanes.program.tensors(), lanes.capacity):
                jobs = part.jobs[event.first : event.last]
                finished(_end(end_table[event.first : event.last], jobs, lanes, given))


def _begin(table: Tensor, jobs: Sequence[Job], lanes: Lanes, given: GivenTo) -> None:
    names = Names(table[:, AUGMENTATION], table[:, MASKS])
    lanes.begin(table[:, LANE], given(jobs, table[:, MEMBER]), _facts(table), names)


def _end(table: Tensor, jobs: Sequence[Job], lanes: Lanes, given: GivenTo) -> Finished:
    lanes_J, members_J = table[:, LANE], table[:, MEMBER]
    update = lanes.program.update(lanes_J, given(jobs, members_J))
    return Finished(jobs, members_J, table[:, EXAMPLES], update, lanes.mean_losses(lanes_J))


def _facts(table: Tensor) -> Facts:
    return Facts(table[:, RATE].contiguous().view(torch.float64), table[:, EXAMPLES], table[:, STEPS])


def _few_at_once(event: Event, state: Sequence[Tensor], capacity: int) -> list[Event]:
    """An event in pieces whose sums in float64 fit into `SUM_BYTES`."""
    lane_bytes = sum(8 * tensor.numel() // capacity for tensor in state)
    at_once = max(1, SUM_BYTES // max(1, lane_bytes))
    firsts = range(event.first, event.last, at_once)
    return [Event(first, min(first + at_once, event.last)) for first in firsts]
