"""The coordinator: the server's side of the paper's Algorithm 1 among clients that come, go, lie and die.

A pure state machine. `handle(event, now)` takes what happened and the time, and returns what to do about it; there is
no input or output, no thread and no clock in here, so the same code runs behind HTTPS, in a simulation of a whole
deployment with a virtual clock, and in tests that replay a seed. It never sees a tensor: updates are references.

A round: **selection** waits for clients and asks some of them; **configuration** is the offer that each picks up with
its poll; in **reporting** updates come in until there are as many as the round is after, or until the deadline. Clients
that are lost, late or wrong are recorded dropouts; others take their place while there is time. Then the round
**closes**: whose updates count is settled and stored, they are summed in the order of the clients, and the next round
begins. S_t is drawn as in the simulator: where every client is there, nobody drops out and nobody is asked beyond C·K,
the cohort is `choose_cohort`'s.

There is one concept of time: `TimeOuts`. A client that was to be heard from and was not is lost when its lease ends; a
poll is held until its hold ends; a round ends by its deadline. Nothing waits without one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from stayput.core.cohort import cohort_size, draw_clients
from stayput.core.seeds import Purpose
from stayput.deploy import records as r
from stayput.deploy.fleet_settings import FleetSettings
from stayput.deploy.known_client import Client
from stayput.deploy.pace import Pace
from stayput.deploy.round_in_progress import RoundInProgress, Task
from stayput.deploy.time_outs import TimeOuts

ROUND = ("round", 0)
"""The key of the round's deadline among the time-outs; the others are ("lease", client) and ("hold", client)."""


