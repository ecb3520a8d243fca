"""What of a fleet survives, as rows: the coordinator's changes, one transaction for those of an event.

Every method is one transaction, and a method that returns has been made durable. Failures of the database are
`StoreFailed`; nothing of a failed transaction stays. Must not import torch or a web framework.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import singledispatch
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from stayput.deploy import records as r
from stayput.deploy.database import connect, reason_of
from stayput.deploy.tables import attempts, clients, fleet, rounds, tasks
from stayput.errors import StoreFailed


class Conflict(StoreFailed):
    """Another coordinator has changed what this one based its change on: load again."""


class Store:
    """A fleet in a database. Safe to use from several threads, one transaction each."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.time) -> None:
        self.engine: Engine = connect(url)
        self._clock = clock
        with self.transaction() as connection:
            if connection.execute(sa.select(fleet.c.id)).first() is None:
                connection.execute(fleet.insert().values(id=1))

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction; whatever the database refuses becomes `StoreFailed`."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreFailed(f"the database refused a change: {reason_of(error)}") from error

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    # The coordinator's side

    def apply(self, changes: Sequence[r.Change], *, version: int | None = None) -> int:
        """Carry out changes as one transaction, and give the fleet's new version.

        With `version`, only if nobody has changed the fleet since; `Conflict` otherwise.
        """
        with self.transaction() as connection:
            grown = fleet.update().where(fleet.c.id == 1).values(version=fleet.c.version + 1)
            if version is not None:
                grown = grown.where(fleet.c.version == version)
            if connection.execute(grown).rowcount != 1:
                raise Conflict("another coordinator was faster")
            for change in changes:
                _carry_out(change, connection, self._clock())
            return int(connection.execute(sa.select(fleet.c.version)).scalar_one())

    def snapshot(self) -> tuple[r.Snapshot, int]:
        """All that survives of the coordinator, and the fleet's version."""
        with self.transaction() as connection:
            head = connection.execute(sa.select(fleet)).one()
            there = sa.select(clients.c.number, clients.c.num_examples).where(
                clients.c.enrolled_at.is_not(None), clients.c.revoked_at.is_(None)
            )
            numbers = {row.number: row.num_examples for row in connection.execute(there)}
            snapshot = r.Snapshot(numbers, head.last_closed, _open_round(connection), head.finished)
            return snapshot, head.version

    def version(self) -> int:
        """The fleet's version: a coordinator whose own is older loads again."""
        with self.transaction() as connection:
            return int(connection.execute(sa.select(fleet.c.version)).scalar_one())

    # What is learned

    def head(self) -> Mapping[str, Any]:
        """The fleet's row: plan, schema, the present model, how far it is."""
        with self.transaction() as connection:
            return dict(connection.execute(sa.select(fleet)).mappings().one())

    def set_plan(self, plan: Mapping[str, Any]) -> None:
        """What is to be learned; before the first model is made."""
        with self.transaction() as connection:
            connection.execute(fleet.update().values(plan=dict(plan)))

    def begin(self, schema: Sequence[Mapping[str, Any]], result: r.RoundResult) -> None:
        """The initial model, which is round 0."""
        with self.transaction() as connection:
            if connection.execute(sa.select(fleet.c.state_sha256)).scalar() is not None:
                return  # another process has made it, the same one
            connection.execute(
                fleet.update().values(
                    schema=list(schema),
                    state_sha256=result.state_sha256,
                    sent_sha256=result.sent_sha256,
                    finished=result.finished,
                    version=fleet.c.version + 1,
                )
            )
            now = self._clock()
            connection.execute(
                rounds.insert().values(
                    number=0, phase=CLOSED, opened_at=now, closed_at=now, state_sha256=result.state_sha256,
                    sent_sha256=result.sent_sha256, report=dict(result.report),
                )
            )  # fmt: skip

    def fail(self, reason: str) -> None:
        """Training cannot go on."""
        with self.transaction() as connection:
            connection.execute(fleet.update().values(failure=reason, version=fleet.c.version + 1))

    def remember_examples(self, client: int, num_examples: int) -> None:
        """n_k as a client said it last."""
        with self.transaction() as connection:
            connection.execute(clients.update().where(clients.c.number == client).values(num_examples=num_examples))

    # What happened

    def round_rows(self, *, after: int = -1) -> list[dict[str, Any]]:
        """Rounds in order, with their reports."""
        with self.transaction() as connection:
            query = sa.select(rounds).where(rounds.c.number > after).order_by(rounds.c.number)
            return [dict(row) for row in connection.execute(query).mappings()]

    def task_rows(self, round_number: int) -> list[dict[str, Any]]:
        """The tasks of a round, in the order of the clients."""
        with self.transaction() as connection:
            query = sa.select(tasks).where(tasks.c.round == round_number).order_by(tasks.c.client, tasks.c.given_at)
            return [dict(row) for row in connection.execute(query).mappings()]

    def dropouts(self) -> list[dict[str, Any]]:
        """How often tasks came to nothing, by round and reason."""
        with self.transaction() as connection:
            count = sa.func.count().label("count")
            query = (
                sa.select(tasks.c.round, tasks.c.reason, count)
                .where(tasks.c.state == r.TaskState.DROPPED)
                .group_by(tasks.c.round, tasks.c.reason)
                .order_by(tasks.c.round)
            )
            return [dict(row) for row in connection.execute(query).mappings()]

    def failed_attempts(self) -> list[dict[str, Any]]:
        """Attempts at rounds that ended with too few reports."""
        with self.transaction() as connection:
            query = sa.select(attempts).order_by(attempts.c.round, attempts.c.attempt)
            return [dict(row) for row in connection.execute(query).mappings()]

    def counts(self, task: r.TaskId, client: int, sha256: str) -> bool:
        """Whether this client's update counts for a task, however long ago."""
        with self.transaction() as connection:
            found = connection.execute(
                sa.select(tasks.c.client, tasks.c.state, tasks.c.sha256).where(tasks.c.task == task)
            )
            return tuple(found.first() or ()) == (client, r.TaskState.REPORTED, sha256)


