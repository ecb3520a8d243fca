"""What every data set that stayput knows can do: say where it is, come here, be checked, be loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from stayput.data.federated_data import Examples
from stayput.data.fetching import Progress


@dataclass(frozen=True)
class Split:
    """The examples to train on, and those to test on, which no client holds."""

    train: Examples
    test: Examples


@dataclass(frozen=True)
class Location:
    """Where a data set was found."""

    kind: Literal["folder", "cache"]
    """The user's own folder, or the cache of fetched data."""
    path: Path
    num_bytes: int
    """Its size there."""
    keys: tuple[str, ...] = ()
    """The keys that its examples come with, such as "writer"."""


class Load(Protocol):
    """The type of `DataSet.load`."""

    def __call__(
        self, data_dir: str | Path | None = None, *, fetch: bool = True, progress: Progress | None = None
    ) -> Split:
        """Open the data set, fetching it first if it is not here and `fetch` allows it."""
        ...


@dataclass(frozen=True)
class DataSet:
    """A data set by name."""

    name: str
    summary: str
    """One line for `stayput data list`."""
    licence: str
    """Under which terms it may be used."""
    download_bytes: int | None
    """Roughly how much a fetch transfers; None where there is nothing to fetch, because the data are the user's own."""
    locate: Callable[[str | Path | None], Location | None]
    """(data_dir) -> where it is, or None if it must be fetched. Sizes are checked, contents are not read."""
    fetch: Callable[[str | Path | None, Progress | None], Location]
    """(data_dir, progress) -> where it is now. What is there is verified, and fetched again if damaged."""
    verify: Callable[[Location], None]
    """Read every byte; CorruptData if one is not as published."""
    load: Load
