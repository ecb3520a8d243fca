from __future__ import annotations

import os
import pickle

import pytest
import torch

from stayput.core.tensors import fingerprint
from stayput.errors import CorruptCheckpoint
from stayput.runs import durable_files
from stayput.runs.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

STATE = {
    "weights": {"a.weight": torch.arange(6.0).reshape(2, 3).t(), "b": torch.ones(2, dtype=torch.bfloat16)},
    "buffers": {"count": torch.tensor(3)},
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "round-000007.safetensors"
    write_checkpoint(path, Checkpoint(7, STATE, "run-1"))
    return path


def test_a_checkpoint_comes_back_bit_for_bit(path):
    checkpoint = read_checkpoint(path, run_id="run-1")
    assert checkpoint.round_number == 7
    assert fingerprint(checkpoint.state) == fingerprint(STATE)


def test_every_flipped_byte_is_noticed(path):
    whole = path.read_bytes()
    noticed = 0
    for position in range(0, len(whole), 3):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :])
        try:
            read_checkpoint(path, run_id="run-1")
        except CorruptCheckpoint:
            noticed += 1
    assert noticed == len(range(0, len(whole), 3))


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_file_cut_short_is_noticed(path, keep):
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorruptCheckpoint, match="round-000007"):
        read_checkpoint(path, run_id="run-1")


def test_another_runs_checkpoint_is_refused(path):
    with pytest.raises(CorruptCheckpoint, match="belongs to run 'run-1', not to 'run-2'"):
        read_checkpoint(path, run_id="run-2")


def test_a_pickle_is_not_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "it ran"),))

    path = tmp_path / "round-000001.safetensors"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CorruptCheckpoint):
        read_checkpoint(path, run_id="run-1")
    assert not (tmp_path / "it ran").exists()


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_rubbish(path, monkeypatch, failing):
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable_files.os if failing == "fsync" else durable_files.Path, failing, full)
    with pytest.raises(OSError, match="No space left"):
        write_checkpoint(path, Checkpoint(8, STATE, "run-1"))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]
