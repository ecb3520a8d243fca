"""What a coordinator takes: updates of 6.65 MB and heartbeats, over TLS on loopback, by clients that do not train.

    .venv/bin/python benchmarks/deploy.py [--updates 40] [--seconds 5] [--out FILE]

The coordinator is a process of its own; the clients are one process on the same machine and share its cores, so that
the updates a second are what the two can do together, and the processor time of an update is the coordinator's alone.
Each update is sent, hashed, written, flushed, checked number by number and stored in a transaction before it is
acknowledged.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "integration"))

from hand_clients import HandClient, hand_clients
from toy_fleet import ENVIRONMENT

from stayput.deploy import messages as m
from stayput.deploy.demo_fleet import LocalFleet
from stayput.runs.environment import machine, versions
from stayput.testing import toy_clients

SETTINGS = """\
num_clients = {clients}
client_fraction = 1.0
local_epochs = 1
batch_size = 10
rounds = 2
seed = 1
threads = 1

[fleet]
task = "mnist-cnn"
port = 0
evaluate = false
heartbeat = 5.0
lease = 120.0
"""


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """Processor time of a process so far, in it and for it."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(process: subprocess.Popen[bytes]) -> float:
    """The most memory that a process has held."""
    lines = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


async def updates(fleet: LocalFleet, clients: list[HandClient], at_a_time: int = 4) -> tuple[float, float, int]:
    """Seconds and the coordinator's processor seconds for an update of every client."""
    contents = [client.update(seed=client.number) for client in clients]
    turns = asyncio.Semaphore(at_a_time)

    async def one(client: HandClient, content: bytes) -> None:
        async with turns:
            receipt = await client.report(content)
            assert receipt.accepted, receipt

    began, cpu = time.perf_counter(), cpu_seconds(fleet.coordinator)
    await asyncio.gather(*map(one, clients, contents))
    return time.perf_counter() - began, cpu_seconds(fleet.coordinator) - cpu, len(contents[0])


async def heartbeats(fleet: LocalFleet, clients: list[HandClient], seconds: float) -> tuple[list[float], float]:
    """How many are answered in so many seconds, and each one's time."""
    times, until = [], time.perf_counter() + seconds
    cpu = cpu_seconds(fleet.coordinator)

    async def one(client: HandClient) -> None:
        while (began := time.perf_counter()) < until:
            message = m.Heartbeat(client.offer.task_id)
            await client.connection.ask("POST", f"/v1/tasks/{message.task_id}/heartbeat", message, m.Lease)
            times.append(time.perf_counter() - began)

    await asyncio.gather(*map(one, clients))
    return times, cpu_seconds(fleet.coordinator) - cpu


async def measured(fleet: LocalFleet, number: int, seconds: float) -> dict[str, float]:
    """All figures."""
    async with hand_clients(fleet, range(number)) as clients:
        await asyncio.gather(*(client.task(seconds=120) for client in clients))
        base = peak_mib(fleet.coordinator)
        times, beat_cpu = await heartbeats(fleet, clients[:8], seconds)
        wall, cpu, size = await updates(fleet, clients)
    return {
        "bytes_of_an_update": size,
        "updates": number,
        "updates_per_second": number / wall,
        "coordinator_cpu_seconds_per_update": cpu / number,
        "heartbeats_per_second": len(times) / seconds,
        "heartbeat_median_ms": 1000 * statistics.median(times),
        "heartbeat_p99_ms": 1000 * statistics.quantiles(times, n=100)[98],
        "coordinator_cpu_ms_per_heartbeat": 1000 * beat_cpu / len(times),
        "coordinator_peak_mib_before_updates": base,
        "coordinator_peak_mib": peak_mib(fleet.coordinator),
    }


def main() -> None:
    """Measure and print; write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    facts = {"machine": machine("cpu"), "load_before": os.getloadavg()[0], "versions": versions()}
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        LocalFleet(Path(folder), ENVIRONMENT) as fleet,
    ):
        fleet.prepare(SETTINGS.format(clients=given.updates), toy_clients((2,) * given.updates))
        fleet.start_coordinator()
        result = {**facts, "results": [asyncio.run(measured(fleet, given.updates, given.seconds))]}
    print(json.dumps(result, indent=2))
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
