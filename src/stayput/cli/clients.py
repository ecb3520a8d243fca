"""`stayput clients`: who belongs to a fleet, and who does not any more."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from stayput.cli import flags
from stayput.cli.help_pages import SectionedCommand, SectionedCommands
from stayput.cli.outcome import json_line
from stayput.cli.wording import aligned, answer, say

clients = typer.Typer(
    name="clients",
    cls=SectionedCommands,
    help="List and revoke the clients of a fleet.",
    no_args_is_help=True,
    rich_markup_mode=None,  # as in main
)

Fleet = Annotated[Path, typer.Option(help="The fleet's file, as `stayput serve` is given it.")]


@clients.command("list", cls=SectionedCommand)
def list_clients(fleet: Fleet = Path("fleet.toml"), json: flags.AsJson = False) -> None:
    """List the clients with their numbers, examples and keys."""
    from stayput.deploy.fleet_file import read_fleet_file
    from stayput.deploy.membership import Membership

    store = read_fleet_file(fleet).state.open_store()
    members = Membership(store).members()
    store.close()
    if json:
        answer(
            json_line(
                [
                    {
                        "number": member.number,
                        "name": member.name,
                        "num_examples": member.num_examples,
                        "key_id": member.key_id,
                        "enrolled_at": member.enrolled_at,
                        "revoked_at": member.revoked_at,
                    }
                    for member in members
                ]
            )
        )
        return
    for line in aligned(
        [
            ("number", "name", "examples", "key", "state"),
            *(
                (
                    str(x.number),
                    x.name,
                    str(x.num_examples),
                    (x.key_id or "-")[:12],
                    _state(x.enrolled_at, x.revoked_at),
                )
                for x in members
            ),
        ]
    ):
        answer(line)


@clients.command("revoke", cls=SectionedCommand)
def revoke_client(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A client; see `stayput clients list`.")],
    fleet: Fleet = Path("fleet.toml"),
) -> None:
    """Shut a client out: within a second its key opens nothing any more. What it has reported stays."""
    from stayput.deploy.fleet_file import read_fleet_file
    from stayput.deploy.membership import Membership

    store = read_fleet_file(fleet).state.open_store()
    Membership(store).revoke(name, now=time.time())
    store.close()
    say(f"{name} is revoked")


def _state(enrolled_at: float | None, revoked_at: float | None) -> str:
    if revoked_at is not None:
        return "revoked"
    return "token not used yet" if enrolled_at is None else "enrolled"
