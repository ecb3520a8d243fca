"""What clients keep from round to round (SCAFFOLD's control variates), on disk, by the client's number.

    client_memory/
      about.json     names, dtypes and shapes of what a client keeps; K; the oldest round that can be gone back to
      index.bin      for each client and slot: round + 1 (0 where nothing is kept) and a checksum
      rows.bin       for each client and slot: the tensors, one after another

Both .bin files are sparse: a client that never trained takes no space on the disk and is no object in memory, whether
there are a thousand clients or a million. A run without a folder keeps the same files without names.

A client has a few slots, so that a checkpoint can be gone back to. Writing in round t takes a slot that holds neither
what the client kept after round t - 1 nor what it kept at any checkpoint that is still there; so a kill, at any point,
finds every checkpoint with the memory it was written with. Before a checkpoint is written all is flushed to the disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt
import torch

from stayput.core.tensors import Tensors
from stayput.errors import CorruptCheckpoint
from stayput.runs.durable_files import write_json

FOLDER = "client_memory"
ABOUT = "about.json"
FILES = ("index.bin", "rows.bin")
_ENTRY_BYTES = 16

Entries = npt.NDArray[np.int64]
"""[slot, 2]: round + 1, and the checksum of the row."""


class ClientMemory:
    """The memory of a run's clients."""

    def __init__(self, like: Tensors, num_clients: int, index: IO[bytes], rows: IO[bytes], slots: int) -> None:
        # By name: a checkpoint that was read back may have its tensors in another order.
        self._like = {name: torch.empty_like(like[name], device="cpu") for name in sorted(like)}
        self._row_bytes = sum(tensor.numel() * tensor.element_size() for tensor in self._like.values())
        self._num_clients, self._index, self._rows, self._slots = num_clients, index, rows, slots
        self.close: Callable[[], object] = weakref.finalize(self, _close, index, rows)
        """Let go of the files; also done when the memory is collected."""
        self._folder: Path | None = None
        self._protected: list[int] = []

    @classmethod
    def without_folder(cls, like: Tensors, num_clients: int) -> Self:
        """The memory of a run that nobody will go on with."""
        return cls(like, num_clients, _unnamed_file(), _unnamed_file(), slots=1)

    @classmethod
    def create(cls, run: Path, like: Tensors, num_clients: int, *, keep_checkpoints: int) -> Self:
        """Begin the memory of a run with a folder."""
        folder = run / FOLDER
        folder.mkdir(exist_ok=True)
        slots = keep_checkpoints + 2  # beside the checkpoints': the last round's, and the one that is written
        index, rows = ((folder / name).open("w+b", buffering=0) for name in FILES)
        memory = cls(like, num_clients, index, rows, slots)
        memory._folder = folder
        write_json(folder / ABOUT, memory._about(oldest_round=0))
        return memory

    @classmethod
    def reopen(cls, run: Path, like: Tensors, num_clients: int, *, checkpoints: Sequence[int]) -> Self:
        """Go on from the last of these checkpoints; what was kept after it is forgotten."""
        folder, last = run / FOLDER, checkpoints[-1]
        try:
            about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            index, rows = ((folder / name).open("r+b", buffering=0) for name in FILES)
        except (OSError, ValueError) as error:
            raise CorruptCheckpoint(f"{folder}: what clients keep cannot be read ({error})") from error
        memory = cls(like, num_clients, index, rows, slots=int(about.get("slots", 1)))
        memory._folder = folder
        oldest = int(about.get("oldest_round", 0))
        if about != memory._about(oldest_round=oldest):
            raise CorruptCheckpoint(f"{folder / ABOUT}: describes the memory of other clients or another model")
        if last < oldest:
            raise CorruptCheckpoint(
                f"{folder}: what clients kept at round {last} is gone: must go on from round {oldest} or later "
                f"(bring back a later checkpoint, or begin another run)"
            )
        memory._forget_after(last)
        memory._protected = list(checkpoints)[-(memory._slots - 2) :]
        write_json(folder / ABOUT, memory._about(oldest_round=max(oldest, memory._protected[0])))
        return memory

    def get(self, client: int, /) -> Tensors | None:
        """What a client keeps, or None if it has never trained."""
        entries = self._entries(client)
        slot = int(entries[:, 0].argmax())
        if not entries[slot, 0]:
            return None
        self._rows.seek((client * self._slots + slot) * self._row_bytes)
        row = bytearray(_read_whole(self._rows, self._row_bytes))
        if _checksum(client, int(entries[slot, 0]), row) != entries[slot, 1]:
            raise CorruptCheckpoint(
                f"{self._folder}: what client {client} kept in round {entries[slot, 0] - 1} is damaged: must have the "
                f"checksum it was written with (begin the run anew)"
            )
        return self._tensors(row)

    def put(self, client: int, kept: Tensors, *, round_number: int) -> None:
        """What a client keeps from this round on."""
        row = b"".join(
            kept[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            for name in self._like
        )
        entries = self._entries(client)
        slot = self._free_slot(entries[:, 0], round_number)
        self._rows.seek((client * self._slots + slot) * self._row_bytes)
        _write_whole(self._rows, row)
        entry = np.array([round_number + 1, _checksum(client, round_number + 1, row)], dtype="<i8")
        self._index.seek((client * self._slots + slot) * _ENTRY_BYTES)
        _write_whole(self._index, entry.tobytes())

    def flush(self) -> None:
        """Bring all of it to the disk: before the checkpoint that belongs to it."""
        if self._folder is not None:
            os.fsync(self._rows.fileno())
            os.fsync(self._index.fileno())

    def protect(self, round_number: int) -> None:
        """Keep what clients keep now for as long as the checkpoint of this round is among the latest few."""
        if self._folder is None:
            return
        self._protected = [*(old for old in self._protected if old < round_number), round_number]
        if len(self._protected) > self._slots - 2:
            self._protected = self._protected[-(self._slots - 2) :]
            write_json(self._folder / ABOUT, self._about(oldest_round=self._protected[0]))

    def _about(self, *, oldest_round: int) -> dict[str, Any]:
        tensors = {name: [str(tensor.dtype), list(tensor.shape)] for name, tensor in self._like.items()}
        return {
            "num_clients": self._num_clients,
            "slots": self._slots,
            "oldest_round": oldest_round,
            "tensors": tensors,
        }

    def _entries(self, client: int) -> Entries:
        self._index.seek(client * self._slots * _ENTRY_BYTES)
        size = self._slots * _ENTRY_BYTES
        return np.frombuffer(self._index.read(size).ljust(size, b"\0"), dtype="<i8").reshape(self._slots, 2)

    def _free_slot(self, stamps: npt.NDArray[np.int64], round_number: int) -> int:
        needed = set()
        for last in (*self._protected, round_number - 1):
            until = np.where(stamps <= last + 1, stamps, 0)
            if until.any():
                needed.add(int(until.argmax()))
        free = [slot for slot in range(self._slots) if slot not in needed]
        return free[0] if free else 0  # without a folder there is one slot, and nothing to go back to

    def _forget_after(self, round_number: int) -> None:
        """Strike out what a killed process wrote in rounds that will be computed again."""
        self._index.seek(0)
        stretch = 4096 * self._slots * _ENTRY_BYTES
        first_byte = 0
        while chunk := self._index.read(stretch):
            stamps = np.frombuffer(chunk[: len(chunk) // _ENTRY_BYTES * _ENTRY_BYTES], dtype="<i8").reshape(-1, 2)[:, 0]
            for entry in np.flatnonzero(stamps > round_number + 1).tolist():
                self._index.seek(first_byte + entry * _ENTRY_BYTES)
                self._index.write(bytes(_ENTRY_BYTES))
            first_byte += len(chunk)
            self._index.seek(first_byte)

    def _tensors(self, row: bytearray) -> Tensors:
        tensors, first = {}, 0
        for name, like in self._like.items():
            size = like.numel() * like.element_size()
            part = torch.frombuffer(row, dtype=torch.uint8, count=size, offset=first) if size else torch.empty(0)
            tensors[name] = part.clone().view(like.dtype).reshape(like.shape)  # aligned as torch's own memory is
            first += size
        return tensors


def _close(*files: IO[bytes]) -> None:
    for file in files:
        file.close()


def _unnamed_file() -> IO[bytes]:
    return tempfile.TemporaryFile(buffering=0, prefix="stayput-")


def _read_whole(file: IO[bytes], size: int) -> bytes:
    """Reads of more than 2 GiB come in parts; what is missing at the end of a sparse file is zeros."""
    parts = []
    while size:
        part = file.read(size)
        if not part:
            parts.append(bytes(size))
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write_whole(file: IO[bytes], content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _checksum(client: int, stamp: int, row: bytes | bytearray) -> int:
    digest = hashlib.blake2b(f"{client}|{stamp}|".encode(), digest_size=8)
    digest.update(row)
    return int.from_bytes(digest.digest(), "little", signed=True)
