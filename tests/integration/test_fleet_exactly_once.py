"""P2 over real sockets: reports that come several times, in any order, over restarts of the coordinator, count once."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from hand_clients import hand_clients
from test_fleet_killed import counted, free_port
from toy_fleet import toy_fleet

from stayput.deploy.demo_fleet import waiting
from stayput.errors import AccessDenied, Away, TransferFailed

pytestmark = pytest.mark.slow


class Reports:
    """What clients were told of the tasks that they have reported."""

    def __init__(self, seed):
        self.draw = random.Random(seed)  # noqa: S311 - how often to send again
        self.accepted, self.sent = set(), 0

    async def insist(self, work):
        """Do it until there is an answer."""
        for _ in range(600):
            with contextlib.suppress(Away, TransferFailed, AccessDenied):
                return await work()
            await asyncio.sleep(0.05)
        raise AssertionError("the coordinator does not come back")

    async def take_part(self, client, fleet, before):
        """One round of one client: its update 1 to 6 times, some at once, and that of the round before again."""
        await self.insist(lambda: client.task(seconds=30))
        content = client.update(seed=client.number + 1000 * client.offer.round_number)
        claim = client.claim(content)
        again = self.draw.randint(0, 5)
        at_once = self.draw.randint(0, again)
        copies = [self.insist(lambda: client.report(content, claim)) for _ in range(1 + at_once)]
        if before is not None:
            copies.insert(self.draw.randint(0, len(copies)), self.insist(lambda: client.report(*before)))
        receipts = list(await asyncio.gather(*copies))
        receipts += [await self.insist(lambda: client.report(content, claim)) for _ in range(again - at_once)]
        assert all(receipt.accepted for receipt in receipts), receipts
        self.sent += len(receipts)
        self.accepted.add(claim.task_id)
        return content, claim


async def scenario(fleet, *, num_clients, rounds, restarts, seed):
    reports = Reports(seed)
    async with hand_clients(fleet, range(num_clients)) as clients:
        before = [None] * num_clients
        for number in range(1, rounds + 1):
            working = asyncio.gather(*(reports.take_part(c, fleet, b) for c, b in zip(clients, before, strict=True)))
            if number in restarts:
                fleet.coordinator.kill()
                await asyncio.to_thread(fleet.coordinator.wait)
                await asyncio.to_thread(fleet.start_coordinator)
            before = await working
    return reports


def count_once(folder, *, num_clients, rounds, restarts, seed):
    with toy_fleet(folder, num_clients, rounds=rounds, port=free_port(), more="upload_slots = 16") as fleet:
        fleet.start_coordinator()
        reports = asyncio.run(scenario(fleet, num_clients=num_clients, rounds=rounds, restarts=restarts, seed=seed))
        for _ in waiting(30, "the last round does not end"):
            if fleet.status()["finished"]:
                break
        tasks = counted(fleet)
        assert len(tasks) == len(set(tasks)) == num_clients * rounds, "none twice"
        assert reports.accepted == set(tasks), "none lost"
        assert not fleet.status()["dropouts"]
        for entry in fleet.status()["history"][1:]:
            assert entry["report"]["cohort_size"] == num_clients
            assert entry["report"]["num_examples"] == 5 * num_clients
        return len(tasks), reports.sent


def test_each_report_counts_once_however_often_it_comes(tmp_path):
    tasks, sent = count_once(tmp_path, num_clients=4, rounds=5, restarts={3}, seed=1)
    assert tasks == 20
    assert sent > 2 * tasks


@pytest.mark.soak
def test_a_thousand_reports_count_once_however_often_they_come(tmp_path):
    tasks, sent = count_once(tmp_path, num_clients=10, rounds=100, restarts={7, 31, 32, 60, 88}, seed=2)
    assert tasks == 1_000
    assert sent > 2 * tasks
