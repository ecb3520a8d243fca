"""`stayput join`: a client of a fleet, with the data of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stayput.cli.wording import say

Url = Annotated[
    str, typer.Argument(metavar="URL", help="The coordinator, such as https://host:8443.", show_default=False)
]
Data = Annotated[
    Path, typer.Option(help="A folder with inputs.npy and targets.npy, or an .npz file with both.", show_default=False)
]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="STAYPUT_TOKEN", help="The token that lets this client in, the first time.", show_default=False
    ),
]
Folder = Annotated[Path, typer.Option(help="Where the client keeps its key and what else it remembers.")]
Task = Annotated[
    str | None,
    typer.Option(
        help="The one task it trains, by name or as package.module:attribute (default: named tasks).",
        show_default=False,
    ),
]
CaFile = Annotated[
    Path | None, typer.Option(help="Authorities that the coordinator's certificate is checked against (PEM).")
]
Identity = Annotated[Path | None, typer.Option(help="A certificate with its key, for mTLS (PEM).")]


def join(
    url: Url,
    *,
    data: Data,
    token: Token = None,
    folder: Folder = Path("stayput-client"),
    task: Task = None,
    ca_file: CaFile = None,
    identity: Identity = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing.")] = False,
) -> None:
    """Take part in a fleet: train on this machine's data, send updates, come back for ever.

    The token carries the fingerprint of the coordinator's certificate, which is then the only one accepted. Data never
    leave this machine.

    Example: stayput join https://host:8443 --token stayput.0123456789abcdef.SECRET --data ./mydata
    """
    from stayput.deploy.client import Client
    from stayput.deploy.own_examples import examples_in
    from stayput.deploy.task_lookup import task_called

    client = Client(
        examples_in(data),
        None if task is None else task_called(task),
        url=url,
        token=token,
        folder=folder,
        ca_file=ca_file,
        identity=identity,
        on_event=(lambda event: None) if quiet else say,  # noqa: ARG005 - says nothing
    )
    client.run()
