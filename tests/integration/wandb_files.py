"""What Weights & Biases writes offline, read as `wandb sync` would read it."""

from __future__ import annotations

import json
import time
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the package's own, at import
    from wandb.proto.wandb_internal_pb2 import Record

BLOCK, HEADER, FILE_HEADER = 32768, 7, 7
FULL, LAST = 1, 4


def records(path):
    """The records of a .wandb file: LevelDB's log format, blocks of 32 KiB with records cut into chunks."""
    content, at, chunks = path.read_bytes(), FILE_HEADER, b""
    while at + HEADER <= len(content):
        if BLOCK - at % BLOCK < HEADER:
            at += BLOCK - at % BLOCK
            continue
        length, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        chunks += content[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (FULL, LAST):
            yield Record.FromString(chunks)
            chunks = b""


def synced(folder):
    """All records of a run, in the order in which they were written."""
    files = offline_files(folder)
    deadline = time.monotonic() + 30
    while not all(ended(file) for file in files):  # another process writes them, and goes on when the run is over
        assert time.monotonic() < deadline, "the offline files have no end"
        time.sleep(0.02)
    return [record for file in files for record in records(file)]


def written(folder):
    """The same, as far as it goes, of files that were cut off as well."""
    return [record for file in offline_files(folder) for record in records(file)]


def ended(file):
    """Whether the last record is there."""
    return file.is_file() and any(record.WhichOneof("record_type") == "exit" for record in records(file))


def offline_files(folder):
    """In the order in which they were begun."""
    return sorted((folder / "wandb").glob("offline-run-*/run-*.wandb"), key=lambda path: path.parent.name)


def history(everything):
    """The rows of rounds among records."""
    rows = [record.history for record in everything if record.WhichOneof("record_type") == "history"]
    return [{item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in row.item} for row in rows]
