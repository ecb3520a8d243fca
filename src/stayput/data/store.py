"""Columns on disk: a folder of .npy files and a manifest that says what they must be.

    mnist/
      manifest.json        origin, and for each column its file, size, SHA-256, dtype and shape
      train_images.npy     ...

A folder without a manifest is not trusted, and the manifest comes last: files are written into a working
folder beside the destination and flushed to the disk, then the manifest, then the folder is renamed into
place. An interruption or a full disk at any point leaves a working folder that nobody opens and a later fetch
removes.

Two processes may store the same columns at once: one rename wins, and the other finds a good folder and drops
its own. A damaged folder is mended file by file, each replaced in one step and the manifest last, so that it
is never absent under a reader's feet.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from stayput.data.federated_data import Array
from stayput.errors import CorruptData, DataUnavailable

MANIFEST = "manifest.json"
FORMAT = 1
"""Of the manifest; a folder of another format is fetched again."""

Append = Callable[[Array], None]
"""Takes the next rows of a column."""

_WORKING_SUFFIX = ".part"
_ABANDONED_AFTER_SECONDS = 24 * 3600


@contextmanager
def working_folder(cache: Path, name: str) -> Iterator[Path]:
    """A fresh folder in the cache for downloads and half-written columns; gone afterwards in any case."""
    cache.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(cache, name)
    folder = Path(tempfile.mkdtemp(prefix=f".{name}-", suffix=_WORKING_SUFFIX, dir=cache))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def save_columns(columns: Mapping[str, Array], destination: Path, *, working: Path, origin: str) -> None:
    """Store columns so that `destination` either holds them all, checked and on the disk, or is as it was."""
    staged = StagedColumns(working)
    for name, column in columns.items():
        staged.save(name, column)
    staged.publish(destination, origin=origin)


class StagedColumns:
    """Columns on their way to the disk: written into a working folder, then published together."""

    def __init__(self, working: Path) -> None:
        self._folder = working / "columns"
        self._folder.mkdir()
        self._described: dict[str, dict[str, Any]] = {}

    def save(self, name: str, column: Array) -> None:
        """Write a column that is there as a whole."""
        file = self._folder / f"{name}.npy"
        with file.open("xb") as stream:
            np.save(stream, column, allow_pickle=False)
            _to_disk(stream.fileno())
        self._describe(name, column.dtype, column.shape, file_sha256(file))

    @contextmanager
    def stream(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Iterator[Append]:
        """Write a column of this shape a few rows at a time, by calling what this gives with them."""
        digest = hashlib.sha256()
        written = 0
        with (self._folder / f"{name}.npy").open("xb") as file:

            def write(content: bytes | memoryview) -> None:
                file.write(content)
                digest.update(content)

            def append(rows: Array) -> None:
                nonlocal written
                if rows.dtype != dtype or rows.shape[1:] != shape[1:]:
                    raise CorruptData(
                        f"column {name!r}: rows of {rows.dtype} {rows.shape[1:]} follow rows of {dtype} {shape[1:]}: "
                        f"must be the same throughout"
                    )
                written += len(rows)
                write(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)

            header = io.BytesIO()
            described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(header, described)
            write(header.getvalue())
            yield append
            file.flush()
            _to_disk(file.fileno())
        if written != shape[0]:
            raise CorruptData(f"column {name!r}: has {written} rows: must have the {shape[0]} that were counted")
        self._describe(name, dtype, shape, digest.hexdigest())

    def publish(self, destination: Path, *, origin: str, facts: Mapping[str, object] | None = None) -> None:
        """The manifest, then the folder's own name."""
        manifest = {"format": FORMAT, "origin": origin, "facts": dict(facts or {}), "columns": self._described}
        with (self._folder / MANIFEST).open("x", encoding="utf-8") as text:
            json.dump(manifest, text, indent=2)
            text.flush()
            _to_disk(text.fileno())
        _folder_to_disk(self._folder)
        _publish(self._folder, destination)

    def _describe(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], sha256: str) -> None:
        file = self._folder / f"{name}.npy"
        self._described[name] = {
            "file": file.name,
            "bytes": file.stat().st_size,
            "sha256": sha256,
            "dtype": dtype.str,
            "shape": list(shape),
        }


