"""Transfers over a network that cuts and loses: nothing is lost, and little is sent twice."""

from __future__ import annotations

import asyncio

import pytest
from flaky_network import FlakyProxy
from hand_clients import address_of, hand_clients
from toy_fleet import ENVIRONMENT, SETTINGS

from stayput.deploy import messages as m
from stayput.deploy.chunks import Transfer
from stayput.deploy.demo_fleet import LocalFleet
from stayput.errors import Away
from stayput.testing import toy_clients

pytestmark = pytest.mark.slow
WIDE = {"task": "wide", "heartbeat": 1.0, "lease": 60.0}


@pytest.fixture
def fleet(tmp_path):
    """A model of 6.65 MB, the size of the paper's CNN, as fleet_tasks.py has it."""
    with LocalFleet(tmp_path / "fleet", ENVIRONMENT) as running:
        settings = SETTINGS.format(clients=2, fraction=1.0, rounds=1, port=0, more="round_deadline = 600.0", **WIDE)
        running.prepare(settings, toy_clients((3, 4)))
        running.start_coordinator()
        yield running


async def bring(client, content):
    """Announce, send what is missing, go on after each cut. The receipt, and how often that was."""
    claim, cuts = client.claim(content), 0
    while cuts < 200:
        try:
            state = await client.announce(claim)
            if isinstance(state, m.Receipt):
                return state, cuts
            transfer = Transfer(claim.manifest, state.missing)
            while (index := transfer.next()) is not None:
                await client.put(claim, index, content)
                transfer.arrived(index)
            return await client.finish(claim), cuts
        except Away:
            cuts += 1
    raise AssertionError("it never ends")


async def over(fleet, proxy):
    async with proxy, hand_clients(fleet, (0, 1), address=proxy.before(address_of(fleet))) as clients:
        await asyncio.gather(*(client.task() for client in clients))
        contents = [client.update(seed=client.number) for client in clients]
        assert len(contents[0]) > 6_600_000
        return clients, await asyncio.gather(*map(bring, clients, contents))


def test_a_connection_that_is_cut_costs_at_most_a_chunk_each_time(fleet):
    proxy = FlakyProxy(fleet.url, cut_after=(1_500_000, 4_000_000), seed=1)
    clients, ended = asyncio.run(over(fleet, proxy))
    assert proxy.cuts >= 2
    for client, (receipt, cuts) in zip(clients, ended, strict=True):
        assert receipt.accepted, receipt
        assert len(client.chunks_sent) <= 7 + cuts
    # What the proxy let through, TLS, messages and all: the two updates, and a chunk more for each cut.
    assert proxy.passed <= 2 * 6_700_000 + proxy.cuts * ((1 << 20) + 32_000) + 100_000


def test_one_piece_in_a_hundred_lost_costs_time_and_nothing_else(fleet):
    proxy = FlakyProxy(fleet.url, loss=0.01, seed=2)
    clients, ended = asyncio.run(over(fleet, proxy))
    assert proxy.held_back > 0
    for client, (receipt, cuts) in zip(clients, ended, strict=True):
        assert receipt.accepted
        assert cuts == 0
        assert client.chunks_sent == list(range(7))
