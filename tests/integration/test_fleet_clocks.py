"""P12: clients whose clocks are an hour off join and train, and are told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from toy_fleet import finished, simulated, toy_fleet

pytestmark = pytest.mark.slow
SCRIPT = str(Path(__file__).parent / "skewed_client.py")


def test_clients_whose_clocks_are_an_hour_off_train_and_are_told(tmp_path):
    with toy_fleet(tmp_path, 3, rounds=3) as fleet:
        fleet.start_coordinator()
        for client, off in enumerate(("3600", "-3600", "0")):
            with (fleet.folder / f"client-{client}.log").open("ab") as log:
                fleet.clients[client] = subprocess.Popen(
                    [
                        sys.executable, SCRIPT, off, "join", fleet.url, "--token", fleet.tokens[client], "--data",
                        str(fleet.folder / f"data-{client}"), "--folder", str(fleet.folder / f"client-{client}"),
                        "--task", "fleet_tasks:toy",
                    ],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **fleet.environment},
                )  # fmt: skip
        assert finished(fleet)["model_sha256"] == simulated(3, rounds=3)
        assert not fleet.status()["dropouts"]
        assert "s ahead of the coordinator's" in fleet.log("client-0")
        assert "s behind the coordinator's" in fleet.log("client-1")
        assert "clock:" not in fleet.log("client-2")
