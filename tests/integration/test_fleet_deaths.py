"""P3 and P4 among real processes: clients that are killed, stopped, or cut off are noticed, and rounds end in time."""

from __future__ import annotations

import os
import signal
import time

import pytest
from black_hole import BlackHole
from toy_fleet import toy_fleet

from stayput.deploy.demo_fleet import waiting

pytestmark = pytest.mark.slow
DEADLINE = 14.0


def lost(fleet):
    """The clients whose tasks were given up because they were not heard from."""
    return {
        task["client"]
        for task in fleet.status()["round"]["tasks"]
        if task["state"] == "dropped" and task["reason"].startswith("lost")
    }


def test_the_dead_the_stopped_and_the_cut_off_are_noticed_and_the_round_ends(tmp_path):
    more = f"round_deadline = {DEADLINE}\nminimum_share = 0.4"
    with toy_fleet(tmp_path, 5, rounds=1, more=more, task="slow", heartbeat=3.0, lease=9.0) as fleet:
        fleet.start_coordinator()
        host, _, port = fleet.url.removeprefix("https://").partition(":")
        hole = BlackHole(host, int(port))
        try:
            for client in range(5):
                way = f"https://127.0.0.1:{hole.port}" if client == 2 else fleet.url
                fleet.start_client(client, "--task", "fleet_tasks:slow", url=way)
            # All are at work: the task takes each of them several seconds.
            for _ in waiting(90, "the round does not begin", pause=0.1):
                current = fleet.status()["round"]
                if current is not None and current["goal"] == 5:
                    break
            began = time.monotonic() - (DEADLINE - current["seconds_left"])
            fleet.clients[0].kill()
            os.kill(fleet.clients[1].pid, signal.SIGSTOP)
            hole.swallow()
            misfortune = time.monotonic()
            for _ in waiting(20, "the dead are not noticed", pause=0.05):
                status = fleet.status()
                if status["finished"] or lost(fleet) == {0, 1, 2}:
                    break
            assert time.monotonic() - misfortune <= 10.0 + 0.5, "P4 (half a second is the status' own)"
            for _ in waiting(30, "the round does not end", pause=0.05):
                status = fleet.status()
                if status["finished"]:
                    break
            assert time.monotonic() - began <= DEADLINE + 1.0 + 0.5, "P3 (half a second is the status' own)"
            assert {each["reason"].partition(":")[0] for each in status["dropouts"]} == {"lost"}
            assert sum(each["count"] for each in status["dropouts"]) == 3
            assert status["history"][-1]["report"]["cohort_size"] == 2
        finally:
            os.kill(fleet.clients[1].pid, signal.SIGCONT)
            fleet.stop()
            hole.close()


def test_nobody_joins_and_the_status_says_what_is_waited_for(tmp_path):
    with toy_fleet(tmp_path, 2, rounds=1, more="round_deadline = 1.0") as fleet:
        fleet.start_coordinator()
        for _ in waiting(30, "no attempt is given up", pause=0.05):
            attempts = fleet.status()["failed_attempts"]
            if len(attempts) >= 2:
                break
        ends = [attempt["ended_at"] for attempt in attempts]
        assert ends[1] - ends[0] <= 2.0
        assert attempts[0]["reason"] == "clients: 0 ready of 2"
