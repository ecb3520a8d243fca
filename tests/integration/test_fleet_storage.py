"""P11: a coordinator whose disk is damaged or full says so and goes on, to the same model."""

from __future__ import annotations

import resource
import signal

import pytest
from test_fleet_killed import free_port, start_doomed
from toy_fleet import finished, simulated, start_clients, toy_fleet

from stayput.deploy.demo_fleet import waiting

pytestmark = pytest.mark.slow


def test_damaged_updates_are_dropouts_and_their_clients_are_asked_again(tmp_path):
    with toy_fleet(tmp_path, 2, rounds=3, port=free_port()) as fleet:
        start_doomed(fleet, "after RoundClosing", 2)
        for _ in waiting(60, "the coordinator does not listen"):
            if (fleet.folder / "address").is_file():
                break
        start_clients(fleet, 2)
        assert fleet.coordinator.wait(60) == -signal.SIGKILL
        (gone,) = (fleet.folder / "fleet-state").rglob("updates/r2-c0-1/*")
        gone.unlink()
        (flipped,) = (fleet.folder / "fleet-state").rglob("updates/r2-c1-1/*")
        content = bytearray(flipped.read_bytes())
        content[-3] ^= 0x10
        flipped.write_bytes(content)
        fleet.start_coordinator()
        assert finished(fleet)["model_sha256"] == simulated(2, rounds=3)
        status = fleet.status()
        assert [(entry["round"], entry["reason"], entry["count"]) for entry in status["dropouts"]] == [
            (2, "damaged on the coordinator's disk", 2)
        ]
        assert [entry["reason"] for entry in status["failed_attempts"]] == [
            "2 updates were damaged on the coordinator's disk"
        ]


@pytest.mark.parametrize("room", [0, 1 << 20])
def test_a_full_disk_refuses_updates_until_there_is_room(tmp_path, room):
    """With no room the database takes nothing; with 1 MB it does, and an update of 6.65 MB does not fit beside it."""
    with toy_fleet(tmp_path, 2, rounds=2, task="wide") as fleet:
        fleet.start_coordinator()
        for _ in waiting(60, "the coordinator does not get ready"):
            if fleet.status()["ready"]:
                break
        whole = resource.prlimit(fleet.coordinator.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(fleet.coordinator.pid, resource.RLIMIT_FSIZE, (room, whole[1]))
        start_clients(fleet, 2, task="fleet_tasks:wide")
        for _ in waiting(60, "no client is told to come back"):
            if all("away: " in fleet.log(f"client-{client}") for client in range(2)):
                break
        assert fleet.coordinator.poll() is None
        assert fleet.status()["last_round"] == 0
        resource.prlimit(fleet.coordinator.pid, resource.RLIMIT_FSIZE, whole)
        finished(fleet)
        assert not fleet.status()["dropouts"]
        for client in fleet.clients.values():
            assert client.wait(30) == 0
