"""Ctrl-C and SIGTERM: training stops between two steps, keeps its finished rounds, and says how to go on.

A signal becomes an exception in the main thread. `experiments.training` writes a checkpoint when any
exception passes; here the exception ends, with a sentence and the exit code that shells use: 128 + the number
of the signal.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

import typer

from stayput.cli.wording import say


class Terminated(BaseException):
    """SIGTERM has come. Like `KeyboardInterrupt` no `Exception`, so that nothing swallows it."""


def raise_on_sigterm() -> None:
    """From now on SIGTERM raises `Terminated` in the main thread."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - the signature of handlers
    raise Terminated


def exit_code_of(error: BaseException) -> int:
    """130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + (signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)


@contextlib.contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Say where the run in this folder stands if an interruption ends the block."""
    try:
        yield
    except (KeyboardInterrupt, Terminated) as error:
        say(where_it_stands(folder))
        raise typer.Exit(exit_code_of(error)) from None


def where_it_stands(folder: Path) -> str:
    """After which round a run was interrupted, and how to go on."""
    from stayput.runs.run_folder import RunFolder, is_run

    rounds = RunFolder(folder).checkpoint_paths() if is_run(folder) else {}
    if not rounds:
        return "interrupted before round 1; nothing was trained yet"
    return f"interrupted after round {max(rounds)}; go on with: stayput resume {folder}"
