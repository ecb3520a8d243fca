"""A round of the coordinator among virtual clients: from event to event, on a clock that jumps.

Clients do what those of the deployment do: they poll where there is nothing to do, take a task, say that they work,
send an update, and vanish now and then. What they would have learned does not change when they would have been done, so
times are worked out first, and only those whose reports count are trained afterwards.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field

import numpy as np

from stayput.core.engine import RoundWork
from stayput.core.seeds import Indices
from stayput.data.federated_data import FederatedData
from stayput.deploy import records as r
from stayput.deploy.coordinator import Coordinator
from stayput.errors import TrainingError
from stayput.virtual_fleet.availability import DAY, Availability
from stayput.virtual_fleet.devices import Devices, Job
from stayput.virtual_fleet.settings import VirtualFleet

LONGEST_ROUND = 100 * DAY
"""A round that has not closed by then never will."""


@dataclass
class Totals:
    """What the clock and the lines have seen since the run began."""

    seconds: float = 0.0
    bytes_down: float = 0.0
    bytes_up: float = 0.0
    asked: int = 0
    dropouts: int = 0
    """Tasks that came to nothing: lost, late, or more than were needed."""

    def plain(self) -> dict[str, float]:
        """As a round's report has it."""
        return {name: float(value) for name, value in vars(self).items()}


@dataclass
class _Device:
    """A virtual client. Events that were meant for what it did before carry another token."""

    number: int
    token: int = 0
    task: r.TaskId = ""
    job: Job | None = None
    began: float = 0.0


@dataclass(order=True)
class _Event:
    at: float
    order: int
    kind: str = field(compare=False)
    client: int = field(compare=False)
    token: int = field(compare=False)


