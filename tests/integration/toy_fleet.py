"""A fleet of real processes on the toy task: its settings, its environment, and the model that a simulation gives."""

from __future__ import annotations

import contextlib
import os
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import stayput as sp
from stayput.deploy.demo_fleet import LocalFleet, waiting
from stayput.testing import toy_clients, toy_task

HERE = Path(__file__).parent
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]), "OMP_NUM_THREADS": "1"}
SIZES = (7, 1, 12, 10, 5, 8, 3, 9, 2, 6)

SETTINGS = """\
num_clients = {clients}
client_fraction = {fraction}
local_epochs = 2
batch_size = 4
rounds = {rounds}
seed = 5
threads = 1

[fleet]
task = "fleet_tasks:{task}"
port = {port}
hold = 1.0
heartbeat = {heartbeat}
lease = {lease}
{more}
"""


def clients_of(num_clients):
    return toy_clients(SIZES[:num_clients])


def toy_fleet(folder, num_clients, *, rounds, more="", **given):
    """A fleet that is prepared and not started."""
    fleet = LocalFleet(folder, ENVIRONMENT)
    defaults = {"fraction": 1.0, "port": 0, "task": "toy", "heartbeat": 1.0, "lease": 60.0}
    settings = SETTINGS.format(clients=num_clients, rounds=rounds, more=more, **{**defaults, **given})
    fleet.prepare(settings, clients_of(num_clients))
    return fleet


def simulated(num_clients, *, rounds, fraction=1.0):
    """The fingerprint of the same training's model in the simulator."""
    algorithm = sp.FedAvg(client_fraction=fraction, local_epochs=2, batch_size=4)
    return sp.train(toy_task(), clients_of(num_clients), algorithm, rounds=rounds, seed=5).model_sha256


def start_clients(fleet, num_clients, *, task="fleet_tasks:toy"):
    for client in range(num_clients):
        fleet.start_client(client, "--task", task)


def ready(fleet, *, seconds=60.0):
    """Wait until the coordinator takes changes, rather than listens."""
    context = ssl._create_unverified_context()  # noqa: S323 - its certificate is its own, and nothing is told it
    for _ in waiting(seconds, f"the coordinator is not ready: {fleet.log('coordinator')[-2000:]}"):
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(f"{fleet.url}/readyz", context=context, timeout=5).close()  # noqa: S310 - our own
            return


def finished(fleet, *, seconds=90.0):
    """The last report, once the fleet has come to its end."""
    for _ in waiting(seconds, f"the fleet does not end: {fleet.log('coordinator')[-2000:]}", pause=0.1):
        status = fleet.status()
        assert status["failure"] is None
        if status["finished"]:
            return status["history"][-1]["report"]
    raise AssertionError("unreachable")