CLOSED = "closed"
"""The phase of a round that is over."""


def _open_round(connection: Connection) -> r.RoundFacts | None:
    row = connection.execute(sa.select(rounds).where(rounds.c.phase != CLOSED)).first()
    if row is None:
        return None
    found = connection.execute(sa.select(tasks).where(tasks.c.round == row.number).order_by(tasks.c.task))
    facts = tuple(
        r.TaskFacts(
            task.task,
            task.client,
            r.TaskState(task.state),
            task.reason,
            None
            if task.sha256 is None
            else r.Update(task.sha256, task.num_examples, task.num_steps, task.train_loss, task.scale),
        )
        for task in found
    )
    return r.RoundFacts(row.number, r.Phase(row.phase), row.attempt, row.goal, row.minimum, facts)


@singledispatch
def _carry_out(change: object, connection: Connection, now: float) -> None:
    raise TypeError(f"{change}: not a change, for {connection} at {now}")


@_carry_out.register
def _(change: r.RoundOpened, connection: Connection, now: float) -> None:
    connection.execute(rounds.insert().values(number=change.round_number, phase=r.Phase.COLLECTING, opened_at=now))


@_carry_out.register
def _(change: r.ClientsSelected, connection: Connection, now: float) -> None:
    found = rounds.c.number == change.round_number
    first = sa.func.coalesce(rounds.c.selected_at, now)
    connection.execute(rounds.update().where(found).values(goal=change.goal, minimum=change.minimum, selected_at=first))
    connection.execute(
        tasks.insert(),
        [
            {"task": task, "round": change.round_number, "client": client, "state": r.TaskState.OPEN, "given_at": now}
            for task, client in change.tasks
        ],
    )


@_carry_out.register
def _(change: r.TaskReported, connection: Connection, now: float) -> None:
    update = change.update
    _end_task(
        connection, change.task, state=r.TaskState.REPORTED, ended_at=now, sha256=update.sha256,
        num_examples=update.num_examples, num_steps=update.num_steps, train_loss=update.train_loss, scale=update.scale,
        size=update.size, signature=update.signature,
    )  # fmt: skip


@_carry_out.register
def _(change: r.TaskDropped, connection: Connection, now: float) -> None:
    _end_task(connection, change.task, state=r.TaskState.DROPPED, ended_at=now, reason=change.reason)


@_carry_out.register
def _(change: r.AttemptFailed, connection: Connection, now: float) -> None:
    connection.execute(
        attempts.insert().values(round=change.round_number, attempt=change.attempt, ended_at=now, reason=change.reason)
    )
    found = rounds.c.number == change.round_number
    connection.execute(rounds.update().where(found).values(attempt=change.attempt + 1))


@_carry_out.register
def _(change: r.RoundClosing, connection: Connection, now: float) -> None:
    found = rounds.c.number == change.round_number
    connection.execute(rounds.update().where(found).values(phase=r.Phase.CLOSING, closing_at=now))


@_carry_out.register
def _(change: r.RoundReopened, connection: Connection, now: float) -> None:
    reason = f"{len(change.tasks)} updates were {r.DropReason.DAMAGED}"
    _carry_out(r.AttemptFailed(change.round_number, change.attempt, reason), connection, now)
    found = rounds.c.number == change.round_number
    connection.execute(rounds.update().where(found).values(phase=r.Phase.COLLECTING, closing_at=None))
    damaged = tasks.update().where(tasks.c.task.in_(change.tasks), tasks.c.state == r.TaskState.REPORTED)
    gone = damaged.values(state=r.TaskState.DROPPED, reason=r.DropReason.DAMAGED, ended_at=now, sha256=None)
    if connection.execute(gone).rowcount != len(change.tasks):
        raise Conflict(f"round {change.round_number}: is not as it was")


@_carry_out.register
def _(change: r.RoundClosed, connection: Connection, now: float) -> None:
    result = change.result
    connection.execute(
        rounds.update()
        .where(rounds.c.number == change.round_number)
        .values(
            phase=CLOSED, closed_at=now, state_sha256=result.state_sha256, sent_sha256=result.sent_sha256,
            report=dict(result.report),
        )
    )  # fmt: skip
    connection.execute(
        fleet.update().values(
            last_closed=change.round_number,
            state_sha256=result.state_sha256,
            sent_sha256=result.sent_sha256,
            finished=result.finished,
        )
    )


def _end_task(connection: Connection, task: r.TaskId, **values: object) -> None:
    ended = tasks.update().where(tasks.c.task == task, tasks.c.state == r.TaskState.OPEN).values(**values)
    if connection.execute(ended).rowcount != 1:
        raise Conflict(f"task {task}: is not open any more")
