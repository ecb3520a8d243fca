"""A blob that is still arriving: a file of its full size, of which some chunks are there.

Which chunks are there is not written down: when the file is opened again, after a kill, its chunks are hashed and what
does not fit counts as missing. A finished blob is flushed, compared with its name as a whole, renamed to it, and its
folder flushed; so a name never shows half a blob, and after `finish` it survives a loss of power. Chunks are not
flushed one by one: that one has come is no promise, that the update was accepted is. Must not import torch or a web
framework.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from stayput.deploy.chunks import Manifest
from stayput.errors import TransferFailed
from stayput.runs.durable_files import sync_folder


class PartialBlob:
    """The file of a blob that is arriving. One process, one writer at a time."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._missing = self._find_missing()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def missing(self) -> tuple[int, ...]:
        """The indices of the chunks that have not come."""
        return tuple(sorted(self._missing))

    def put(self, index: int, content: bytes | bytearray | memoryview) -> bool:
        """Take a chunk, or raise `TransferFailed` for bytes that are not it. False where it was there already."""
        self.manifest.check_chunk(index, content)
        if index not in self._missing:
            return False
        view, position = memoryview(content), index * self.manifest.chunk_size
        while view:
            written = os.pwrite(self._descriptor, view, position)
            view, position = view[written:], position + written
        self._missing.discard(index)
        return True

    def finish(self, folder: Path) -> Path:
        """Put the whole blob into a folder under its SHA-256, durably; then this file is no more."""
        if self._missing:
            raise TransferFailed(f"{self.manifest.sha256}: chunk {min(self._missing)} has not come")
        os.fsync(self._descriptor)
        if self._hash() != self.manifest.sha256:
            raise TransferFailed(
                f"{self.manifest.sha256}: the chunks make another blob; the manifest contradicts itself"
            )
        destination = folder / self.manifest.sha256
        self.path.replace(destination)
        self.close()
        sync_folder(folder)
        return destination

    def close(self) -> None:
        """Close the file; what has come stays."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def discard(self) -> None:
        """Close the file and remove it."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _find_missing(self) -> set[int]:
        everything = set(range(len(self.manifest.chunks)))
        is_new = os.fstat(self._descriptor).st_size == 0
        os.ftruncate(self._descriptor, self.manifest.size)
        if is_new:
            return everything
        return {
            index
            for index in everything
            if hashlib.sha256(self._read(index)).hexdigest() != self.manifest.chunks[index]
        }

    def _read(self, index: int) -> bytes:
        return os.pread(self._descriptor, self.manifest.length_of(index), index * self.manifest.chunk_size)

    def _hash(self) -> str:
        whole = hashlib.sha256()
        for index in range(len(self.manifest.chunks)):
            whole.update(self._read(index))
        return whole.hexdigest()
