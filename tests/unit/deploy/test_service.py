"""The service without sockets and without tensors: a real store, a real machine, and sums that are made up."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from stayput.deploy import records as r
from stayput.deploy.app import steady_clock
from stayput.deploy.blobs import Blobs
from stayput.deploy.closer_process import CloserFailed
from stayput.deploy.database import sqlite_url
from stayput.deploy.fleet_settings import FleetSettings
from stayput.deploy.identity import new_token
from stayput.deploy.membership import Membership
from stayput.deploy.observing import round_in
from stayput.deploy.service import Service, Unavailable
from stayput.deploy.store import Conflict, Store
from stayput.errors import AccessDenied, InvalidSetting, StoreFailed, UnknownName

SETTINGS = FleetSettings(hold=0.2, heartbeat=0.5, lease=2.0, round_deadline=5.0)


class MadeUpSums:
    """In place of the process that sums: a model is a few bytes that say which round it is after."""

    def __init__(self, blobs, rounds):
        self.blobs, self.rounds, self.orders, self.fails = blobs, rounds, [], None
        self.full, self.damaged = False, []

    async def order(self, order):
        self.orders.append(order)
        if self.full:
            raise StoreFailed("the disk is full")
        if self.fails:
            raise CloserFailed(self.fails)
        if self.damaged and order["do"] == "close":
            damaged, self.damaged = self.damaged, []
            return {"damaged": damaged}
        number = order.get("round", 0)
        name = await asyncio.to_thread(self.blobs.put_model, f"model {number}".encode())
        facts = {"round_number": number, "model_sha256": name, "evaluation": {}}
        return {
            "schema": [],
            "result": {"state_sha256": name, "sent_sha256": name, "report": facts, "finished": number >= self.rounds},
        }

    async def stop(self):
        pass


def members(store, count):
    membership = Membership(store)
    for number in range(count):
        _, token = new_token()
        membership.add(f"client-{number}", token, now=1.0)
        membership.enrol(token.token_id, f"{number:032x}", bytes(32), now=2.0)
    return membership


class Fleet:
    """A service over a folder; may be stopped and started."""

    def __init__(self, folder, *, count=2, rounds=3, settings=SETTINGS):
        self.folder, self.settings, self.rounds = folder, settings, rounds
        self.store = Store(sqlite_url(folder / "fleet.db"))
        if self.store.head()["plan"] is None:
            self.store.set_plan({"spec": {"seed": 1, "algorithm": {"client_fraction": 1.0}}, "file_sha256": ""})
            members(self.store, count)

    async def __aenter__(self):
        blobs = Blobs(self.folder / "blobs")
        self.service = Service(self.settings, self.store, blobs)
        await self.service.start()
        self.service._closer = MadeUpSums(blobs, self.rounds)
        await until(lambda: self.service.machine is not None)
        return self.service

    async def __aexit__(self, *error):
        await self.service.stop()
        self.store.close()


async def until(condition, seconds=10.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def train(service, client, *, times=1):
    """A client's part in the rounds that are left; each report is made so many times."""
    while True:
        answer = await service.poll(r.Polled(client, True, 5))
        if isinstance(answer, r.Rest):
            if answer.finished:
                return
            await asyncio.sleep(answer.seconds)
            continue
        update = r.Update(f"{client}", 5, 1, 0.5)
        checked = r.UpdateChecked(client, answer.task, update)
        answers = await asyncio.gather(*(service.submit(checked) for _ in range(times)))
        receipts = [a for actions in answers for a in actions if isinstance(a, r.Receipt) and a.client == client]
        # Once its round is over, a report that comes again is told just that.
        assert receipts[0].accepted
        assert all(receipt.accepted or receipt.reason == "its round is over" for receipt in receipts)


def test_rounds_go_on_until_the_last(tmp_path):
    async def scenario():
        fleet = Fleet(tmp_path)
        async with fleet as service:
            await asyncio.gather(train(service, 0, times=3), train(service, 1, times=3))
            assert [row["number"] for row in fleet.store.round_rows()] == [0, 1, 2, 3]
            assert all(len(fleet.store.task_rows(number)) == 2 for number in (1, 2, 3))
            assert fleet.store.dropouts() == []
            assert fleet.store.head()["finished"]

    asyncio.run(scenario())


