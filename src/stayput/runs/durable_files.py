"""Files that are there whole or not at all, whenever the power goes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stayput.errors import RunNotWritten


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that its name never shows half of it: temporary file, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_json(path: Path, data: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    """Write JSON that people can read."""
    write_whole(path, (json.dumps(data, indent=2, allow_nan=False) + "\n").encode())


def append_line(path: Path, line: str) -> None:
    """Append a line and see it to the disk."""
    with path.open("ab") as file:
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def told_if_unwritable(folder: Path) -> Iterator[None]:
    """`RunNotWritten` for what the system refuses, such as to write to a full disk."""
    try:
        yield
    except OSError as error:
        raise RunNotWritten(
            f"{error.filename or folder}: cannot be written ({error.strerror or error}; mend that, then go on with "
            f"`stayput resume {folder}`)"
        ) from error


def sync_folder(folder: Path) -> None:
    """See a rename in a folder to the disk, where the system can."""
    if os.name != "posix":
        return  # other systems cannot open a folder; there, the rename alone has to do
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
