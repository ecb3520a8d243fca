from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import stayput as sp
from stayput.errors import CorruptCheckpoint
from stayput.runs.client_memory import ClientMemory
from stayput.testing import toy_clients, toy_task

LIKE = {"a": torch.zeros(2, 3), "b": torch.zeros(5, dtype=torch.float64), "none": torch.zeros(0)}


def kept(number):
    return {name: torch.full_like(tensor, number) for name, tensor in LIKE.items()}


def value(memory, client):
    tensors = memory.get(client)
    if tensors is None:
        return None
    assert {name: (t.dtype, t.shape) for name, t in tensors.items()} == {n: (t.dtype, t.shape) for n, t in LIKE.items()}
    (number,) = {float(entry) for tensor in tensors.values() for entry in tensor.reshape(-1)}
    return number


def test_what_was_never_put_is_none_and_what_was_put_comes_back():
    memory = ClientMemory.without_folder(LIKE, 1_000_000)
    assert memory.get(999_999) is None
    memory.put(999_999, kept(3), round_number=1)
    memory.put(0, kept(4), round_number=1)
    memory.put(999_999, kept(5), round_number=2)
    assert [value(memory, client) for client in (0, 1, 999_999)] == [4, None, 5]


def test_the_disk_holds_only_clients_that_trained(tmp_path):
    memory = ClientMemory.create(tmp_path, LIKE, 1_000_000, keep_checkpoints=2)
    for client in range(0, 1_000_000, 100_000):
        memory.put(client, kept(client), round_number=1)
    memory.flush()
    blocks = sum(file.stat().st_blocks for file in (tmp_path / "client_memory").iterdir())
    assert blocks * 512 < 1_000_000
    assert (tmp_path / "client_memory" / "rows.bin").stat().st_size > 200_000_000


def test_the_order_of_names_does_not_matter(tmp_path):
    memory = ClientMemory.create(tmp_path, {"b": torch.zeros(2), "a": torch.zeros(3)}, 2, keep_checkpoints=1)
    memory.put(1, {"a": torch.ones(3), "b": torch.zeros(2)}, round_number=1)
    memory.protect(1)
    memory.close()
    again = ClientMemory.reopen(tmp_path, {"a": torch.zeros(3), "b": torch.zeros(2)}, 2, checkpoints=[1])
    assert {name: tensor.tolist() for name, tensor in again.get(1).items()} == {"a": [1, 1, 1], "b": [0, 0]}


@pytest.mark.parametrize("seed", range(8))
def test_every_checkpoint_that_is_kept_can_be_gone_back_to_after_any_history(tmp_path, seed):
    draw, keep, clients = np.random.default_rng(seed), 2, 6
    memory = ClientMemory.create(tmp_path, LIKE, clients, keep_checkpoints=keep)
    truth, snapshots, t = {}, {}, 0
    for _ in range(60):
        action = draw.integers(10)
        if action < 6 or not snapshots:  # a round, and now and then an interruption in the middle of it
            t += 1
            for client in draw.permutation(clients)[: draw.integers(1, clients)].tolist():
                memory.put(client, kept(1000 * seed + 10 * t + client), round_number=t)
                truth = {**truth, client: 1000 * seed + 10 * t + client}
            snapshots.setdefault(t, truth)
        if action in {3, 4, 7} or not memory._protected:  # a checkpoint
            memory.flush()
            memory.protect(t)
        elif action == 8:  # a kill; the latest checkpoint may turn out to be damaged
            there = memory._protected[: len(memory._protected) - int(draw.integers(len(memory._protected)))]
            memory.close()
            memory = ClientMemory.reopen(tmp_path, LIKE, clients, checkpoints=there)
            t = there[-1]
            truth = snapshots[t]
            snapshots = {number: state for number, state in snapshots.items() if number <= t}
        assert {client: value(memory, client) for client in range(clients)} == {
            client: truth.get(client) for client in range(clients)
        }


def test_an_interrupted_round_leaves_what_the_last_round_kept(tmp_path):
    memory = ClientMemory.create(tmp_path, LIKE, 2, keep_checkpoints=1)
    memory.protect(0)
    for t in (1, 2, 3):
        memory.put(0, kept(t), round_number=t)
    memory.put(0, kept(4), round_number=4)  # round 4 does not come to its end, and a checkpoint of round 3 is written
    memory.protect(3)
    memory.close()
    assert value(ClientMemory.reopen(tmp_path, LIKE, 2, checkpoints=[0, 3]), 0) == 3


def test_a_round_before_the_kept_checkpoints_is_refused(tmp_path):
    memory = ClientMemory.create(tmp_path, LIKE, 2, keep_checkpoints=1)
    for t in (1, 2, 3):
        memory.put(0, kept(t), round_number=t)
        memory.protect(t)
    memory.close()
    with pytest.raises(CorruptCheckpoint, match="kept at round 1 is gone: must go on from round 3"):
        ClientMemory.reopen(tmp_path, LIKE, 2, checkpoints=[1])


def test_a_damaged_row_is_refused_and_so_is_another_models_memory(tmp_path):
    memory = ClientMemory.create(tmp_path, LIKE, 2, keep_checkpoints=1)
    memory.put(1, kept(7), round_number=1)
    memory.protect(1)
    memory.close()
    rows = tmp_path / "client_memory" / "rows.bin"
    content = bytearray(rows.read_bytes())
    content[-2] ^= 4
    rows.write_bytes(content)
    with pytest.raises(CorruptCheckpoint, match="what client 1 kept in round 1 is damaged"):
        ClientMemory.reopen(tmp_path, LIKE, 2, checkpoints=[1]).get(1)
    with pytest.raises(CorruptCheckpoint, match="other clients or another model"):
        ClientMemory.reopen(tmp_path, LIKE, 3, checkpoints=[1])
    (tmp_path / "client_memory" / "about.json").unlink()
    with pytest.raises(CorruptCheckpoint, match="cannot be read"):
        ClientMemory.reopen(tmp_path, LIKE, 2, checkpoints=[1])


def run(folder, rounds, **settings):
    return sp.train(
        toy_task(),
        toy_clients((9, 4, 12, 6, 5)),
        sp.Scaffold(client_fraction=0.4, local_epochs=2, batch_size=4, learning_rate=0.2),
        rounds=rounds,
        folder=folder,
        **settings,
    )


def test_a_run_that_falls_back_to_an_older_checkpoint_ends_in_the_same_model(tmp_path):
    whole = run(None, 9)
    run(tmp_path / "run", 7, checkpoint_every=2)
    latest = max((tmp_path / "run" / "checkpoints").glob("round-*"))
    latest.write_bytes(latest.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="the one before it is used"):
        again = run(tmp_path / "run", 9, resume=True)
    assert again.model_sha256 == whole.model_sha256
    about = json.loads((tmp_path / "run" / "client_memory" / "about.json").read_text())
    assert about["num_clients"] == 5
