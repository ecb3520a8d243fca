"""The `stayput` command: its subcommands, and the boundary where errors become sentences and exit codes."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from stayput._version import __version__
from stayput.cli.algorithms import algorithms
from stayput.cli.board import board
from stayput.cli.clients import clients
from stayput.cli.compare import compare
from stayput.cli.data import data
from stayput.cli.demo_fleet import demo_fleet
from stayput.cli.doctor import doctor
from stayput.cli.export import export
from stayput.cli.help_pages import SectionedCommand, SectionedCommands
from stayput.cli.interruption import Terminated, exit_code_of, raise_on_sigterm
from stayput.cli.join import join
from stayput.cli.partitions import partitions
from stayput.cli.report import report
from stayput.cli.reproduce import reproduce
from stayput.cli.resume import resume
from stayput.cli.run import run
from stayput.cli.serve import serve
from stayput.cli.show import show
from stayput.cli.status import status
from stayput.cli.sweep import sweep
from stayput.cli.tasks import tasks
from stayput.cli.token import token
from stayput.cli.wording import answer, say
from stayput.errors import RunNotWritten, StayputError

EXIT_CODES = {
    0: "done",
    1: "a bug, with its traceback; or `stayput doctor` found something broken",
    2: "a setting that breaks its rule, an unknown name or flag",
    3: "data that cannot be had, is damaged, or does not fit",
    4: "training that cannot start or has diverged",
    5: "a run's folder: none there, one there already, in use, damaged, or not to be written",
    6: "the target was missed, under --require-target",
    7: "the budget was spent before everything was measured, under --budget",
    8: "something is wrong between a coordinator and its clients",
    130: "interrupted by Ctrl-C, after a checkpoint",
    143: "ended by SIGTERM, after a checkpoint",
}
"""Every code that the command ends with, as `stayput --help` lists them."""

EPILOG = "\n".join(["\b", "Exit codes:", *(f"{code:>3}  {meaning}" for code, meaning in EXIT_CODES.items())])

app = typer.Typer(
    name="stayput",
    cls=SectionedCommands,
    no_args_is_help=True,
    rich_markup_mode=None,  # rich would double the time that --help takes
    pretty_exceptions_enable=False,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        answer(f"stayput {__version__}")
        raise typer.Exit


@app.callback()
def stayput(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Federated averaging: train one model on data that stays where it is."""


RUNS = "Runs"
FLEETS = "Fleets"
NAMES = "What there is"
THIS_MACHINE = "This machine"

COMMANDS = {
    RUNS: (run, sweep, resume, show, compare, report, export, board, reproduce),
    FLEETS: (serve, join, status, demo_fleet),
    NAMES: (tasks, algorithms, partitions),
    THIS_MACHINE: (doctor,),
}
for _section, _commands in COMMANDS.items():
    for _command in _commands:
        app.command(cls=SectionedCommand, rich_help_panel=_section)(_command)
app.add_typer(token, rich_help_panel=FLEETS)
app.add_typer(clients, rich_help_panel=FLEETS)
app.add_typer(data, rich_help_panel=THIS_MACHINE)


REFUSALS = {
    getattr(errno, name)
    for name in ["ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "EIO", "ENOTDIR", "EISDIR", "EEXIST", "ENAMETOOLONG"]
    if hasattr(errno, name)
}
"""What a system answers where a file cannot be written or made: no bug, and so no traceback."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line (these arguments, or the process's own) and leave with its exit code."""
    raise_on_sigterm()
    try:
        app(arguments, prog_name="stayput")
    except StayputError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        place = f"{error.filename}: " if error.filename else ""
        say(f"error: {place}{error.strerror} (make room or choose another place, then run the same command again)")
        sys.exit(RunNotWritten.exit_code)
    except (KeyboardInterrupt, Terminated) as error:
        say("interrupted")
        sys.exit(exit_code_of(error))
