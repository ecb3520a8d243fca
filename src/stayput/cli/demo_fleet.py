"""`stayput demo-fleet`: a coordinator and clients as processes on this machine, to see a deployment work."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stayput.cli.wording import answer, say
from stayput.errors import DeploymentError

if TYPE_CHECKING:
    from stayput.deploy.demo_fleet import LocalFleet

SETTINGS = """\
# What `stayput demo-fleet` runs; `stayput run` on this file gives the same model, to the last bit.
task = "mnist-2nn"
num_clients = {clients}
client_fraction = 1.0
local_epochs = 1
batch_size = 10
learning_rate = 0.1
rounds = {rounds}
target = {target}
threads = 1

[fleet]
port = 0
hold = 1.0
heartbeat = 3.0
lease = 60.0
"""

LONGEST = 1800.0
"""Seconds after which the demonstration is given up."""


def demo_fleet(
    *,
    clients: Annotated[int, typer.Option(help="How many client processes.", min=1, max=200)] = 10,
    target: Annotated[float, typer.Option(help="The accuracy to reach on the test examples.")] = 0.97,
    rounds: Annotated[int, typer.Option(help="The last round, if the target is not reached.")] = 40,
    folder: Annotated[
        Path | None, typer.Option(help="A new folder to work in (default: one that is removed).", show_default=False)
    ] = None,
) -> None:
    """Try a deployment on this machine: a coordinator and 10 clients, each with its own shard of MNIST.

    Eleven processes speak HTTPS on loopback, with tokens, keys and a certificate of their own, and train to 97%.

    Example: stayput demo-fleet
    """
    with tempfile.TemporaryDirectory(prefix="stayput-fleet-") as temporary:
        place = folder or Path(temporary)
        if folder is not None and folder.exists() and any(folder.iterdir()):
            raise DeploymentError(f"folder={str(folder)!r}: must be new or empty (a fleet makes everything in it)")
        _run(place, SETTINGS.format(clients=clients, target=target, rounds=rounds), clients)


def _run(place: Path, settings: str, num_clients: int) -> None:
    from stayput.data import DATA_SETS
    from stayput.data.partitions.iid import Iid
    from stayput.deploy.demo_fleet import running_fleet

    data = DATA_SETS["mnist"].load().train.partition(Iid(num_clients=num_clients), seed=0)
    started = time.monotonic()
    say(f"starting a coordinator and {num_clients} clients in {place}")
    with running_fleet(place, settings, data, environment={"OMP_NUM_THREADS": "1"}) as fleet:
        say(f"coordinator: {fleet.url}, certificate pinned by every token")
        accuracy, fingerprint = _watch(fleet, started)
    answer(f"accuracy {accuracy:.2%} after {time.monotonic() - started:.0f} s, model {fingerprint[:16]}")


def _watch(fleet: LocalFleet, started: float) -> tuple[float, str]:
    """Tell each round as it closes; the last accuracy and the model's fingerprint."""
    from stayput.deploy.demo_fleet import waiting

    told = -1
    for _ in waiting(LONGEST, "the fleet does not come to an end", pause=0.5):
        if fleet.coordinator is not None and fleet.coordinator.poll() is not None:
            raise DeploymentError(f"the coordinator has ended: {fleet.log('coordinator')[-500:]}")
        status = fleet.status(after=told)
        if status["failure"]:
            raise DeploymentError(f"training has failed: {status['failure']}")
        for entry in status["history"]:
            told = entry["number"]
            report = entry["report"]
            accuracy, fingerprint = float(report["evaluation"]["accuracy"]), str(report["model_sha256"])
            say(
                f"round {told:3}  accuracy {accuracy:.2%}  {entry['goal']} of {entry['goal']} clients  "
                f"{time.monotonic() - started:5.1f} s"
            )
            if status["finished"] and told == status["last_round"]:
                return accuracy, fingerprint
    raise AssertionError("unreachable: the loop raises when time is up")
