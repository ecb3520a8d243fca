"""Models and updates in chunks that have names of their own, so that a transfer that was cut goes on where it was.

A blob is named by the SHA-256 of its bytes and described by a manifest: the SHA-256 of each of its chunks. Either side
can tell a wrong chunk at once, and a chunk that has come need not come again. The chunks of a published model may be
kept by any cache on the way; those of an upload belong to one client and one task and are never shared, or a client
could ask whether somebody else has sent the same bytes. Must not import torch or a web framework.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from stayput.deploy.schemas import Items, Text, Whole
from stayput.errors import MalformedMessage, TransferFailed

MIB = 1 << 20
SMALLEST_CHUNK, LARGEST_CHUNK = MIB, 4 * MIB
MAX_CHUNKS = 3_500
"""So many hashes fit into a control message."""

Sha256 = Annotated[str, Text(64, "[0-9a-f]{64}", "a SHA-256 as 64 hex digits")]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A blob as its chunks."""

    sha256: Sha256
    size: Annotated[int, Whole(1)]
    chunk_size: Annotated[int, Whole(SMALLEST_CHUNK, LARGEST_CHUNK)]
    chunks: Annotated[tuple[Sha256, ...], Items(MAX_CHUNKS)]

    @classmethod
    def of(cls, content: bytes | bytearray | memoryview) -> Manifest:
        """The manifest of a blob in memory."""
        size = chunk_size_for(len(content))
        view = memoryview(content)
        chunks = tuple(hashlib.sha256(view[start : start + size]).hexdigest() for start in range(0, len(view), size))
        return cls(hashlib.sha256(view).hexdigest(), len(view), size, chunks)

    @classmethod
    def of_file(cls, path: Path) -> Manifest:
        """The manifest of a file, read a chunk at a time."""
        size = chunk_size_for(path.stat().st_size)
        whole, chunks, total = hashlib.sha256(), [], 0
        with path.open("rb") as file:
            while chunk := file.read(size):
                whole.update(chunk)
                chunks.append(hashlib.sha256(chunk).hexdigest())
                total += len(chunk)
        return cls(whole.hexdigest(), total, size, tuple(chunks))

    def check(self, *, max_size: int) -> None:
        """Refuse a manifest that is too large or does not add up."""
        if self.size > max_size:
            raise MalformedMessage(f"manifest: {self.size} bytes: must be at most {max_size}")
        if len(self.chunks) != -(-self.size // self.chunk_size):
            raise MalformedMessage(
                f"manifest: {len(self.chunks)} chunks: must be {-(-self.size // self.chunk_size)} "
                f"of {self.chunk_size} bytes for {self.size}"
            )

    def length_of(self, index: int) -> int:
        """The bytes of a chunk; only the last may be shorter."""
        return min(self.chunk_size, self.size - index * self.chunk_size)

    def check_chunk(self, index: int, content: bytes | bytearray | memoryview) -> None:
        """Refuse bytes that are not the chunk at this index."""
        if not 0 <= index < len(self.chunks):
            raise TransferFailed(f"chunk {index}: must be in [0, {len(self.chunks) - 1}]")
        if len(content) != self.length_of(index) or hashlib.sha256(content).hexdigest() != self.chunks[index]:
            raise TransferFailed(f"chunk {index}: is not what the manifest says; send it again")


def chunk_size_for(size: int) -> int:
    """1 MiB, or more where the hashes of so many chunks would not fit into a message."""
    for mebibytes in (1, 2, 4):
        if size <= mebibytes * MIB * MAX_CHUNKS:
            return mebibytes * MIB
    raise TransferFailed(f"{size} bytes: must be at most {LARGEST_CHUNK * MAX_CHUNKS} in one transfer")


class Transfer:
    """Which chunks still have to travel. Pure: whoever moves bytes asks what is next and says what arrived.

    Chunks go in order, and one is under way at a time; so of a connection that is cut, at most the chunk under way is
    sent twice.
    """

    def __init__(self, manifest: Manifest, missing: Iterable[int] | None = None) -> None:
        self.manifest = manifest
        self._missing: set[int] = set()
        self.resume(range(len(manifest.chunks)) if missing is None else missing)

    @property
    def done(self) -> bool:
        """Whether all chunks are there."""
        return not self._missing

    def next(self) -> int | None:
        """The index of the chunk to move now, or None if there is none left."""
        return min(self._missing, default=None)

    def arrived(self, index: int) -> None:
        """The receiver has the chunk."""
        self._missing.discard(index)

    def resume(self, missing: Iterable[int]) -> None:
        """After a cut: what the receiver says it lacks is all that is sent."""
        found = set(missing)
        if not found <= set(range(len(self.manifest.chunks))):
            raise MalformedMessage(f"missing chunks: must be in [0, {len(self.manifest.chunks) - 1}]")
        self._missing = found
