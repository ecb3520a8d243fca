"""A client that keeps something from round to round (SCAFFOLD) dies beside its receipt: the model is the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from toy_fleet import ENVIRONMENT as FLEETS
from toy_fleet import SETTINGS, clients_of, finished

import stayput as sp
from stayput.deploy.demo_fleet import LocalFleet, waiting
from stayput.testing import toy_task

pytestmark = pytest.mark.slow
SCRIPT = str(Path(__file__).parent / "killed_client.py")
NUM_CLIENTS, ROUNDS = 2, 4


def start_doomed(fleet, client, point, count):
    with (fleet.folder / f"client-{client}.log").open("ab") as log:
        fleet.clients[client] = subprocess.Popen(
            [
                sys.executable, SCRIPT, point, str(count), "join", fleet.url, "--token", fleet.tokens[client], "--data",
                str(fleet.folder / f"data-{client}"), "--folder", str(fleet.folder / f"client-{client}"), "--task",
                "fleet_tasks:toy",
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **fleet.environment},
        )  # fmt: skip


def died(fleet, client):
    for _ in waiting(60, f"client {client} does not die: {fleet.log(f'client-{client}')[-1500:]}"):
        if fleet.clients[client].poll() is not None:
            break
    assert fleet.clients[client].returncode == -signal.SIGKILL, fleet.log(f"client-{client}")[-1500:]


def test_a_client_that_dies_beside_its_receipt_keeps_what_belongs_to_the_rounds_that_count(tmp_path):
    settings = sp.Scaffold(client_fraction=1.0, local_epochs=2, batch_size=4)
    alone = sp.train(toy_task(), clients_of(NUM_CLIENTS), settings, rounds=ROUNDS, seed=5).model_sha256
    with LocalFleet(tmp_path, FLEETS) as fleet:
        fleet.prepare(
            'algorithm = "scaffold"\n'
            + SETTINGS.format(
                clients=NUM_CLIENTS, fraction=1.0, rounds=ROUNDS, port=0, task="toy", heartbeat=1.0, lease=60.0, more=""
            ),
            clients_of(NUM_CLIENTS),
        )
        fleet.start_coordinator()
        start_doomed(fleet, 0, "after receipt", 1)
        start_doomed(fleet, 1, "before finish", 2)
        died(fleet, 0)  # its update of round 1 counts, and it does not know
        for _ in waiting(60, "round 1 does not end without it"):
            if fleet.status()["last_round"] == 1:
                break
        start_doomed(fleet, 0, "after receipt", 2)  # the first is that of round 1, of which it asks before round 2
        died(fleet, 0)
        died(fleet, 1)  # its update of round 2 does not count yet
        fleet.start_client(0, "--task", "fleet_tasks:toy")
        fleet.start_client(1, "--task", "fleet_tasks:toy")
        assert finished(fleet)["model_sha256"] == alone
        assert not fleet.status()["dropouts"]
        assert not list(tmp_path.glob("client-*/memory-after.*"))