def test_a_second_process_stands_by_and_takes_over(tmp_path):
    async def scenario():
        first, second = Fleet(tmp_path), Fleet(tmp_path)
        blobs = Blobs(tmp_path / "blobs")
        async with first as service:
            other = Service(SETTINGS, second.store, blobs)
            await other.start()
            other._closer = MadeUpSums(blobs, 3)
            await until(lambda: other.trouble == "another coordinator leads")
            with pytest.raises(Unavailable, match="another coordinator leads"):
                await other.submit(r.Tick())
            assert service.machine is not None
        began = time.monotonic()
        await until(lambda: other.machine is not None)
        assert time.monotonic() - began < 5
        await other.stop()
        second.store.close()

    asyncio.run(scenario())


def test_a_full_disk_refuses_work_and_says_so_and_is_over_when_there_is_room(tmp_path):
    """P11, by SQLite's own limit on its pages."""

    async def scenario():
        fleet = Fleet(tmp_path, count=150)
        pages = {"most": 2**30}

        def limit(connection, record):
            connection.execute(f"PRAGMA max_page_count = {pages['most']}")

        event.listen(fleet.store.engine, "connect", limit)
        async with fleet as service:
            with fleet.store.transaction() as connection:
                pages["most"] = connection.execute(sa.text("PRAGMA page_count")).scalar()
            fleet.store.engine.dispose()
            polls = [asyncio.ensure_future(service.poll(r.Polled(client, True, 5))) for client in range(150)]
            outcomes = await asyncio.gather(*polls, return_exceptions=True)
            assert any(isinstance(outcome, Unavailable) for outcome in outcomes)
            await until(lambda: service.trouble is not None or service.machine is not None)
            assert "full" in " ".join(str(outcome) for outcome in outcomes)
            pages["most"] = 2**30
            fleet.store.engine.dispose()
            await until(lambda: service.machine is not None)
            await asyncio.gather(*(train(service, client) for client in range(150)))
            assert fleet.store.head()["finished"]

    asyncio.run(scenario())


def test_a_locked_database_refuses_work_and_recovers(tmp_path):
    async def scenario():
        fleet = Fleet(tmp_path)
        async with fleet as service:
            event.listen(fleet.store.engine, "connect", lambda c, record: c.execute("PRAGMA busy_timeout = 50"))
            fleet.store.engine.dispose()
            other = Store(sqlite_url(tmp_path / "fleet.db"))
            with other.transaction():  # holds the write lock
                outcomes = await asyncio.gather(
                    *(service.poll(r.Polled(client, True, 5)) for client in (0, 1)), return_exceptions=True
                )
                assert any(isinstance(o, Unavailable) and "locked" in str(o) for o in outcomes), outcomes
            other.close()
            await until(lambda: service.machine is not None)
            await asyncio.gather(train(service, 0), train(service, 1))

    asyncio.run(scenario())


def test_a_damaged_database_is_said_to_be_one(tmp_path):
    fleet = Fleet(tmp_path)
    fleet.store.close()
    path = tmp_path / "fleet.db"
    content = bytearray(path.read_bytes())
    content[:16] = bytes(16)
    path.write_bytes(content)
    with pytest.raises(StoreFailed, match=r"fleet\.db.*(not a database|malformed)"):
        Store(sqlite_url(path))


def test_a_round_that_cannot_be_summed_ends_the_training_with_its_reason(tmp_path):
    async def scenario():
        fleet = Fleet(tmp_path)
        async with fleet as service:
            service._closer.fails = "round 1: training gave loss nan"
            polls = asyncio.gather(train(service, 0), train(service, 1), return_exceptions=True)
            await until(lambda: fleet.store.head()["failure"] is not None)
            polls.cancel()
            await asyncio.gather(polls, return_exceptions=True)
            assert "nan" in fleet.store.head()["failure"]
            assert "nan" in service.failure
            with pytest.raises(Unavailable, match="nan"):
                await service.submit(r.Tick())

    asyncio.run(scenario())


