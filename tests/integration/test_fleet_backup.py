"""A coordinator's state is copied, lost and put back, as docs/deploy.md says; the training ends in the same model."""

from __future__ import annotations

import shutil

import pytest
from toy_fleet import finished, simulated, start_clients, toy_fleet

from stayput.deploy.demo_fleet import waiting

pytestmark = pytest.mark.slow


def wait_for_round(fleet, number):
    for _ in waiting(60, f"round {number} does not end"):
        if fleet.status()["last_round"] >= number:
            return


def stop_coordinator(fleet):
    fleet.coordinator.terminate()
    fleet.coordinator.wait(30)


def test_a_backup_that_is_put_back_ends_in_the_same_model(tmp_path):
    with toy_fleet(tmp_path / "fleet", 3, rounds=8) as fleet:
        fleet.start_coordinator()
        port = fleet.url.rpartition(":")[2]
        fleet.file.write_text(fleet.file.read_text().replace("port = 0", f"port = {port}"))
        start_clients(fleet, 3)
        wait_for_round(fleet, 2)
        stop_coordinator(fleet)
        state = fleet.folder / "fleet-state"
        shutil.copytree(state, tmp_path / "backup")
        fleet.start_coordinator()
        wait_for_round(fleet, 5)
        stop_coordinator(fleet)
        shutil.rmtree(state)
        shutil.copytree(tmp_path / "backup", state)
        fleet.start_coordinator()
        assert fleet.status()["last_round"] < 5, "it is as old as the backup"
        assert finished(fleet)["model_sha256"] == simulated(3, rounds=8)
