"""One checkpoint: the server's state after a round, in a safetensors file that knows when it is damaged.

The file's metadata holds the round, the run it belongs to and a SHA-256 over those and over every tensor's name,
dtype, shape and bytes. safetensors itself has no checksum; without this a flipped bit would train on silently. No
pickle: a checkpoint from a stranger is data, not code.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from stayput.core.tensors import Groups, fingerprint, flatten, unflatten
from stayput.errors import CorruptCheckpoint
from stayput.runs.durable_files import write_whole

FORMAT = "stayput-checkpoint-1"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The server's state after a round."""

    round_number: int
    state: Groups
    run_id: str
    """Which run it is of: a checkpoint that was copied into another run's folder is refused."""


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write it whole, or leave what was there."""
    flat: dict[str, Tensor] = {
        name: tensor.detach().cpu().contiguous() for name, tensor in flatten(checkpoint.state).items()
    }
    metadata = {
        "format": FORMAT,
        "round": str(checkpoint.round_number),
        "run": checkpoint.run_id,
        "sha256": _digest(checkpoint.round_number, checkpoint.run_id, checkpoint.state),
    }
    write_whole(path, save(flat, metadata=metadata))


def read_checkpoint(path: Path, *, run_id: str) -> Checkpoint:
    """Read it back, or raise `CorruptCheckpoint` saying what is wrong with it."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            state = unflatten({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError, ValueError) as error:
        raise CorruptCheckpoint(f"{path}: not a whole safetensors file ({error})") from error
    if metadata.get("format") != FORMAT or not metadata.get("round", "").isdigit():
        raise CorruptCheckpoint(f"{path}: format={metadata.get('format')!r}: must be {FORMAT!r}")
    checkpoint = Checkpoint(int(metadata["round"]), state, metadata.get("run", ""))
    if metadata.get("sha256") != _digest(checkpoint.round_number, checkpoint.run_id, state):
        raise CorruptCheckpoint(f"{path}: its content is not what was written (sha256 differs)")
    if checkpoint.run_id != run_id:
        raise CorruptCheckpoint(f"{path}: belongs to run {checkpoint.run_id!r}, not to {run_id!r}")
    return checkpoint


def _digest(round_number: int, run_id: str, state: Groups) -> str:
    return hashlib.sha256(f"{FORMAT}|{round_number}|{run_id}|{fingerprint(state)}".encode()).hexdigest()
