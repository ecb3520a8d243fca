"""The round that is open: who was asked, who has reported, who dropped out and why. Pure bookkeeping.

The coordinator decides; this keeps count, so that it never has to look through all tasks to know where a round stands.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from stayput.deploy.records import Phase, RoundFacts, TaskFacts, TaskId, TaskState, Update


@dataclass(slots=True)
class Task:
    """A client's part of the round."""

    task: TaskId
    client: int
    state: TaskState = TaskState.OPEN
    reason: str = ""
    update: Update | None = None


@dataclass(slots=True)
class RoundInProgress:
    """Counts over the tasks of one round."""

    number: int
    phase: Phase = Phase.COLLECTING
    attempt: int = 1
    goal: int = 0
    minimum: int = 0
    tasks: dict[TaskId, Task] = field(default_factory=dict)
    reported: dict[int, Task] = field(default_factory=dict)
    """By client: nobody counts twice."""
    open_by_client: dict[int, Task] = field(default_factory=dict)
    given: Counter[int] = field(default_factory=Counter)
    """How many tasks each client was given."""

    @classmethod
    def from_facts(cls, facts: RoundFacts) -> RoundInProgress:
        """The round as the store has it."""
        progress = cls(facts.round_number, facts.phase, facts.attempt, facts.goal, facts.minimum)
        for entry in facts.tasks:
            progress._put(Task(entry.task, entry.client, entry.state, entry.reason, entry.update))
        return progress

    @property
    def selected(self) -> bool:
        """Whether clients were asked yet."""
        return self.goal > 0

    @property
    def complete(self) -> bool:
        """Whether there are as many reports as the round is after."""
        return self.selected and len(self.reported) >= self.goal

    def give(self, client: int) -> Task:
        """A new task for a client."""
        task = Task(f"r{self.number}-c{client}-{self.given[client] + 1}", client)
        self._put(task)
        return task

    def report(self, task: Task, update: Update) -> None:
        """The update counts."""
        task.state, task.update = TaskState.REPORTED, update
        del self.open_by_client[task.client]
        self.reported[task.client] = task

    def drop(self, task: Task, reason: str) -> None:
        """The task comes to nothing."""
        task.state, task.reason = TaskState.DROPPED, reason
        del self.open_by_client[task.client]

    def reopen(self, clients: tuple[int, ...], reason: str) -> tuple[TaskId, ...]:
        """What these clients reported is damaged: their tasks come to nothing, and there is another attempt."""
        damaged = [self.reported.pop(client) for client in clients if client in self.reported]
        for task in damaged:
            task.state, task.reason, task.update = TaskState.DROPPED, reason, None
        self.phase, self.attempt = Phase.COLLECTING, self.attempt + 1
        return tuple(task.task for task in damaged)

    def updates(self) -> tuple[tuple[int, Update], ...]:
        """What counts, in the order of the clients: so the order of arrival changes no bit of the sum."""
        ordered = sorted(self.reported.items())
        return tuple((client, task.update) for client, task in ordered if task.update is not None)

    def facts(self) -> RoundFacts:
        """The inverse of `from_facts`."""
        tasks = tuple(TaskFacts(t.task, t.client, t.state, t.reason, t.update) for t in self.tasks.values())
        return RoundFacts(self.number, self.phase, self.attempt, self.goal, self.minimum, tasks)

    def _put(self, task: Task) -> None:
        self.tasks[task.task] = task
        self.given[task.client] += 1
        if task.state is TaskState.OPEN:
            self.open_by_client[task.client] = task
        elif task.state is TaskState.REPORTED:
            self.reported[task.client] = task
