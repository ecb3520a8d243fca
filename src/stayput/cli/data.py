"""`stayput data`: list the data sets, fetch one, verify one; what builds a population is in `data_build.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stayput.cli import flags
from stayput.cli.data_build import build_data
from stayput.cli.help_pages import SectionedCommand, SectionedCommands
from stayput.cli.outcome import json_line
from stayput.cli.progress import DownloadLines
from stayput.cli.settings import known_name
from stayput.cli.wording import aligned, answer
from stayput.errors import DataUnavailable

if TYPE_CHECKING:
    from stayput.data import DataSet, Location

data = typer.Typer(
    name="data",
    cls=SectionedCommands,
    help="List, fetch and verify data sets; build populations of clients from tables.",
    no_args_is_help=True,
    rich_markup_mode=None,  # as in main
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A data set; see `stayput data list`.", show_default=False)]
DataDir = Annotated[
    Path | None,
    typer.Option(help="A folder with your own copy (default $STAYPUT_DATA, then the cache)."),
]


@data.command("list", cls=SectionedCommand)
def list_data(data_dir: DataDir = None, json: flags.AsJson = False) -> None:
    """List the data sets, and where each is."""
    from stayput.data import DATA_SETS

    if json:
        answer(json_line([_as_data(data_set, data_set.locate(data_dir)) for data_set in DATA_SETS.values()]))
        return
    rows = [
        (name, whereabouts(data_set, data_set.locate(data_dir)), data_set.summary)
        for name, data_set in DATA_SETS.items()
    ]
    for line in aligned(rows, gap="   "):
        answer(line)


@data.command("fetch", cls=SectionedCommand)
def fetch_data(name: Name, data_dir: DataDir = None) -> None:
    """Bring a data set here unless it is; what is here is verified, and fetched again if it is damaged."""
    data_set = _data_set(name)
    location = data_set.fetch(data_dir, DownloadLines())
    answer(f"{data_set.name}: {megabytes(location.num_bytes)} in {location.path}, as published")


@data.command("verify", cls=SectionedCommand)
def verify_data(name: Name, data_dir: DataDir = None) -> None:
    """Read every byte of a data set and compare it with what was published.

    NAME may also be the folder of a population: then every byte is compared with what was built.
    """
    if Path(name).is_dir():
        _verify_population(Path(name))
        return
    data_set = _data_set(name)
    location = data_set.locate(data_dir)
    if location is None:
        raise DataUnavailable(f"{data_set.name}: is not here (bring it with: stayput data fetch {data_set.name})")
    data_set.verify(location)
    answer(f"{data_set.name}: {megabytes(location.num_bytes)} in {location.path}, as published")


data.command("build", cls=SectionedCommand)(build_data)


def _verify_population(folder: Path) -> None:
    from stayput.data.populations import open_population
    from stayput.data.store import stored_bytes, verify_columns

    clients = open_population(folder).clients
    verify_columns(folder)
    answer(f"{folder}: {clients.num_clients:,} clients, {megabytes(stored_bytes(folder))}, as built")


def _data_set(name: str) -> DataSet:
    from stayput.data import DATA_SETS

    return DATA_SETS[known_name("data set", name, DATA_SETS)]


def whereabouts(data_set: DataSet, location: Location | None) -> str:
    """Where it is, or what to do to have it."""
    if location is None:
        if data_set.download_bytes is None:
            return f"your own file (how: stayput data fetch {data_set.name})"
        return f"not here ({megabytes(data_set.download_bytes)}: stayput data fetch {data_set.name})"
    keys = f", with {', '.join(location.keys)}" if location.keys else ""
    return f"{location.path} ({location.kind}, {megabytes(location.num_bytes)}{keys})"


def megabytes(num_bytes: int) -> str:
    """20300000 as `20.3 MB`."""
    return f"{num_bytes / 1e6:,.1f} MB"


def _as_data(data_set: DataSet, location: Location | None) -> dict[str, object]:
    return {
        "name": data_set.name,
        "summary": data_set.summary,
        "licence": data_set.licence,
        "download_bytes": data_set.download_bytes,
        "path": None if location is None else str(location.path),
        "kind": None if location is None else location.kind,
        "bytes": None if location is None else location.num_bytes,
        "keys": [] if location is None else list(location.keys),
    }