def test_a_deadline_holds_though_the_clock_is_set_back(tmp_path, monkeypatch):
    """P12: deadlines are counted, not read off a clock."""

    async def scenario():
        fleet = Fleet(tmp_path, settings=FleetSettings(hold=0.2, heartbeat=0.5, lease=60.0, round_deadline=1.0))
        async with fleet as service:
            await asyncio.gather(*(service.poll(r.Polled(client, True, 5)) for client in (0, 1)))
            (actions) = await service.submit(r.UpdateChecked(0, "r1-c0-1", r.Update("0", 5, 1, 0.5)))
            assert actions
            began = time.monotonic()
            now = time.time()
            monkeypatch.setattr(time, "time", lambda: now - 3600.0)
            await until(lambda: service.machine.last_closed == 1)
            assert time.monotonic() - began < 2.0
            assert fleet.store.dropouts()[0]["reason"] == r.DropReason.DEADLINE

    asyncio.run(scenario())


def test_the_clock_that_requests_are_held_to_never_steps_back(monkeypatch):
    clock = steady_clock()
    before = clock()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert before <= clock() <= before + 60


def test_a_change_that_is_based_on_an_older_version_is_refused(tmp_path):
    store = Store(sqlite_url(tmp_path / "fleet.db"))
    _, version = store.snapshot()
    assert store.apply([r.RoundOpened(1)], version=version) == version + 1
    with pytest.raises(Conflict):
        store.apply([r.RoundOpened(2)], version=version)
    assert store.snapshot()[0].open_round.round_number == 1
    store.close()


def test_the_database_itself_counts_a_client_once(tmp_path):
    store = Store(sqlite_url(tmp_path / "fleet.db"))
    given = r.ClientsSelected(1, 1, 1, (("r1-c0-1", 0), ("r1-c0-2", 0)))
    store.apply([r.RoundOpened(1), given, r.TaskReported("r1-c0-1", r.Update("a", 1, 1, 0.5))])
    with pytest.raises(StoreFailed, match="UNIQUE"):
        store.apply([r.TaskReported("r1-c0-2", r.Update("b", 1, 1, 0.5))])
    with pytest.raises(Conflict):
        store.apply([r.TaskReported("r1-c0-1", r.Update("a", 1, 1, 0.5))])
    store.close()


def test_a_token_lets_one_key_in_once(tmp_path):
    store = Store(sqlite_url(tmp_path / "fleet.db"))
    membership = Membership(store)
    _, token = new_token()
    assert membership.add("clinic-7", token, now=1.0) == 0
    with pytest.raises(InvalidSetting, match="clinic-7"):
        membership.add("clinic-7", new_token()[1], now=1.0)
    first = membership.enrol(token.token_id, "a" * 32, b"a", now=2.0)
    assert membership.enrol(token.token_id, "a" * 32, b"a", now=3.0) == first, "an answer that was lost"
    with pytest.raises(AccessDenied):
        membership.enrol(token.token_id, "b" * 32, b"b", now=3.0)
    membership.revoke("clinic-7", now=4.0)
    assert membership.members()[0].key.revoked
    with pytest.raises(UnknownName, match="clinic-7"):
        membership.revoke("clinic-8", now=4.0)
    store.close()


def test_a_key_is_one_clients_and_a_revoked_one_does_not_come_back(tmp_path):
    store = Store(sqlite_url(tmp_path / "fleet.db"))
    membership = Membership(store)
    (_, first), (_, second) = new_token(), new_token()
    membership.add("clinic-1", first, now=1.0)
    membership.add("clinic-2", second, now=1.0)
    membership.enrol(first.token_id, "a" * 32, bytes(32), now=2.0)
    with pytest.raises(AccessDenied, match="belongs to another client") as refusal:
        membership.enrol(second.token_id, "a" * 32, bytes(32), now=3.0)
    assert refusal.value.code == "used-key"
    assert membership.token(second.token_id)[2] is None  # and the token is as good as before
    membership.revoke("clinic-1", now=4.0)
    with pytest.raises(AccessDenied, match="was revoked"):
        membership.enrol(first.token_id, "a" * 32, bytes(32), now=5.0)
    store.close()


