"""A data set as its publisher made it: looked for in the user's folder, then in the cache, then fetched.

The cache was checked when it was filled, so opening it reads no contents. A user's files are checked, or taken as they
are where any text will do; that is the data set's own business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from stayput.data.data_set import Location
from stayput.data.fetching import Columns, Progress, Recipe, fetch_into_cache, silent, unavailable
from stayput.data.places import cache_folder, data_folder
from stayput.data.store import open_columns, stored_bytes, verify_columns
from stayput.errors import CorruptData, DataUnavailable


@dataclass(frozen=True)
class PublishedData:
    """Where the columns of a data set come from."""

    recipe: Recipe
    columns: Collection[str]
    """The names of the columns that there must be."""
    files: Callable[[Path], Sequence[Path]]
    """The data set's files in a folder of the user's; none if they are not all there."""
    read: Callable[[Sequence[Path]], Columns]
    """The columns in those files; CorruptData if they are not what they should be."""

    def open(self, data_dir: str | Path | None, *, fetch: bool, progress: Progress | None) -> Columns:
        """The columns, fetched if they are not here and `fetch` allows it."""
        folder = data_folder(data_dir)
        tried = []
        if folder is not None:
            if found := self.files(folder):
                return self.read(found)
            tried.append(f"folder {folder}: lacks it")
        try:
            return self._open_cache()
        except (DataUnavailable, CorruptData) as error:
            tried.append(f"cache {error}")
        if not fetch:
            raise unavailable(self.recipe, [*tried, "the network: not asked (fetch=False)"])
        fetch_into_cache(self.recipe, cache_folder(), progress or silent, tried)
        return self._open_cache()

    def locate(self, data_dir: str | Path | None = None) -> Location | None:
        """Where it is, if it is here."""
        folder = data_folder(data_dir)
        if folder is not None and (found := self.files(folder)):
            return Location("folder", folder, sum(path.stat().st_size for path in found))
        try:
            self._open_cache()
        except (DataUnavailable, CorruptData):
            return None
        return Location("cache", self._cached, stored_bytes(self._cached))

    def fetch(self, data_dir: str | Path | None = None, progress: Progress | None = None) -> Location:
        """Bring it here unless it is; a damaged cache is fetched again, a user's damaged file is an error."""
        location = self.locate(data_dir)
        if location is not None:
            try:
                self.verify(location)
            except CorruptData:
                if location.kind == "folder":
                    raise
            else:
                return location
        fetch_into_cache(self.recipe, cache_folder(), progress or silent)
        location = self.locate(data_dir)
        if location is None:
            raise DataUnavailable(f"{self.recipe.name}: was removed while it was being fetched (fetch it again)")
        return location

    def verify(self, location: Location) -> None:
        """Read every byte of it; CorruptData if one is not as published."""
        if location.kind == "folder":
            self.read(self.files(location.path))
            return
        verify_columns(location.path)
        self.recipe.check(open_columns(location.path))

    @property
    def _cached(self) -> Path:
        return cache_folder() / self.recipe.name

    def _open_cache(self) -> Columns:
        columns = open_columns(self._cached)
        if set(columns) != set(self.columns):
            raise CorruptData(
                f"{self._cached}: holds {sorted(columns)}: must hold {sorted(self.columns)} (fetch it again)"
            )
        return columns