class Coordinator:
    """One fleet's training, from event to event."""

    def __init__(
        self, settings: FleetSettings, *, seed: int, client_fraction: float, snapshot: r.Snapshot, now: float
    ) -> None:
        self._settings, self._seed, self._fraction = settings, seed, client_fraction
        self._time_outs: TimeOuts[tuple[str, int]] = TimeOuts()
        self._clients = {number: Client(number, count) for number, count in sorted(snapshot.clients.items())}
        self._unheard = set(self._clients)
        """Who may be there, and has said nothing since the coordinator began."""
        self._willing: set[int] = set()
        """Who is there and may train."""
        self._pace = Pace(settings, self._clients)
        self._finished, self._last_closed = snapshot.finished, snapshot.last_closed
        self._round = RoundInProgress.from_facts(snapshot.open_round) if snapshot.open_round else None
        self._changes: list[r.Change] = []
        self._actions: list[r.Action] = []
        self._handlers: Mapping[type, Callable[[Any, float], None]] = {
            r.Enrolled: self._enrolled,
            r.Revoked: self._revoked,
            r.Polled: self._polled,
            r.HungUp: self._hung_up,
            r.HeardFrom: self._heard_from,
            r.UpdateChecked: self._update_checked,
            r.TaskGivenUp: self._task_given_up,
            r.RoundSummed: self._round_summed,
            r.UpdatesDamaged: self._updates_damaged,
            r.Tick: lambda event, at: None,  # noqa: ARG005 - what is due is done before every event
        }
        for client in self._clients.values():  # who was there before a restart gets the time to come back
            self._extend(client, now + self._pace.spread)
        if self._round is not None:
            self._time_outs.set(ROUND, now + settings.round_deadline)
        self._sum_asked = False

    def handle(self, event: r.Event, now: float) -> tuple[r.Action, ...]:
        """What to do about an event. Changes come first, in one action; then answers and orders."""
        self._changes, self._actions = [], []
        for kind, client in list(self._time_outs.due(now)):
            self._expired(kind, client, now)
        self._handlers[type(event)](event, now)
        self._advance(now)
        stored = (r.Changes(tuple(self._changes)),) if self._changes else ()
        return (*stored, *self._actions)

    def next_time_out(self) -> float | None:
        """When `handle(Tick(), ...)` is to be called at the latest."""
        return self._time_outs.next()

    def reconnect_in(self, client: int) -> float:
        """How long a client that loses the coordinator should wait before it comes back: its own slot."""
        return self._pace.slot(client)

    def task(self, task: r.TaskId) -> Task | None:
        """A task of the open round."""
        return None if self._round is None else self._round.tasks.get(task)

    @property
    def round(self) -> RoundInProgress | None:
        """The open round, to look at."""
        return self._round

    @property
    def finished(self) -> bool:
        """Whether the last round is over."""
        return self._finished

    @property
    def clients(self) -> Mapping[int, Client]:
        """Who may take part, to look at."""
        return self._clients

    @property
    def last_closed(self) -> int:
        """The last round that is over."""
        return self._last_closed

    def state_of(self, number: int) -> str:
        """What a client is at, in a word."""
        client = self._clients.get(number)
        if client is None or not client.live:
            return "away"
        if self._open_task(number) is not None:
            return "working"
        if client.may_train is None:
            return "expected"
        return "ready" if client.may_train else "not now"

    def deadline(self) -> float | None:
        """When the open round's deadline is."""
        return self._time_outs.at(ROUND)

    def examples_known(self) -> int:
        """n: the examples of all clients, as far as they have said."""
        return sum(client.num_examples for client in self._clients.values())

    def waiting_for(self) -> str:
        """What has to happen next, as a sentence's end."""
        if self._finished:
            return "nothing: training has ended"
        progress = self._round
        if progress is None or not progress.selected:
            return f"clients: {len(self._willing)} ready of {self._needed_to_start()}"
        if progress.phase is r.Phase.CLOSING:
            return f"the sum of {len(progress.reported)} updates"
        return f"reports: {len(progress.reported)} of {progress.goal}"

    # Events

    def _enrolled(self, event: r.Enrolled, now: float) -> None:
        client = self._clients.setdefault(event.client, Client(event.client))
        self._say(client, may_train=False)  # until it says otherwise
        self._pace.changed(self._clients)
        self._extend(client, now)

    def _revoked(self, event: r.Revoked, now: float) -> None:
        client = self._clients.get(event.client)
        if client is None:
            return
        self._lose(client, r.DropReason.REVOKED)
        if client.holding:
            self._rest(client, self._settings.hold, now, "revoked")
        del self._clients[event.client]
        self._time_outs.cancel(("lease", event.client))
        self._time_outs.cancel(("hold", event.client))
        self._pace.changed(self._clients)

    def _polled(self, event: r.Polled, now: float) -> None:
        client = self._clients.get(event.client)
        if client is None:
            return
        client.num_examples, client.back_at = event.num_examples, 0.0
        self._say(client, may_train=event.may_train)
        open_task = self._open_task(event.client)
        if open_task is not None and not event.may_train:
            self._drop(open_task, "the client may not train now")
            open_task = None
        if self._finished:
            self._rest(client, self._settings.hold, now, "training has ended")
        elif open_task is not None:
            self._offer(client, open_task, now)
        else:
            client.holding = True
            hold = self._pace.hold(event.client)
            self._time_outs.set(("hold", event.client), now + hold)
            self._extend(client, now + hold)

    def _hung_up(self, event: r.HungUp, now: float) -> None:
        client = self._clients.get(event.client)
        if client is not None and client.holding:
            client.holding = False
            self._time_outs.cancel(("hold", event.client))
            self._extend(client, now)

    def _heard_from(self, event: r.HeardFrom, now: float) -> None:
        client, task = self._clients.get(event.client), self.task(event.task)
        if client is not None:
            self._extend(client, now)
        wanted = task is not None and task.client == event.client and task.state is r.TaskState.OPEN
        why = "" if wanted else (task.reason or "has reported" if task is not None else "its round is over")
        self._actions.append(r.Renew(event.client, event.task, wanted, why))

    def _update_checked(self, event: r.UpdateChecked, now: float) -> None:
        client, task = self._clients.get(event.client), self.task(event.task)
        if client is not None:
            self._extend(client, now)
        if task is None or task.client != event.client:
            self._actions.append(r.Receipt(event.client, event.task, accepted=False, reason="its round is over"))
        elif task.state is r.TaskState.REPORTED:
            same = task.update is not None and task.update.sha256 == event.update.sha256
            reason = "" if same else "another update was accepted for this task"
            self._actions.append(r.Receipt(event.client, event.task, accepted=same, reason=reason))
        elif task.state is r.TaskState.DROPPED:
            self._actions.append(r.Receipt(event.client, event.task, accepted=False, reason=task.reason))
        else:
            assert self._round is not None  # noqa: S101 - it has the task
            self._round.report(task, event.update)
            self._changes.append(r.TaskReported(event.task, event.update))
            self._actions.append(r.Receipt(event.client, event.task, accepted=True, reason=""))

    def _task_given_up(self, event: r.TaskGivenUp, now: float) -> None:
        client, task = self._clients.get(event.client), self.task(event.task)
        if client is not None:
            self._extend(client, now)
        if task is not None and task.client == event.client and task.state is r.TaskState.OPEN:
            self._drop(task, event.reason)
        reason = event.reason if task is None or task.state is not r.TaskState.REPORTED else "has reported"
        self._actions.append(r.Receipt(event.client, event.task, accepted=False, reason=reason))

    def _round_summed(self, event: r.RoundSummed, now: float) -> None:
        progress = self._round
        if progress is None or progress.number != event.round_number or progress.phase is not r.Phase.CLOSING:
            return  # a second process, or one that was interrupted, has summed it too
        self._changes.append(r.RoundClosed(event.round_number, event.result))
        self._round, self._last_closed, self._sum_asked = None, event.round_number, False
        self._finished = event.result.finished
        self._time_outs.cancel(ROUND)
        if self._finished:
            for client in self._clients.values():
                if client.holding:
                    self._rest(client, self._settings.hold, now, "training has ended")

    def _updates_damaged(self, event: r.UpdatesDamaged, now: float) -> None:
        progress = self._round
        if progress is not None and progress.number == event.round_number and progress.phase is r.Phase.CLOSING:
            attempt, tasks = progress.attempt, progress.reopen(event.clients, r.DropReason.DAMAGED)
            self._changes.append(r.RoundReopened(progress.number, attempt, tasks))
            self._time_outs.set(ROUND, now + self._settings.round_deadline)
            self._sum_asked = False

    # Time

    def _expired(self, kind: str, number: int, now: float) -> None:
        if kind == "round":
            self._deadline_passed(now)
            return
        client = self._clients.get(number)
        if client is None:
            return
        if kind == "hold":
            rest = self._pace.rest(number)
            self._rest(client, rest, now, "nothing to do now")
        else:
            self._lose(client, r.DropReason.LOST)

    def _deadline_passed(self, now: float) -> None:
        progress = self._round
        if progress is None or progress.phase is r.Phase.CLOSING:
            return
        for task in list(progress.open_by_client.values()):
            self._drop(task, r.DropReason.DEADLINE)
        if progress.selected and len(progress.reported) >= progress.minimum:
            self._close(progress)
            return
        asked = f"{len(progress.reported)} reports of at least {progress.minimum}" if progress.selected else ""
        reason = asked or self.waiting_for()
        self._changes.append(r.AttemptFailed(progress.number, progress.attempt, reason))
        progress.attempt += 1
        self._time_outs.set(ROUND, now + self._settings.round_deadline)

    def _extend(self, client: Client, now: float) -> None:
        client.live = True
        self._time_outs.set(("lease", client.number), now + self._settings.lease)

    def _say(self, client: Client, *, may_train: bool) -> None:
        """What a client has said, or what its silence says."""
        client.may_train = may_train
        self._unheard.discard(client.number)
        (self._willing.add if may_train else self._willing.discard)(client.number)

    def _lose(self, client: Client, reason: str) -> None:
        client.live = False
        self._say(client, may_train=False)
        task = self._open_task(client.number)
        if task is not None:
            self._drop(task, reason)

    # Rounds

    def _advance(self, now: float) -> None:
        """Whatever can go on, does."""
        if self._finished:
            return
        if self._round is None:
            self._round = RoundInProgress(self._last_closed + 1)
            self._changes.append(r.RoundOpened(self._round.number))
            self._time_outs.set(ROUND, now + self._settings.round_deadline)
        progress = self._round
        if progress.phase is r.Phase.COLLECTING:
            if progress.complete:
                self._close(progress)
            else:
                self._ask_clients(progress, now)
        if progress.phase is r.Phase.CLOSING and not self._sum_asked:
            self._sum_asked = True
            self._actions.append(r.SumRound(progress.number, progress.updates()))

    def _close(self, progress: RoundInProgress) -> None:
        for task in list(progress.open_by_client.values()):
            self._drop(task, r.DropReason.SURPLUS)
        progress.phase = r.Phase.CLOSING
        self._changes.append(r.RoundClosing(progress.number))
        self._time_outs.cancel(ROUND)

    def _ask_clients(self, progress: RoundInProgress, now: float) -> None:
        chosen = self._replacements(progress, now) if progress.selected else self._first_selection(progress, now)
        if not chosen:
            return
        tasks = [progress.give(client.number) for client in chosen]
        given = tuple((task.task, task.client) for task in tasks)
        self._changes.append(r.ClientsSelected(progress.number, progress.goal, progress.minimum, given))
        for client, task in zip(chosen, tasks, strict=True):
            if client.holding:
                self._offer(client, task, now)

    def _first_selection(self, progress: RoundInProgress, now: float) -> list[Client]:
        if self._unheard or len(self._willing) < self._needed_to_start():
            return []  # after a restart, or as they enrol: each is heard, or lost, within its lease
        candidates = self._candidates(now)
        if len(candidates) < self._needed_to_start():
            return []
        goal = cohort_size(len(self._clients), self._fraction)
        progress.goal = min(goal, len(candidates))
        progress.minimum = max(math.ceil(goal * self._settings.minimum_share), 1)
        progress.goal = max(progress.goal, progress.minimum)
        count = min(len(candidates), math.ceil(goal * self._settings.over_selection))
        places = draw_clients(count, len(candidates), seed=self._seed, round_number=progress.number)
        return [candidates[place] for place in places.tolist()]

    def _replacements(self, progress: RoundInProgress, now: float) -> list[Client]:
        missing = progress.goal - len(progress.reported)
        wanted = math.ceil(missing * self._settings.over_selection) - len(progress.open_by_client)
        if wanted <= 0:
            return []
        limit = self._settings.tasks_per_client * progress.attempt
        candidates = [
            client
            for client in self._candidates(now)
            if client.number not in progress.reported and progress.given[client.number] < limit
        ]
        if len(candidates) > wanted:
            places = draw_clients(
                wanted, len(candidates), seed=self._seed, round_number=progress.number,
                purpose=Purpose.REPLACEMENT, draw=len(progress.tasks),  # every draw of a round has a stream of its own
            )  # fmt: skip
            return [candidates[place] for place in places.tolist()]
        return candidates

    def _needed_to_start(self) -> int:
        goal = cohort_size(max(len(self._clients), 1), self._fraction)
        least = max(math.ceil(goal * self._settings.minimum_share), 1)
        return max(least, self._settings.start_with) if self._last_closed == 0 else least

    def _candidates(self, now: float) -> list[Client]:
        """Who could be asked: live, willing, without a task, and here or back in a moment; by number."""
        busy: Mapping[int, Task] = {} if self._round is None else self._round.open_by_client
        soon = now + self._settings.heartbeat
        willing = [self._clients[number] for number in sorted(self._willing - busy.keys())]
        return [client for client in willing if client.back_at <= soon]

    def _open_task(self, client: int) -> Task | None:
        return None if self._round is None else self._round.open_by_client.get(client)

    def _drop(self, task: Task, reason: str) -> None:
        assert self._round is not None  # noqa: S101 - it has the task
        self._round.drop(task, reason)
        self._changes.append(r.TaskDropped(task.task, str(reason)))

    def _offer(self, client: Client, task: Task, now: float) -> None:
        client.holding = False
        self._time_outs.cancel(("hold", client.number))
        self._extend(client, now)
        self._actions.append(r.Offer(client.number, task.task))

    def _rest(self, client: Client, seconds: float, now: float, reason: str) -> None:
        client.holding = False
        client.back_at = now + seconds
        self._time_outs.cancel(("hold", client.number))
        self._extend(client, now + seconds)
        self._actions.append(r.Rest(client.number, seconds, reason, finished=self._finished))
