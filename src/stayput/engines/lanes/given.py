"""What the clients of a part are given: what was sent, what they keep, and the full gradient where it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from stayput.core.engine import RoundWork
from stayput.core.tensors import FULL_GRADIENT, MEMORY, WEIGHTS
from stayput.engines.lanes.execution import Finished
from stayput.engines.lanes.jobs import Job
from stayput.engines.lanes.programs import StackedGroups


class Given:
    """Stacked groups for some clients at a time."""

    def __init__(self, works: Sequence[RoundWork], members: set[int]) -> None:
        first = min(members)
        # Others, who run another program, may be sent other things; something must stand in their place.
        each = [work.sent if member in members else works[first].sent for member, work in enumerate(works)]
        self._works = works
        self._program = works[first].program
        self._sent = {
            group: {name: torch.stack([one[group][name] for one in each]) for name in tensors}
            for group, tensors in works[first].sent.items()
        }
        self._device = next(iter(self._sent[WEIGHTS].values())).device
        self._full_gradients: list[StackedGroups] = []
        self._place_of: dict[tuple[int, int], int] = {}
        self._gradients_are_there = False

    def __call__(self, jobs: Sequence[Job], members_J: Tensor) -> StackedGroups:
        """What these clients are given, [client, ...]."""
        given = {
            group: {name: stacked.index_select(0, members_J) for name, stacked in tensors.items()}
            for group, tensors in self._sent.items()
        }
        if self._program.memory is not None:
            kept = [self._works[job.member].given(job.client)[MEMORY] for job in jobs]
            given[MEMORY] = {name: torch.stack([one[name] for one in kept]) for name in kept[0]}
        if self._gradients_are_there:
            given[FULL_GRADIENT] = self._full_gradients_of(jobs)
        return given

    def add(self, done: Finished) -> None:
        """Full gradients of some clients."""
        for job in done.jobs:
            self._place_of[job.member, job.position] = len(self._place_of)
        self._full_gradients.append(done.update)

    def have_all_gradients(self) -> None:
        """From here on clients are given theirs."""
        parts = [part[FULL_GRADIENT] for part in self._full_gradients]
        self._gradients = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        self._full_gradients.clear()
        self._gradients_are_there = True

    def _full_gradients_of(self, jobs: Sequence[Job]) -> dict[str, Tensor]:
        places = torch.tensor([self._place_of[job.member, job.position] for job in jobs], device=self._device)
        stacked = self._gradients
        return {name: tensor.index_select(0, places) for name, tensor in stacked.items()}