def open_columns(folder: Path) -> dict[str, Array]:
    """The columns, mapped into memory: the manifest and the sizes are checked, the contents are not read."""
    columns: dict[str, Array] = {}
    for name, entry in _manifest(folder)["columns"].items():
        path = _file(folder, entry)
        try:
            # Copy on write: nothing writes to it, but torch warns of memory it may not write to.
            column = np.load(path, mmap_mode="c", allow_pickle=False)
        except (ValueError, OSError) as error:
            raise CorruptData(f"{path}: cannot be opened ({error})") from error
        if column.dtype.str != entry["dtype"] or list(column.shape) != entry["shape"]:
            raise CorruptData(f"{path}: holds {column.dtype.str} {column.shape}, not what {MANIFEST} says")
        columns[name] = column
    return columns


def verify_columns(folder: Path) -> None:
    """Read every byte and compare with the manifest."""
    for entry in _manifest(folder)["columns"].values():
        path = _file(folder, entry)
        if (found := file_sha256(path)) != entry["sha256"]:
            raise CorruptData(f"{path}: has sha256 {found}: must have {entry['sha256']} (fetch or build it again)")


def stored_bytes(folder: Path) -> int:
    """The size of the columns together."""
    return sum(entry["bytes"] for entry in _manifest(folder)["columns"].values())


def stored_facts(folder: Path) -> dict[str, Any]:
    """What whoever stored the columns noted of them."""
    facts = _manifest(folder).get("facts", {})
    return facts if isinstance(facts, dict) else {}


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataUnavailable(f"{folder}: nothing is stored there") from error
    except (ValueError, OSError) as error:
        raise CorruptData(f"{folder / MANIFEST}: cannot be read ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or not _well_formed(manifest):
        raise CorruptData(f"{folder / MANIFEST}: is not a manifest of format {FORMAT} (fetch or build it again)")
    return manifest


def _well_formed(manifest: dict[str, Any]) -> bool:
    columns = manifest.get("columns")
    fields = {"file": str, "bytes": int, "sha256": str, "dtype": str, "shape": list}
    return isinstance(columns, dict) and all(
        isinstance(entry, dict) and all(isinstance(entry.get(field), kind) for field, kind in fields.items())
        for entry in columns.values()
    )


def _file(folder: Path, entry: Mapping[str, Any]) -> Path:
    """A column's file, after a check that it is there whole."""
    path = folder / Path(entry["file"]).name
    try:
        size = path.stat().st_size
    except OSError as error:
        raise CorruptData(f"{path}: is missing (fetch or build it again)") from error
    if size != entry["bytes"]:
        raise CorruptData(f"{path}: has {size} bytes: must have {entry['bytes']} (fetch or build it again)")
    return path


def _publish(staged: Path, destination: Path) -> None:
    try:
        staged.rename(destination)
    except OSError:
        if not destination.is_dir():
            raise
        try:
            verify_columns(destination)
        except (CorruptData, DataUnavailable):
            _mend(staged, destination)
    _folder_to_disk(destination.parent)


def _mend(staged: Path, destination: Path) -> None:
    files = sorted(staged.iterdir(), key=lambda path: path.name == MANIFEST)  # the manifest last
    for file in files:
        file.replace(destination / file.name)
    _folder_to_disk(destination)


def _remove_abandoned(cache: Path, name: str) -> None:
    """Remove what a killed process left behind; a day later nobody is writing to it any more."""
    for folder in cache.glob(f".{name}-*{_WORKING_SUFFIX}"):
        try:
            age = time.time() - folder.stat().st_mtime
        except OSError:
            continue  # another process has just removed it
        if age > _ABANDONED_AFTER_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _to_disk(descriptor: int) -> None:
    os.fsync(descriptor)


def _folder_to_disk(folder: Path) -> None:
    """Make a rename survive a power cut; Windows has no such call."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _to_disk(descriptor)
    finally:
        os.close(descriptor)
