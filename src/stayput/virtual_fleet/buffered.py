"""FedBuff (Nguyen et al. 2022, "Federated Learning with Buffered Asynchronous Aggregation"), on the virtual clock.

There are no rounds that wait: as many clients as a round would have train all the time, each from the model that is
there when it begins. Updates go into a buffer as they come; when it holds `buffer_size`, the server takes a step with
their weighted mean and the buffer is empty again. An update that is τ steps old counts 1/sqrt(1 + τ). A round is such a
step. The paper of FedBuff weighs clients alike; here n_k is a weight too, as everywhere in stayput.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from stayput.core.cohort import cohort_size, draw_clients
from stayput.core.engine import CohortResult, RoundWork
from stayput.core.seeds import Purpose
from stayput.data.federated_data import FederatedData
from stayput.errors import TrainingError
from stayput.virtual_fleet.availability import DAY, Availability
from stayput.virtual_fleet.devices import Devices, Job
from stayput.virtual_fleet.rounds import LONGEST_ROUND, Totals, num_bytes
from stayput.virtual_fleet.settings import VirtualFleet


@dataclass(order=True)
class _Ending:
    """A client's training ends, well or not."""

    at: float
    order: int
    client: int = field(compare=False)
    version: int = field(compare=False)
    reports: bool = field(compare=False)
    began: float = field(compare=False)


class BufferedSteps:
    """Server steps of FedBuff: who trained from which model, and when the buffer was full."""

    def __init__(
        self, fleet: VirtualFleet, availability: Availability, clients: FederatedData, *, seed: int, fraction: float
    ) -> None:
        self.totals = Totals()
        self._fleet, self._availability, self._clients, self._seed = fleet, availability, clients, seed
        self._at_once = cohort_size(clients.num_clients, fraction)
        self._jobs = Devices(fleet, seed=seed)
        self._now, self._count, self._draws = 0.0, itertools.count(), itertools.count()
        self._under_way: list[_Ending] = []
        self._works: dict[int, RoundWork] = {}
        """What clients were sent, by the step before which they began; kept while somebody trains from it."""
        self._given: Counter[tuple[int, int]] = Counter()

    def next_works(self, work: RoundWork) -> list[RoundWork]:
        """The work behind the updates of the next step, one for each model that clients began from."""
        version = work.round_number
        self._works[version] = work
        assert self._fleet.buffer_size is not None  # noqa: S101 - otherwise there is no buffer
        began = self._now
        buffer: list[_Ending] = []
        while len(buffer) < self._fleet.buffer_size:
            self._keep_busy(version)
            if not self._under_way or self._now - began > LONGEST_ROUND:
                self._wait_for_somebody(version, began)
                continue
            ending = heapq.heappop(self._under_way)
            self._now = ending.at
            self._count_bytes(ending)
            if ending.reports:
                buffer.append(ending)
        self.totals.seconds = self._now
        by_version: dict[int, list[int]] = {}
        for ending in buffer:
            by_version.setdefault(ending.version, []).append(ending.client)
        works = [
            replace(self._works[version], cohort=np.array(sorted(mine), dtype=np.int64), following=None)
            for version, mine in sorted(by_version.items())
        ]
        needed = {ending.version for ending in self._under_way}
        self._works = {version: kept for version, kept in self._works.items() if version in needed}
        return works

    def _keep_busy(self, version: int) -> None:
        busy = {ending.client for ending in self._under_way}
        missing = self._at_once - len(busy)
        if missing <= 0:
            return
        free = [
            client
            for client in range(self._clients.num_clients)
            # Nobody trains twice from one model: it would be the same update.
            if client not in busy
            and not self._given[version, client]
            and self._availability.until(client, self._now) is not None
        ]
        count = min(missing, len(free))
        if count:
            places = draw_clients(
                count, len(free), seed=self._seed, round_number=version, purpose=Purpose.VIRTUAL_FLEET,
                draw=next(self._draws),
            )  # fmt: skip
            for place in places.tolist():
                self._begin(free[place], version)

    def _begin(self, client: int, version: int) -> None:
        self._given[version, client] += 1
        self.totals.asked += 1
        work = self._works[version]
        job = self._job(client, work)
        until = self._availability.until(client, self._now)
        lasts = job.seconds if job.vanishes_after is None else job.vanishes_after
        end = self._now + lasts
        stays = until is not None and end <= until
        at = end if stays or until is None else until
        reports = stays and job.vanishes_after is None
        heapq.heappush(self._under_way, _Ending(at, next(self._count), client, version, reports, self._now))

    def _job(self, client: int, work: RoundWork) -> Job:
        return self._jobs.job(
            client,
            num_steps=work.plan.num_steps(int(self._clients.client_sizes[client])),
            num_bytes=num_bytes(work),
            round_number=work.round_number,
            attempt=0,
        )

    def _count_bytes(self, ending: _Ending) -> None:
        down, up = self._job(ending.client, self._works[ending.version]).transferred(ending.at - ending.began)
        self.totals.bytes_down += down
        self.totals.bytes_up += up
        self.totals.dropouts += not ending.reports

    def _wait_for_somebody(self, version: int, began: float) -> None:
        """Nobody trains and nobody can: until the next client comes."""
        coming = [self._availability.next(client, self._now) for client in range(self._clients.num_clients)]
        later = [at for client, at in enumerate(coming) if at is not None and not self._given[version, client]]
        if not later or min(later) - began > LONGEST_ROUND:
            raise TrainingError(
                f"step {version}: {LONGEST_ROUND / DAY:.0f} simulated days were not enough for "
                f"{self._fleet.buffer_size} updates: clients must be there for as long as their tasks take, and there "
                f"must be more of them than updates in the buffer"
            )
        self._now = max(self._now, min(later))


def stale(works: Sequence[RoundWork], version: int) -> list[float]:
    """How much the updates of each work count at a step."""
    return [1 / math.sqrt(1 + version - work.round_number) for work in works]


def combined(works: Sequence[RoundWork], results: Sequence[CohortResult], version: int) -> CohortResult:
    """One result of all updates of a step: Σ s(τ) n_k · update_k / Σ n_k, and the reports one behind the other."""
    weights = [sum(result.num_examples) for result in results]
    total = sum(weights)
    shares = [s * weight / total for s, weight in zip(stale(works, version), weights, strict=True)]
    mean: dict[str, dict[str, torch.Tensor]] = {}
    for share, result in zip(shares, results, strict=True):
        for group, tensors in result.mean.items():
            into = mean.setdefault(group, {})
            for name, tensor in tensors.items():
                into[name] = tensor * share if name not in into else into[name] + tensor * share
    return CohortResult(
        mean,
        [count for result in results for count in result.num_examples],
        [steps for result in results for steps in result.num_steps],
        [loss for result in results for loss in result.train_losses],
        [finite for result in results for finite in result.finite],
    )
