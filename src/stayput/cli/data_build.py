"""`stayput data build`: a population on the disk, from a table with a client column."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from stayput.cli import flags
from stayput.cli.wording import answer, say
from stayput.errors import InvalidSetting
from stayput.report.wording import plural

SECONDS_BETWEEN_LINES = 10.0
MOST_GIGABYTES = 1e6

OnStep = Callable[[str, int, int | None], None]
"""Told what is being done, how many bytes of it are done, and of how many (None where nobody knows)."""

Table = Annotated[
    Path, typer.Argument(metavar="TABLE", help="A parquet file, or a folder of parquet files.", show_default=False)
]
Folder = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="Where the population goes; must not be there yet.", show_default=False),
]
Client = Annotated[str, typer.Option(help="The column that names each row's client.", show_default=False)]
Inputs = Annotated[
    str, typer.Option(help="The column of inputs, or several with commas between them.", show_default=False)
]
Targets = Annotated[
    str, typer.Option(help="The column of targets, or several with commas between them.", show_default=False)
]
Test = Annotated[
    Path | None, typer.Option(help="A table of examples to test on, which no client holds (default none).")
]
Memory = Annotated[float, typer.Option(help="How many GB of memory the build may use.")]


def build_data(
    table: Table,
    folder: Folder,
    *,
    client: Client,
    inputs: Inputs,
    targets: Targets,
    test: Test = None,
    memory: Memory = 1.0,
    quiet: flags.Quiet = None,
) -> None:
    """Build a population of clients on the disk from a table, in bounded memory.

    Rows with the same value in the column of clients belong to one client. `stayput run TASK --population FOLDER`
    trains on it.

    Example: stayput data build visits.parquet clients --client user --inputs pixels --targets digit
    """
    from stayput.data.building import build_population

    if not 0 < memory < MOST_GIGABYTES:
        raise InvalidSetting(f"memory={memory:g}: must be a number of GB, such as 1 or 0.5")
    with _shown(quiet=bool(quiet)) as on_step:
        population = build_population(
            table,
            folder,
            client=client,
            inputs=_columns(inputs),
            targets=_columns(targets),
            test=test,
            memory_bytes=int(memory * 2**30),
            progress=on_step,
        )
    clients = population.clients
    tested = "" if population.test is None else f", {len(population.test):,} examples to test on"
    held = f"{plural(clients.num_clients, 'client')} with {plural(clients.num_examples, 'example')}"
    answer(f"{held}{tested} in {folder}")


def _columns(given: str) -> str | list[str]:
    names = [name.strip() for name in given.split(",")]
    return names[0] if len(names) == 1 else names


@contextmanager
def _shown(*, quiet: bool) -> Iterator[OnStep]:
    """A bar on a terminal, sparse lines elsewhere, nothing if quiet."""
    if quiet:
        yield lambda step, done, total: None  # noqa: ARG005 - nobody looks
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("opening the table", total=None)
            yield lambda step, done, total: bar.update(task, description=step, completed=done, total=total)
    else:
        yield StepLines()


class StepLines:
    """A line when a step begins, and one every ten seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._step, self._said_at = "", 0.0

    def __call__(self, step: str, done: int, total: int | None) -> None:
        """Say how far it is, if that is due."""
        now = self._clock()
        if step == self._step and now - self._said_at < SECONDS_BETWEEN_LINES:
            return
        self._step, self._said_at = step, now
        say(f"data: {step}, {done / 1e6:,.0f} MB{'' if total is None else f' of {total / 1e6:,.0f} MB'}")
