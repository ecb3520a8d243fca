"""P1: `kill -9` of the coordinator, anywhere, loses nothing that was acknowledged; the model is the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_fleet import finished, simulated, start_clients, toy_fleet

from stayput.deploy.demo_fleet import waiting

SCRIPT = str(Path(__file__).parent / "killed_coordinator.py")

POINTS = [
    "after the sum of begin",
    "before RoundOpened",
    "before ClientsSelected",
    "inside ClientsSelected",
    "after ClientsSelected",
    "before the update is in its place",
    "after the update is in its place",
    "before TaskReported",
    "inside TaskReported",
    "after TaskReported",
    "before RoundClosing",
    "after RoundClosing",
    "after the sum of close",
    "before RoundClosed",
    "inside RoundClosed",
    "after RoundClosed",
]
"""Every boundary of a commit."""


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_doomed(fleet, point, count):
    """A coordinator that dies at a point; returns once it listens or has died."""
    address = fleet.folder / "address"
    address.unlink(missing_ok=True)
    with (fleet.folder / "coordinator.log").open("ab") as log:
        fleet.coordinator = subprocess.Popen(
            [sys.executable, SCRIPT, point, str(count), str(fleet.file), str(address)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **fleet.environment},
        )  # fmt: skip


def acknowledged(fleet, client):
    """The tasks that a client was told to count."""
    lines = fleet.log(f"client-{client}").splitlines()
    return {line.removeprefix("reported ") for line in lines if line.startswith("reported ")}


def counted(fleet):
    """The tasks that count, as the database has them."""
    import sqlite3

    with sqlite3.connect(fleet.folder / "fleet-state" / "fleet.db") as database:
        return [row[0] for row in database.execute("SELECT task FROM tasks WHERE state = 'reported'")]


@pytest.mark.slow
def test_killed_at_every_boundary_of_a_commit(tmp_path):
    """One fleet whose coordinator dies once at each point, in turn, and is started again."""
    rounds = len(POINTS) + 2
    with toy_fleet(tmp_path, 2, rounds=rounds, port=free_port(), more="") as fleet:
        died = []
        for point in POINTS:
            start_doomed(fleet, point, 2 if point == "before RoundOpened" else 1)
            for _ in waiting(60, f"the coordinator does not come to {point!r}: {fleet.log('coordinator')[-1500:]}"):
                if fleet.coordinator.poll() is not None:
                    break
                if not fleet.clients and (fleet.folder / "address").is_file():
                    start_clients(fleet, 2)
            assert fleet.coordinator.returncode == -signal.SIGKILL, fleet.log("coordinator")[-1500:]
            died.append(point)
        fleet.start_coordinator()
        report = finished(fleet)
        assert died == POINTS
        assert report["model_sha256"] == simulated(2, rounds=rounds)
        assert not fleet.status()["dropouts"]
        tasks = counted(fleet)
        assert len(set(tasks)) == len(tasks) == 2 * rounds
        assert set().union(*(acknowledged(fleet, client) for client in range(2))) <= set(tasks)


def killed_at_random(folder, kills, *, num_clients, rounds, seed):
    """Kill a real coordinator at random moments until it was killed so often; the seconds it took to be back."""
    draw = random.Random(seed)  # noqa: S311 - when to kill
    back = []
    with toy_fleet(folder, num_clients, rounds=rounds, port=free_port(), more="checking_slots = 4") as fleet:
        fleet.start_coordinator()
        start_clients(fleet, num_clients)
        for _ in waiting(120, "the clients do not join"):
            if fleet.status()["last_round"] >= 1:
                break
        for _ in range(kills):
            time.sleep(draw.uniform(0.0, 0.6))  # where the kill falls is the point, so this is no wait for anything
            fleet.coordinator.kill()
            fleet.coordinator.wait()
            started = time.monotonic()
            fleet.start_coordinator()
            back.append(time.monotonic() - started)
            assert not fleet.status()["finished"], "the training must last longer than the kills"
        report = finished(fleet, seconds=240)
        tasks = counted(fleet)
        assert len(set(tasks)) == len(tasks) == num_clients * rounds
        assert set().union(*(acknowledged(fleet, client) for client in range(num_clients))) <= set(tasks)
        assert not fleet.status()["dropouts"]
        assert report["model_sha256"] == simulated(num_clients, rounds=rounds)
    return back


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    back = killed_at_random(tmp_path, 8, num_clients=4, rounds=40, seed=1)
    assert len(back) == 8


@pytest.mark.soak
@pytest.mark.slow
def test_killed_at_two_hundred_random_moments(tmp_path):
    back = sorted(killed_at_random(tmp_path, 200, num_clients=10, rounds=600, seed=2))
    assert back[len(back) // 2] <= 2.0
