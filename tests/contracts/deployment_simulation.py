"""A whole deployment under a virtual clock: the real coordinator, fake clients, a fake network, a store that can fail.

Everything that could happen is drawn from one seed: how long things take, which messages are lost, doubled or late,
which clients die, freeze, come back, and when the coordinator is killed: before a transaction, or after it and before
anybody hears of it. The promises are checked as it goes. A seed that fails is replayed, with what happened, by

    python tests/contracts/deployment_simulation.py SEED
"""

from __future__ import annotations

import hashlib
import heapq
import random
import sys
from dataclasses import dataclass, field, replace

from stayput.core.cohort import choose_cohort
from stayput.deploy import records as r
from stayput.deploy.coordinator import Coordinator
from stayput.deploy.fleet_settings import FleetSettings
from stayput.errors import StoreFailed

LATE = 1e-6
"""What two sums of the same times may differ by."""


@dataclass(frozen=True)
class Faults:
    """How often what goes wrong; shares of the times that it could."""

    lost: float = 0.0
    doubled: float = 0.0
    dies: float = 0.0
    freezes: float = 0.0
    refused: float = 0.0
    store_fails: float = 0.0
    killed_before: float = 0.0
    killed_after: float = 0.0
    closer_dies: float = 0.0
    until: float = 120.0
    """From then on nothing goes wrong any more, and training must come to its end."""


NONE = Faults()


@dataclass
class MemoryStore:
    """A store in memory with the rules of the real one."""

    clients: dict = field(default_factory=dict)
    last_closed: int = 0
    finished: bool = False
    model: str = "w0"
    round: r.RoundFacts | None = None
    tasks: dict = field(default_factory=dict)
    closed: dict = field(default_factory=dict)
    """Round -> its tasks as they ended."""
    attempts: list = field(default_factory=list)

    def apply(self, changes):
        """All of them or none: the rules are checked on copies."""
        fresh = replace(self, tasks=dict(self.tasks), closed=dict(self.closed), attempts=list(self.attempts))
        for change in changes:
            getattr(fresh, f"_{type(change).__name__}")(change)
        self.__dict__.update(fresh.__dict__)

    def snapshot(self):
        facts = None if self.round is None else replace(self.round, tasks=tuple(self.tasks.values()))
        return r.Snapshot(dict(self.clients), self.last_closed, facts, self.finished)

    def _RoundOpened(self, change):  # noqa: N802 - named after the change
        assert self.round is None
        assert change.round_number == self.last_closed + 1
        self.round, self.tasks = r.RoundFacts(change.round_number, r.Phase.COLLECTING), {}

    def _ClientsSelected(self, change):  # noqa: N802
        assert self.round.phase is r.Phase.COLLECTING
        self.round = replace(self.round, goal=change.goal, minimum=change.minimum)
        for task, client in change.tasks:
            assert task not in self.tasks, "a task's name is never used again"
            assert not any(t.client == client and t.state is not r.TaskState.DROPPED for t in self.tasks.values())
            self.tasks[task] = r.TaskFacts(task, client, r.TaskState.OPEN)

    def _TaskReported(self, change):  # noqa: N802
        assert self.round.phase is r.Phase.COLLECTING
        task = self.tasks[change.task]
        assert task.state is r.TaskState.OPEN
        self.tasks[change.task] = replace(task, state=r.TaskState.REPORTED, update=change.update)

    def _TaskDropped(self, change):  # noqa: N802
        task = self.tasks[change.task]
        assert task.state is r.TaskState.OPEN
        assert change.reason
        self.tasks[change.task] = replace(task, state=r.TaskState.DROPPED, reason=change.reason)

    def _AttemptFailed(self, change):  # noqa: N802
        assert change.attempt == self.round.attempt
        self.round = replace(self.round, attempt=change.attempt + 1)
        self.attempts.append(change)

    def _RoundClosing(self, change):  # noqa: N802
        assert not any(task.state is r.TaskState.OPEN for task in self.tasks.values())
        self.round = replace(self.round, phase=r.Phase.CLOSING)

    def _RoundClosed(self, change):  # noqa: N802
        assert self.round.phase is r.Phase.CLOSING
        self.closed[change.round_number] = dict(self.tasks)
        self.last_closed, self.round, self.tasks = change.round_number, None, {}
        self.model, self.finished = change.result.state_sha256, change.result.finished