def test_tables_and_migrations_agree(tmp_path):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    from stayput.deploy import database, tables

    store = Store(sqlite_url(tmp_path / "fleet.db"))
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []
    scripts = ScriptDirectory(os.path.join(os.path.dirname(database.__file__), "migrations"))  # noqa: PTH118, PTH120
    assert scripts.get_current_head() == database.HEAD
    store.close()


@pytest.mark.parametrize("name", ["", " a", "a\nb", "a\x1b[2J", "x" * 65])
def test_a_clients_name_is_one_line_of_text(tmp_path, name):
    store = Store(sqlite_url(tmp_path / "fleet.db"))
    with pytest.raises(InvalidSetting, match="printable characters"):
        Membership(store).add(name, new_token()[1], now=1.0)
    store.close()


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("", -1), ("-1", -1), ("--5", -1), ("9" * 5000, -1), ("²", -1)])
def test_the_status_is_asked_from_a_round_on(text, number):
    assert round_in(text) == number


def test_a_database_of_the_first_form_is_brought_to_the_present_one(tmp_path, monkeypatch):
    from stayput.deploy import database

    monkeypatch.setattr(database, "HEAD", "0001")
    old = Store(sqlite_url(tmp_path / "fleet.db"))
    given = r.ClientsSelected(1, 1, 1, (("r1-c0-1", 0),))
    old.apply([r.RoundOpened(1), given, r.TaskDropped("r1-c0-1", "lost")])
    old.close()
    monkeypatch.undo()
    present = Store(sqlite_url(tmp_path / "fleet.db"))
    (row,) = present.task_rows(1)
    assert (row["task"], row["reason"], row["size"]) == ("r1-c0-1", "lost", None)
    present.close()


def test_whether_an_update_counts_is_known_when_its_round_is_over(tmp_path):
    store = Store(sqlite_url(tmp_path / "fleet.db"))
    given = r.ClientsSelected(1, 1, 1, (("r1-c0-1", 0), ("r1-c1-1", 1)))
    store.apply([r.RoundOpened(1), given, r.TaskReported("r1-c0-1", r.Update("a", 1, 1, 0.5, 1.0, 7, b"s"))])
    store.apply([r.TaskDropped("r1-c1-1", "late"), r.RoundClosed(1, r.RoundResult("m", "m", {}, finished=False))])
    assert store.counts("r1-c0-1", 0, "a")
    assert not store.counts("r1-c0-1", 1, "a"), "another's"
    assert not store.counts("r1-c0-1", 0, "b"), "another update"
    assert not store.counts("r1-c1-1", 1, "a"), "dropped"
    assert not store.counts("r9-c0-1", 0, "a"), "unknown"
    (row, _) = store.task_rows(1)
    assert (row["size"], row["signature"]) == (7, b"s")
    store.close()


def test_a_disk_that_is_full_while_a_round_is_closed_is_waited_for(tmp_path):
    async def scenario():
        fleet = Fleet(tmp_path)
        async with fleet as service:
            service._closer.full = True
            training = asyncio.gather(train(service, 0), train(service, 1))
            await until(lambda: service.trouble is not None)
            assert service.trouble == "round 1 cannot be closed yet: the disk is full"
            assert fleet.store.head()["failure"] is None
            service._closer.full = False
            await training
            assert service.trouble is None
            assert fleet.store.head()["finished"]

    asyncio.run(scenario())


def test_damaged_updates_are_dropouts_and_their_clients_are_asked_again(tmp_path):
    async def scenario():
        fleet = Fleet(tmp_path)
        async with fleet as service:
            service._closer.damaged = [1]
            await asyncio.gather(train(service, 0), train(service, 1))
            rows = fleet.store.task_rows(1)
            assert [(row["task"], row["state"], row["reason"]) for row in rows] == [
                ("r1-c0-1", "reported", ""),
                ("r1-c1-1", "dropped", r.DropReason.DAMAGED),
                ("r1-c1-2", "reported", ""),
            ]
            assert not fleet.store.counts("r1-c1-1", 1, "1"), "who asks is told that it does not count any more"
            (attempt,) = fleet.store.failed_attempts()
            assert (attempt["round"], attempt["attempt"]) == (1, 1)
            assert fleet.store.head()["finished"]

    asyncio.run(scenario())
