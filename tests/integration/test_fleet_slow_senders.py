"""Senders that are slow on purpose, and bodies that are not what they say: they cost little and harm nobody."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hand_clients import hand_clients
from toy_fleet import toy_fleet

from stayput.deploy import messages as m
from stayput.deploy.certificates import client_context
from stayput.errors import Away, TransferFailed

pytestmark = pytest.mark.slow


@pytest.fixture
def fleet(tmp_path):
    with toy_fleet(tmp_path / "fleet", 8, rounds=1, more="start_with = 8") as running:
        running.start_coordinator()
        yield running


def resident_mib(fleet):
    for line in Path(f"/proc/{fleet.coordinator.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


async def honest_times(clients, requests):
    """Seconds that heartbeats take, some clients at a time."""
    times = []

    async def one(client):
        for _ in range(requests):
            began = time.perf_counter()
            await client.connection.ask("POST", "/v1/tasks/r9-c9-9/heartbeat", m.Heartbeat("r9-c9-9"), m.Lease)
            times.append(time.perf_counter() - began)
            await asyncio.sleep(0.05)

    await asyncio.gather(*map(one, clients))
    return sorted(times)


async def scenario(fleet, senders, requests):
    async with hand_clients(fleet, range(8)) as clients:
        await honest_times(clients, 5)
        before, memory = await honest_times(clients, requests), resident_mib(fleet)
        command = [sys.executable, str(Path(__file__).parent / "slow_senders.py"), fleet.url, str(senders), "14"]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert await process.stdout.readline() == b"all\n"
        during = await honest_times(clients, requests)
        grown = resident_mib(fleet) - memory
        closed = int(await process.stdout.readline())  # headers have ten seconds: who has not sent them is cut off
        assert await process.wait() == 0
        return before, during, grown, closed


def hold_the_promise(fleet, senders, requests, slack_s):
    before, during, grown, closed = asyncio.run(scenario(fleet, senders, requests))
    p99 = [statistics.quantiles(times, n=100)[98] for times in (before, during)]
    assert p99[1] <= 2 * p99[0] + slack_s, p99
    assert grown < 30 + 0.1 * senders, f"{grown} MiB for {senders} connections"
    assert closed >= senders // 2, "whose headers have no end is cut off"
    return p99, grown


def test_slow_senders_harm_nobody_and_are_cut_off(fleet):
    hold_the_promise(fleet, 150, 40, 0.3)  # the slack is for a machine that does other things too


@pytest.mark.soak
def test_a_thousand_slow_senders_harm_nobody(fleet):
    hold_the_promise(fleet, 1000, 100, 0.05)


async def lies(fleet):
    """Bodies that are longer or shorter than they said, or longer than is allowed, by an enrolled client."""
    parts, context = urlsplit(fleet.url), client_context(pinned=True)
    answers = []
    for head, body in (
        (b"POST /v1/enrol HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n", b"{}"),
        (b"POST /v1/enrol HTTP/1.1\r\nhost: x\r\ncontent-length: " + b"9" * 5000 + b"\r\n\r\n", b"{}"),
        (b"POST /v1/enrol HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n", b"4000\r\n" + b"x" * 0x4000),
        (b"POST /v1/enrol HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n", b"{}" + b"x" * 100_000),
        (b"POST /v1/enrol HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 100_000 + b"\r\n\r\n", b""),
        (b"GET /v1/hello HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", b""),
        (b"\x00" * 1000, b""),
    ):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=context)
        with contextlib.suppress(OSError, TimeoutError):
            writer.write(head + body)
            answers.append((await asyncio.wait_for(reader.readline(), 15)).split()[1:2])
        writer.transport.abort()
    async with hand_clients(fleet, (0,)) as (client,):
        content = b"x" * 5_000
        with pytest.raises((TransferFailed, Away)):
            await client.connection.send("POST", "/v1/poll", content * 100)
    return [answer[0] if answer else b"cut" for answer in answers]


def test_who_lies_about_a_length_is_refused(fleet):
    answers = asyncio.run(lies(fleet))
    assert answers[0] == b"413", answers
    assert answers[2] == b"413", answers
    assert all(answer in {b"400", b"413", b"431", b"cut"} for answer in answers), answers
    assert fleet.coordinator.poll() is None
    assert "bug" not in fleet.log("coordinator")