def update_of(client, model):
    """What a client makes of a model: the same for the same model, as training is."""
    return r.Update(hashlib.sha256(f"{client}|{model}".encode()).hexdigest()[:12], client + 1, 1, 0.5)


def sum_of(model, updates):
    """The next model; another order of the updates is another model, as rounding is."""
    return hashlib.sha256("|".join([model, *(f"{c}:{u.sha256}" for c, u in updates)]).encode()).hexdigest()[:12]


@dataclass
class SimulatedClient:
    """A client: what it is doing, and which of its lives it is in."""

    number: int
    life: int = 0
    alive: bool = True
    frozen_until: float = 0.0
    task: r.TaskId | None = None
    last_heard: float = 0.0
    done: bool = False


class Simulation:
    """One seed."""

    def __init__(self, seed, *, num_clients=5, rounds=3, fraction=1.0, faults=NONE, store=None, **settings):
        self.random = random.Random(seed)  # noqa: S311 - a simulation, which must repeat
        self.seed, self.rounds, self.fraction, self.faults = seed, rounds, fraction, faults
        given = {"round_deadline": 40.0, "start_with": num_clients, "tasks_per_client": 50, **settings}
        self.settings = FleetSettings(**given)
        self.now, self.queue, self.count, self.trace = 0.0, [], 0, []
        self.store = store or MemoryStore()
        self.store.clients.update(dict.fromkeys(range(num_clients), 5))
        self.clients = [SimulatedClient(number) for number in range(num_clients)]
        self.machine, self.era, self.waiting = None, 0, {}
        self.acknowledged = {}
        self.round_began, self.notices = {}, []
        self._boot()
        for client in self.clients:
            self.after(self.random.uniform(0, 2), self.poll, client, client.life)
        self.after(5.0, self._misfortunes)

    # Time

    def after(self, seconds, work, *arguments):
        self.count += 1
        heapq.heappush(self.queue, (self.now + seconds, self.count, work, arguments))

    def run(self, until=2000.0):
        """Run to the end of the training, and check what must hold then."""
        while self.queue and not (self.store.finished and all(c.done or not c.alive for c in self.clients)):
            self.now, _, work, arguments = heapq.heappop(self.queue)
            assert self.now < until, f"training does not end: {self.store.snapshot()}"
            work(*arguments)
        self.check_end()
        return self

    def note(self, what):
        self.trace.append(f"{self.now:8.3f} {what}")

    def happens(self, share):
        return share > 0 and self.now < self.faults.until and self.random.random() < share

    # The coordinator's side

    def _boot(self):
        self.era += 1
        self.note(f"coordinator starts, life {self.era}")
        snapshot = self.store.snapshot()
        self.machine = Coordinator(
            self.settings, seed=self.seed, client_fraction=self.fraction, snapshot=snapshot, now=self.now
        )
        self.waiting = {}
        self.round_began = {}
        self.submit(r.Tick(), lambda actions: None)

    def _kill(self):
        self.note("coordinator is killed")
        self.machine, self.waiting = None, {}
        self.after(self.random.uniform(0.1, 2.0), self._boot)

    def submit(self, event, answer):  # noqa: C901, PLR0912 - where a kill may fall is the point, step by step
        """An event at the coordinator: handled, stored, and only then answered."""
        if self.machine is None:
            return
        actions = self.machine.handle(event, self.now)
        changes = [change for action in actions if isinstance(action, r.Changes) for change in action.changes]
        if changes:
            if self.happens(self.faults.killed_before):
                self._kill()
                return
            try:
                if self.happens(self.faults.store_fails):
                    raise StoreFailed("the disk is full")  # noqa: TRY301 - as the store would
                self.store.apply(changes)
            except StoreFailed:
                self.note("the store fails; the machine is loaded again")
                self.machine, self.waiting = None, {}
                self.after(0.5, self._boot)
                return
            for change in changes:
                self.note(str(change))
                self._see(change)
            if self.happens(self.faults.killed_after):
                self._kill()
                return
        answer(actions)
        for action in actions:
            if isinstance(action, r.Offer | r.Rest):
                held = self.waiting.pop(action.client, None)
                if held is not None:
                    held(action)
            elif isinstance(action, r.SumRound):
                self.after(self.random.uniform(0.05, 1.0), self._summed, self.era, action)
        self._arm()

    def _arm(self):
        due = None if self.machine is None else self.machine.next_time_out()
        if due is not None:
            self.after(max(due - self.now, 0.0), self._tick, self.era, due)

    def _tick(self, era, due):
        if era == self.era and self.machine is not None and self.machine.next_time_out() == due:
            self.submit(r.Tick(), lambda actions: None)

    def _summed(self, era, order):
        if era != self.era or self.machine is None:
            return
        if self.happens(self.faults.closer_dies):
            self.after(0.3, self._summed, era, order)
            return
        assert [client for client, _ in order.updates] == sorted(client for client, _ in order.updates)
        model = sum_of(self.store.model, order.updates)
        result = r.RoundResult(model, model, {}, finished=order.round_number >= self.rounds)
        self.submit(r.RoundSummed(order.round_number, result), lambda actions: None)

    def _see(self, change):
        """Promises about time, as they are stored."""
        deadline = self.settings.round_deadline
        if isinstance(change, r.RoundOpened):
            self.round_began[change.round_number] = self.now
        elif isinstance(change, r.AttemptFailed | r.RoundClosing) and change.round_number in self.round_began:
            assert self.now - self.round_began[change.round_number] <= deadline + LATE, (
                "P3: a round ends by its deadline"
            )
            self.round_began[change.round_number] = self.now
        elif isinstance(change, r.TaskDropped) and change.reason == r.DropReason.LOST:
            client = self.clients[self.store.tasks[change.task].client]
            self.notices.append((client.number, self.now, self.now - client.last_heard))

    # The network

    def send(self, client, event, answer):
        """A request that may be lost on either way, or come twice."""
        client_life = client.life

        def answered(actions):
            if not self.happens(self.faults.lost):
                self.after(self.random.uniform(0.001, 0.1), self._arrive, client, client_life, answer, actions)

        def arrives():
            client.last_heard = self.now
            self.submit(event, answered)

        for _ in range(2 if self.happens(self.faults.doubled) else 1):
            if not self.happens(self.faults.lost):
                self.after(self.random.uniform(0.001, 0.1), arrives)

    def _arrive(self, client, life, answer, actions):
        if client.alive and client.life == life:
            if client.frozen_until > self.now:
                self.after(client.frozen_until - self.now, self._arrive, client, life, answer, actions)
            else:
                answer(actions)

    # Clients

    def _doing(self, client, life):
        """Whether a client's step may happen now; a frozen one does it later."""
        return client.alive and client.life == life

    def poll(self, client, life):  # noqa: C901 - a request, its answer and its end, with their closures
        if not self._doing(client, life):
            return
        if client.frozen_until > self.now:
            self.after(client.frozen_until - self.now, self.poll, client, life)
            return
        client.task = None
        state = {"answered": False}

        def answer(action):
            if not isinstance(action, r.Offer | r.Rest) or state["answered"] or not self._doing(client, life):
                return
            state["answered"] = True
            if isinstance(action, r.Rest):
                if action.finished:
                    client.done = True
                else:
                    self.after(action.seconds, self.poll, client, life)
            else:
                self.work(client, life, action.task)

        def arrives():
            client.last_heard = self.now
            if self.machine is None:
                return
            self.waiting[client.number] = lambda action: (
                None
                if self.happens(self.faults.lost)
                else self.after(self.random.uniform(0.001, 0.1), self._arrive, client, life, answer, action)
            )
            self.submit(r.Polled(client.number, True, 5), lambda actions: None)

        def gives_up():
            if not state["answered"] and self._doing(client, life):
                state["answered"] = True  # the connection is given up, and made anew
                self.poll(client, life)

        for _ in range(2 if self.happens(self.faults.doubled) else 1):
            if not self.happens(self.faults.lost):
                self.after(self.random.uniform(0.001, 0.1), arrives)
        self.after(self.settings.hold + 5.0, gives_up)

    def work(self, client, life, task):
        client.task = task
        model = self.store.model if self.store.round is not None else None
        number = int(task[1:].partition("-")[0])
        if self.store.round is None or self.store.round.round_number != number:
            self.after(0.1, self.poll, client, life)
            return
        update = update_of(client.number, model)
        self.after(self.settings.heartbeat, self.beat, client, life, task)
        if self.happens(self.faults.refused):
            given_up = r.TaskGivenUp(client.number, task, "refused: not finite")
            self.after(1.0, self.report, client, life, given_up)
        else:
            finished = r.UpdateChecked(client.number, task, update)
            self.after(self.random.uniform(0.2, 8.0), self.report, client, life, finished)

    def beat(self, client, life, task):
        if not self._doing(client, life) or client.task != task:
            return
        if client.frozen_until <= self.now:

            def answer(actions):
                renewals = [a for a in actions if isinstance(a, r.Renew) and a.client == client.number]
                if renewals and not renewals[0].wanted and client.task == task:
                    client.task = None
                    self.poll(client, life)

            self.send(client, r.HeardFrom(client.number, task), answer)
        self.after(self.settings.heartbeat, self.beat, client, life, task)

    def report(self, client, life, event):
        """Send a report until its receipt comes."""
        if not self._doing(client, life) or client.task != event.task:
            return
        if client.frozen_until > self.now:
            self.after(client.frozen_until - self.now, self.report, client, life, event)
            return

        def answer(actions):
            receipts = [a for a in actions if isinstance(a, r.Receipt) and a.client == client.number]
            if not receipts or client.task != event.task:
                return
            (receipt,) = receipts
            if receipt.accepted:
                stored = {
                    **self.store.tasks,
                    **{t: x for tasks in self.store.closed.values() for t, x in tasks.items()},
                }
                assert stored[event.task].update == event.update, "P1: what is acknowledged is durable"
                self.acknowledged[event.task] = event.update
            client.task = None
            self.poll(client, life)

        self.send(client, event, answer)
        self.after(2.0, self.report, client, life, event)

    def _misfortunes(self):
        """Now and then a client dies and is started again, or freezes for a while."""
        if self.now >= self.faults.until:
            return
        for client in self.clients:
            if client.done:
                continue
            if client.alive and self.happens(self.faults.dies):
                self.note(f"client {client.number} dies")
                client.alive, client.task = False, None
                self.waiting.pop(client.number, None)
                self.after(self.random.uniform(0.5, 30.0), self._revive, client)
            elif client.alive and self.happens(self.faults.freezes):
                client.frozen_until = self.now + self.random.uniform(1.0, 30.0)
                self.note(f"client {client.number} freezes until {client.frozen_until:.1f}")
        self.after(5.0, self._misfortunes)

    def _revive(self, client):
        client.alive, client.life = True, client.life + 1
        self.note(f"client {client.number} is started again")
        self.poll(client, client.life)

    # The promises

    def check_end(self):
        """What holds once training has ended."""
        store = self.store
        assert store.finished
        assert sorted(store.closed) == list(range(1, self.rounds + 1))
        model = "w0"
        for tasks in store.closed.values():
            reported = sorted((t.client, t.update) for t in tasks.values() if t.state is r.TaskState.REPORTED)
            assert len({client for client, _ in reported}) == len(reported), "P2: nobody counts twice"
            assert all(update == update_of(client, model) for client, update in reported), "an update is of its round"
            model = sum_of(model, reported)
        assert model == store.model, "P1: the model is the sum of what is stored"
        ended = {t.task: t for tasks in store.closed.values() for t in tasks.values()}
        for task, update in self.acknowledged.items():
            assert ended[task].state is r.TaskState.REPORTED, "P1: what was acknowledged counts"
            assert ended[task].update == update
        # An answer on its way back and the network's own delays come on top of a lease.
        bound = self.settings.lease + self.settings.hold + 1.0
        assert all(silence <= bound for _, _, silence in self.notices) or self.era > 1, "P4: silence is noticed"


def simulated_model(seed, *, num_clients, rounds, fraction):
    """The model of a simulation in which everybody is there."""
    model = "w0"
    for number in range(1, rounds + 1):
        cohort = choose_cohort(num_clients, fraction, seed=seed, round_number=number).tolist()
        model = sum_of(model, [(client, update_of(client, model)) for client in cohort])
    return model


HARD = Faults(
    lost=0.05, doubled=0.2, dies=0.04, freezes=0.04, refused=0.03, store_fails=0.02, killed_before=0.03,
    killed_after=0.03, closer_dies=0.2, until=90.0,
)  # fmt: skip
"""Everything goes wrong."""

KILLS = Faults(doubled=0.2, killed_before=0.1, killed_after=0.1, store_fails=0.05, closer_dies=0.2, until=300.0)
"""The coordinator is killed again and again, and nobody drops out."""


if __name__ == "__main__":
    simulation = None
    try:
        simulation = Simulation(int(sys.argv[1]), faults=HARD, fraction=0.6)
        simulation.run()
    finally:
        sys.stdout.write("\n".join([] if simulation is None else simulation.trace) + "\n")
