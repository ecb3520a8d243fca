"""A whole fleet on one machine: a coordinator and its clients as processes, over TLS on loopback.

Everything is what a real fleet has: tokens, keys, certificates, a database, each client with its own folder of data.
For `stayput demo-fleet`, and for tests of real processes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from stayput.data.federated_data import FederatedData
from stayput.deploy.status_reader import read_status
from stayput.errors import DeploymentError

START_SECONDS = 60.0
"""A coordinator that does not listen after this long is not waited for."""


@dataclass
class LocalFleet:
    """A coordinator and clients, each a process, with everything they write in one folder."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    coordinator: subprocess.Popen[bytes] | None = None
    clients: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    status_token: str = ""
    tokens: dict[int, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def file(self) -> Path:
        """The fleet's settings."""
        return self.folder / "fleet.toml"

    @property
    def url(self) -> str:
        """Where the coordinator listens."""
        return (self.folder / "address").read_text(encoding="utf-8").strip()

    def prepare(self, settings: str, data: FederatedData) -> None:
        """Write the settings and each client's data, and make the tokens."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(settings, encoding="utf-8")
        for client in range(data.num_clients):
            place = self.folder / f"data-{client}"
            place.mkdir(exist_ok=True)
            rows = data.rows(client)
            np.save(place / "inputs.npy", np.asarray(data.examples.inputs)[rows])
            np.save(place / "targets.npy", np.asarray(data.examples.targets)[rows])
        from stayput.deploy.fleet_file import read_fleet_file
        from stayput.deploy.membership import new_client_token, new_status_token

        file = read_fleet_file(self.file)
        for client in range(data.num_clients):
            self.tokens[client] = new_client_token(file.state, f"client-{client}")[0]
        self.status_token = new_status_token(file.state)

    def start_coordinator(self, *arguments: str) -> None:
        """Start it, and wait until it listens."""
        address = self.folder / "address"
        address.unlink(missing_ok=True)
        self.coordinator = self._start("coordinator", "serve", str(self.file), "--ready-file", str(address), *arguments)
        for _ in waiting(START_SECONDS, "the coordinator does not listen"):
            if address.is_file() and address.read_text(encoding="utf-8").endswith("\n"):
                return
            if self.coordinator.poll() is not None:
                raise DeploymentError(f"the coordinator has ended: {self.log('coordinator')[-500:]}")

    def start_client(self, client: int, *arguments: str, url: str | None = None) -> None:
        """Start a client, or start it again."""
        before = self.clients.get(client)
        if before is not None:
            before.kill()
            before.wait()
        self.clients[client] = self._start(
            f"client-{client}", "join", url or self.url, "--token", self.tokens[client],
            "--data", str(self.folder / f"data-{client}"), "--folder", str(self.folder / f"client-{client}"),
            *arguments,
        )  # fmt: skip

    def status(self, *, after: int = -1) -> dict[str, Any]:
        """What the coordinator says of the fleet."""
        return read_status(self.url, self.status_token, after=after)

    def log(self, name: str) -> str:
        """What a process has said."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        """End all processes that are still there."""
        processes = [process for process in (*self.clients.values(), self.coordinator) if process is not None]
        for process in processes:
            if process.poll() is None:
                process.kill()
        for process in processes:
            process.wait()

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{name}.log").open("ab")
        try:
            return subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "stayput", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
            )
        finally:
            log.close()


def waiting(seconds: float, otherwise: str, *, pause: float = 0.02) -> Iterator[None]:
    """Turns of a loop that looks for something, until time is up; then a `DeploymentError`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield
        time.sleep(pause)
    raise DeploymentError(f"{otherwise} (waited {seconds:.0f} s)")


@contextlib.contextmanager
def running_fleet(
    folder: Path, settings: str, data: FederatedData, *, environment: Mapping[str, str] | None = None,
    serve_with: Sequence[str] = (),
) -> Iterator[LocalFleet]:  # fmt: skip
    """A fleet with all its clients started."""
    with LocalFleet(folder, environment or {}) as fleet:
        fleet.prepare(settings, data)
        fleet.start_coordinator(*serve_with)
        for client in range(data.num_clients):
            fleet.start_client(client)
        yield fleet
