"""`stayput token`: tokens that let a client into a fleet, once, or that read its status."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from stayput.cli.help_pages import SectionedCommand, SectionedCommands
from stayput.cli.wording import answer, say
from stayput.errors import InvalidSetting

token = typer.Typer(
    name="token",
    cls=SectionedCommands,
    help="Make tokens that let clients into a fleet.",
    no_args_is_help=True,
    rich_markup_mode=None,  # as in main
)

Fleet = Annotated[Path, typer.Option(help="The fleet's file, as `stayput serve` is given it.")]
Name = Annotated[str | None, typer.Option(help="The client's name, new to the fleet.", show_default=False)]
Status = Annotated[bool, typer.Option("--status", help="A token that reads the status and lets nobody in.")]
ValidFor = Annotated[float | None, typer.Option(help="Hours after which the token is worth nothing (default never).")]
MOST_HOURS = 87_600
"""Ten years."""


@token.command("new", cls=SectionedCommand)
def new_token(
    name: Name = None, *, status: Status = False, fleet: Fleet = Path("fleet.toml"), valid_for: ValidFor = None
) -> None:
    """Make a token and print it: once, for it is stored as a hash.

    A client's number is its place in the order in which tokens were made; its random streams follow from it.

    Example: stayput token new --name clinic-7
    """
    from stayput.deploy.fleet_file import read_fleet_file
    from stayput.deploy.membership import new_client_token, new_status_token

    if (name is None) == (not status):
        raise InvalidSetting("name: must be given for a client's token, or --status for one that reads the status")
    if valid_for is not None and not 0 < valid_for <= MOST_HOURS:
        raise InvalidSetting(f"valid_for={valid_for:g}: must be hours, more than 0 and at most {MOST_HOURS}")
    state = read_fleet_file(fleet).state
    expires_at = None if valid_for is None else time.time() + valid_for * 3600
    if name is None:
        answer(new_status_token(state, expires_at=expires_at))
        return
    text, number = new_client_token(state, name, expires_at=expires_at)
    say(f"{name} is client {number}; it joins with: stayput join https://HOST:PORT --token TOKEN --data FOLDER")
    answer(text)
