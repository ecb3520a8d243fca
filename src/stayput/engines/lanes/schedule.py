"""Which client's which minibatch each lane takes at each step: the host's side of the lanes engine.

A lane holds one copy of the model. Clients are packed into lanes longest first, each onto the lane that is free
first, so that a lane that finishes a client takes the next one at once. Lanes are then numbered by how long they are
busy, the longest first: at every step the busy lanes are a prefix, and the program may be run on just that many.

A program exists for a few widths only. The steps are cut into stretches of one width each: the smallest width that
holds the busy lanes. On unbalanced data the few longest clients therefore run on a narrow program at the end,
instead of keeping a wide one idle.

Pure index arithmetic: no tensors, no device.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stayput.core.seeds import Indices


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one client's work runs."""

    job: int
    """Which of the jobs that were packed."""
    lane: int
    first_step: int
    num_steps: int

    @property
    def last_step(self) -> int:
        """The last step that is this client's."""
        return self.first_step + self.num_steps - 1


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps that run at one width."""

    first_step: int
    num_steps: int
    width: int


@dataclass(frozen=True)
class Schedule:
    """A packing of jobs into lanes."""

    placements: Sequence[Placement]
    num_lanes: int
    num_steps: int
    stretches: Sequence[Stretch]

    @property
    def useful_steps(self) -> int:
        """Local steps that clients asked for."""
        return sum(placement.num_steps for placement in self.placements)

    @property
    def lane_steps(self) -> int:
        """Steps that lanes take, the idle ones of a width counted."""
        return sum(stretch.num_steps * stretch.width for stretch in self.stretches)

    def width_at(self, step: int) -> int:
        """The width that a step runs at."""
        return next(s.width for s in self.stretches if s.first_step <= step < s.first_step + s.num_steps)

    @property
    def occupancy(self) -> float:
        """Useful steps / lane-steps."""
        return self.useful_steps / self.lane_steps


def pack(job_steps: Sequence[int] | Indices, capacity: int) -> Schedule:
    """Pack jobs of so many steps each into at most `capacity` lanes, run at the widths made for that capacity."""
    steps = np.asarray(job_steps, dtype=np.int64)
    num_lanes = min(capacity, len(steps))
    free_at = [(0, lane) for lane in range(num_lanes)]
    placed = []
    for job in np.argsort(-steps, kind="stable").tolist():
        begins, lane = heapq.heappop(free_at)
        placed.append(Placement(job, lane, begins, int(steps[job])))
        heapq.heappush(free_at, (begins + int(steps[job]), lane))
    busy_until = np.zeros(num_lanes, dtype=np.int64)
    for end, lane in free_at:
        busy_until[lane] = end
    new_number = np.empty(num_lanes, dtype=np.int64)
    new_number[np.argsort(-busy_until, kind="stable")] = np.arange(num_lanes)
    placements = tuple(
        sorted(
            (Placement(p.job, int(new_number[p.lane]), p.first_step, p.num_steps) for p in placed),
            key=lambda p: (p.first_step, p.lane),
        )
    )
    busy = np.sort(busy_until)[::-1]
    return Schedule(placements, num_lanes, int(busy[0]), _stretches(busy, widths_up_to(capacity)))


def widths_up_to(num_lanes: int) -> list[int]:
    """The widths that programs are made for, widest first: all lanes, and 1, 2, 3, 4, 6, 8, 12, 16, ... below."""
    powers = [2**k for k in range(num_lanes.bit_length())]
    below = {width for power in powers for width in (power, power * 3 // 2) if width < num_lanes}
    return [num_lanes, *sorted(below, reverse=True)]


def _stretches(busy_until: npt.NDArray[np.int64], widths: Sequence[int]) -> tuple[Stretch, ...]:
    """Cut steps where a narrower program holds all lanes that are still busy; `busy_until` falls from lane to lane."""
    stretches = []
    step = 0
    for width, narrower in zip(widths, [*widths[1:], 0], strict=True):
        ends = int(busy_until[narrower]) if narrower < len(busy_until) else 0
        if ends > step:
            stretches.append(Stretch(step, ends - step, width))
            step = ends
    return tuple(stretches)