class CoordinatedRounds:
    """Rounds as the deployment's coordinator holds them."""

    def __init__(
        self, fleet: VirtualFleet, availability: Availability, clients: FederatedData, *, seed: int, fraction: float
    ) -> None:
        self.totals = Totals()
        self._fleet, self._availability, self._clients = fleet, availability, clients
        self._devices = [_Device(number) for number in range(clients.num_clients)]
        self._jobs = Devices(fleet, seed=seed)
        self._events: list[_Event] = []
        self._count = itertools.count()
        self._now = 0.0
        self._to_sum: list[r.SumRound] = []
        """One, from when a round closes until the next begins."""
        self._work: RoundWork | None = None
        self._num_bytes = 0
        here = sum(availability.until(client, 0.0) is not None for client in range(clients.num_clients))
        settings = fleet.coordinator(here)
        self._heartbeat, self._lease = settings.heartbeat, settings.lease
        self._machine = Coordinator(settings, seed=seed, client_fraction=fraction, snapshot=r.Snapshot(), now=0.0)
        for device in self._devices:
            self._tell(r.Enrolled(device.number))
            self._arrive_from(device, 0.0)

    def next_cohort(self, work: RoundWork) -> Indices:
        """The clients whose reports count in the next round; the clock stands where it closes."""
        self._work = work
        self._num_bytes = num_bytes(work)
        if self._to_sum:
            last = self._to_sum.pop()
            result = r.RoundResult("", "", {}, finished=False)
            self._tell(r.RoundSummed(last.round_number, result))
        began = self._now
        while not self._to_sum or (self._events and self._events[0].at <= self._now):
            self._step()
            if self._now - began > LONGEST_ROUND:
                raise TrainingError(
                    f"round {work.round_number}: {LONGEST_ROUND / DAY:.0f} simulated days were not enough for it: "
                    f"{self._machine.waiting_for()} (clients must be there for as long as their tasks take, and the "
                    f"round's deadline must leave them the time)"
                )
        self.totals.seconds = self._now
        return np.array([client for client, _ in self._to_sum[0].updates], dtype=np.int64)

    def _step(self) -> None:
        """The next thing that happens, to a device or by the coordinator's clock."""
        due = self._machine.next_time_out()
        if self._events and (due is None or self._events[0].at <= due):
            event = heapq.heappop(self._events)
            self._now = max(self._now, event.at)
            device = self._devices[event.client]
            if event.token == device.token:
                self._happen(device, event.kind)
        elif due is not None:
            self._now = max(self._now, due)
            self._tell(r.Tick())
        else:
            self._now += LONGEST_ROUND  # nothing will ever happen again

    def _happen(self, device: _Device, kind: str) -> None:
        if kind == "arrive":
            self._poll(device)
        elif kind == "heartbeat":
            self._at(self._now + self._heartbeat, "heartbeat", device)
            self._tell(r.HeardFrom(device.number, device.task))
        elif kind == "leave":
            self._stop_work(device)
            self._arrive_from(device, self._now)
            self._tell(r.HungUp(device.number))
        elif kind == "vanish":
            self._stop_work(device)
            self._arrive_from(device, self._now + 2 * self._lease)  # it is back when it has been given up
        elif kind == "report":
            self._report(device)

    def _poll(self, device: _Device) -> None:
        until = self._availability.until(device.number, self._now)
        if until is None:
            self._arrive_from(device, self._now)
            return
        self._begin(device)
        self._at(until, "leave", device)
        size = int(self._clients.client_sizes[device.number])
        self._tell(r.Polled(device.number, may_train=True, num_examples=size))

    def _report(self, device: _Device) -> None:
        assert self._work is not None  # noqa: S101 - there is no task before there is work
        task, size = device.task, int(self._clients.client_sizes[device.number])
        self._stop_work(device)
        update = r.Update("", size, self._work.plan.num_steps(size), 0.0)
        self._tell(r.UpdateChecked(device.number, task, update))
        self._begin(device)
        self._at(self._now, "arrive", device)

    def _tell(self, event: r.Event) -> None:
        for action in self._machine.handle(event, self._now):
            self._do(action)

    def _do(self, action: r.Action) -> None:
        if isinstance(action, r.Offer):
            self._take_up(self._devices[action.client], action.task)
        elif isinstance(action, r.Rest):
            device = self._devices[action.client]
            self._begin(device)
            self._at(self._now + max(action.seconds, 1e-3), "arrive", device)
        elif isinstance(action, r.Renew) and not action.wanted:
            device = self._devices[action.client]
            self._stop_work(device)
            self._at(self._now, "arrive", device)
        elif isinstance(action, r.SumRound):
            self._to_sum.append(action)
        elif isinstance(action, r.Changes):
            self.totals.dropouts += sum(isinstance(change, r.TaskDropped) for change in action.changes)
            self.totals.asked += sum(
                len(change.tasks) for change in action.changes if isinstance(change, r.ClientsSelected)
            )

    def _take_up(self, device: _Device, task: r.TaskId) -> None:
        assert self._work is not None  # noqa: S101 - tasks are offered in rounds
        self._begin(device)
        attempt = int(task.rpartition("-")[2])
        steps = self._work.plan.num_steps(int(self._clients.client_sizes[device.number]))
        device.task, device.began = task, self._now
        device.job = job = self._jobs.job(
            device.number,
            num_steps=steps,
            num_bytes=self._num_bytes,
            round_number=self._work.round_number,
            attempt=attempt,
        )
        until = self._availability.until(device.number, self._now)
        if job.vanishes_after is not None:
            self._at(self._now + job.vanishes_after, "vanish", device)
        elif until is not None:
            self._at(self._now + job.seconds, "report", device)
        self._at(self._now if until is None else until, "leave", device)
        self._at(self._now + self._heartbeat, "heartbeat", device)

    def _stop_work(self, device: _Device) -> None:
        """Whatever it was at, it is not any more; what went over its line is counted."""
        if device.job is not None:
            down, up = device.job.transferred(self._now - device.began)
            self.totals.bytes_down += down
            self.totals.bytes_up += up
            device.job = None
        self._begin(device)

    def _begin(self, device: _Device) -> None:
        """Something new: events of what was before do not count."""
        device.token = next(self._count)

    def _arrive_from(self, device: _Device, at: float) -> None:
        coming = self._availability.next(device.number, at)
        self._begin(device)
        if coming is not None:
            self._at(max(coming, at), "arrive", device)

    def _at(self, at: float, kind: str, device: _Device) -> None:
        if at < float("inf"):
            heapq.heappush(self._events, _Event(at, next(self._count), kind, device.number, device.token))


def num_bytes(work: RoundWork) -> int:
    """Of what a client is sent; an update is taken to be as large."""
    return sum(t.numel() * t.element_size() for tensors in work.sent.values() for t in tensors.values())
