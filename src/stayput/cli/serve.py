"""`stayput serve`: a coordinator, until it is told to stop."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stayput.cli.wording import say
from stayput.errors import InvalidSetting

if TYPE_CHECKING:
    from stayput.deploy.fleet_file import FleetFile

FleetToml = Annotated[
    Path,
    typer.Argument(metavar="FLEET.toml", help="The settings of a run, and a table [fleet].", show_default=False),
]
ReadyFile = Annotated[
    Path | None, typer.Option(help="Write the address into this file once the coordinator listens.", show_default=False)
]
LogFormat = Annotated[str, typer.Option(help="How the log is written on stderr: text or json.")]


def serve(fleet_toml: FleetToml, *, ready_file: ReadyFile = None, log_format: LogFormat = "text") -> None:
    """Serve a fleet: give its clients work, take their updates, sum them.

    The file holds what `stayput run` takes, and a table [fleet] with the address, deadlines and limits. State lies in
    one folder; a coordinator that was killed goes on where it was. Make tokens with `stayput token new`.

    Example: stayput serve fleet.toml
    """
    from stayput.deploy.fleet_file import read_fleet_file
    from stayput.deploy.logs import log_to_stderr
    from stayput.deploy.serving import serve as serve_fleet

    log_to_stderr(log_format)
    file = read_fleet_file(fleet_toml)
    state = file.state
    store = state.open_store()
    plan = _plan_of(file, store.head()["plan"])
    store.close()
    certificate = state.certificate()
    if certificate is not None:
        say(f"certificate: {state.folder / 'tls.pem'}, SHA-256 {certificate.fingerprint}")
    logging.getLogger("stayput.deploy").info("state in %s", state.folder)
    serve_fleet(state, plan, ready_file=ready_file)


def _plan_of(file: FleetFile, known: dict[str, Any] | None) -> dict[str, Any]:
    """What is to be learned: as it is stored, where the file still says the same."""
    if known is not None and known["file_sha256"] == file.training_sha256:
        return known
    command = [sys.executable, "-m", "stayput.cli.fleet_spec", str(file.path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)  # noqa: S603 - our own module
    answer = json.loads(done.stdout) if done.stdout else {"error": f"{file.path}: its settings could not be read"}
    if "error" in answer:
        raise InvalidSetting(answer["error"])
    settings = file.settings
    return {
        **answer,
        "task": settings.task,
        "evaluate": settings.evaluate,
        "test_data": settings.test_data,
        "file_sha256": file.training_sha256,
    }
