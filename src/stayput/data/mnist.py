"""MNIST: 60,000 train and 10,000 test images of handwritten digits, 28 x 28 (LeCun et al. 1998).

`load` looks into the user's folder (`data_dir`, else STAYPUT_DATA), then into the cache, then fetches.
Whichever it is, the four arrays are MNIST's own, byte for byte: SHA256 below is that of the original files,
unzipped. The cache was checked when it was filled, so opening it reads no contents; a folder is checked every
time, since nothing says what has happened to it since.

With QMNIST's label files in the folder or the cache, examples have the key "writer" (see `qmnist`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from stayput.data import idx, qmnist
from stayput.data.data_set import DataSet, Location, Split
from stayput.data.federated_data import Array, Examples
from stayput.data.fetching import Columns, Progress, Recipe, fetch_into_cache, silent, unavailable
from stayput.data.mnist_sources import FILES, sources
from stayput.data.places import cache_folder, data_folder, find_file
from stayput.data.store import open_columns, stored_bytes, verify_columns
from stayput.errors import CorruptData, DataUnavailable

NAME = "mnist"

SHA256 = {
    "train_images": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train_labels": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "test_images": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "test_labels": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
"""Of each column's original file, unzipped."""


def load(data_dir: str | Path | None = None, *, fetch: bool = True, progress: Progress | None = None) -> Split:
    """The images as uint8 [n, 28, 28] and the digits as uint8 [n], mapped into memory where files allow it.

    With fetch=False nothing is fetched: DataUnavailable if the data set is not here.
    """
    columns = _columns(data_folder(data_dir), fetch=fetch, progress=progress or silent)
    return Split(*(_examples(columns, part, data_dir) for part in ("train", "test")))


def locate(data_dir: str | Path | None = None) -> Location | None:
    """Where it is, if it is here."""
    folder = data_folder(data_dir)
    if folder is not None and not _lacking(folder):
        size = sum(path.stat().st_size for path in _files(folder).values() if path is not None)
        return Location("folder", folder, size, _keys(data_dir))
    try:
        _open_cache()
    except (DataUnavailable, CorruptData):
        return None
    return Location("cache", cache_folder() / NAME, stored_bytes(cache_folder() / NAME), _keys(data_dir))


def fetch(data_dir: str | Path | None = None, progress: Progress | None = None) -> Location:
    """Bring it here unless it is; a damaged cache is fetched again, a user's damaged file is an error."""
    location = locate(data_dir)
    if location is not None:
        try:
            verify(location)
        except CorruptData:
            if location.kind == "folder":
                raise
            location = None
    if location is None:
        fetch_into_cache(_recipe(), cache_folder(), progress or silent)
        location = locate(data_dir)
    if location is None:
        raise DataUnavailable(f"{NAME}: was removed from {cache_folder()} while it was being fetched (fetch it again)")
    return location


def verify(location: Location) -> None:
    """Read every byte of it; CorruptData if one is not MNIST's."""
    if location.kind == "folder":
        _from_folder(location.path)
        return
    verify_columns(location.path)
    _check(open_columns(location.path))


def _columns(folder: Path | None, *, fetch: bool, progress: Progress) -> Columns:
    tried = []
    if folder is not None:
        if not (lacking := _lacking(folder)):
            return _from_folder(folder)
        tried.append(f"folder {folder}: lacks {', '.join(lacking)}")
    try:
        return _open_cache()
    except (DataUnavailable, CorruptData) as error:
        tried.append(f"cache {error}")
    if not fetch:
        raise unavailable(_recipe(), [*tried, "the network: not asked (fetch=False)"])
    fetch_into_cache(_recipe(), cache_folder(), progress, tried)
    return _open_cache()


def _open_cache() -> Columns:
    folder = cache_folder() / NAME
    columns = open_columns(folder)
    if set(columns) != set(FILES):
        raise CorruptData(f"{folder}: holds {sorted(columns)}: must hold {sorted(FILES)} (fetch it again)")
    return columns


def _files(folder: Path) -> Mapping[str, Path | None]:
    """Each column's file in a folder of the user's."""
    return {column: find_file((name, f"{name}.gz"), (folder, folder / NAME)) for column, name in FILES.items()}


def _lacking(folder: Path) -> list[str]:
    return [FILES[column] for column, path in _files(folder).items() if path is None]


def _from_folder(folder: Path) -> Columns:
    columns: dict[str, Array] = {}
    for column, path in _files(folder).items():
        if path is None:
            raise CorruptData(f"{folder}: {FILES[column]} is gone (put it back)")
        columns[column] = idx.read(path)
        if (found := idx.sha256(columns[column])) != SHA256[column]:
            raise CorruptData(
                f"{path}: has sha256 {found} unzipped: must have {SHA256[column]} (replace it, or take it "
                f"away to use the cache)"
            )
    return columns


def _check(columns: Columns) -> None:
    """Refuse columns that are not MNIST's."""
    for column, expected in SHA256.items():
        if (found := idx.sha256(columns[column])) != expected:
            raise CorruptData(f"{FILES[column]}: has sha256 {found}: must have {expected}")


def _recipe() -> Recipe:
    names = ", ".join(f"{name}.gz" for name in FILES.values())
    return Recipe(
        name=NAME,
        sources=sources(),
        check=_check,
        by_hand=f"To bring it by hand, put {names} (or the same files unzipped) into a folder and pass the "
        f"folder as data_dir or in the environment variable STAYPUT_DATA.",
    )


def _examples(columns: Columns, part: Literal["train", "test"], data_dir: str | Path | None) -> Examples:
    digits = columns[f"{part}_labels"]
    labels = qmnist.file_of(part, _writer_folders(data_dir))
    if labels is None:
        absent = {"writer": qmnist.how_to_get(part, cache_folder() / "qmnist")}
        return Examples(columns[f"{part}_images"], digits, absent_keys=absent)
    return Examples(columns[f"{part}_images"], digits, {"writer": qmnist.writers(labels, digits)})


def _keys(data_dir: str | Path | None) -> tuple[str, ...]:
    return ("writer",) if qmnist.file_of("train", _writer_folders(data_dir)) is not None else ()


def _writer_folders(data_dir: str | Path | None) -> list[Path]:
    folder = data_folder(data_dir)
    roots = [cache_folder()] if folder is None else [folder, cache_folder()]
    return [root / below for root in roots for below in ("", "qmnist", NAME)]


MNIST = DataSet(
    name=NAME,
    summary="60,000 + 10,000 images of handwritten digits, 28 x 28 pixels in 10 classes",
    licence="CC BY-SA 3.0",
    download_bytes=20_300_000,
    locate=locate,
    fetch=fetch,
    verify=verify,
    load=load,
)
