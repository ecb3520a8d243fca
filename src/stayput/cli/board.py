"""`stayput board`: runs and sweeps as they go, in a browser."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from stayput.cli.run_names import RUNS
from stayput.cli.wording import answer, say

Folder = Annotated[
    Path,
    typer.Argument(metavar="[RUNS_FOLDER]", help="A folder of runs and sweeps (default runs/).", show_default=False),
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port of this machine to answer on; 0 is a free one.")]


def board(folder: Folder = RUNS, port: Port = 8017) -> None:
    """Show runs and sweeps as they go, on a page that this machine alone can open.

    It only reads: training is not slowed down, and the page may be opened and closed at any time. Ctrl-C ends it.
    From another machine: ssh -L 8017:127.0.0.1:8017 HOST.
    """
    from stayput.board.serve import serve_board

    def ready(address: str) -> None:
        answer(address)
        say(f"the runs in {folder}; Ctrl-C ends it")

    with contextlib.suppress(KeyboardInterrupt):  # the server passes Ctrl-C on, unless its loop has ended by then
        serve_board(folder, port, on_ready=ready)
    say("ended")
