"""Examples that do not fit onto the device are sent as they are needed, and nothing that is learned changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from side_by_side import largest_difference, trained

from stayput.algorithms import FedAvg
from stayput.core.tensors import fingerprint
from stayput.engines import ENGINES
from stayput.engines.placed_examples import RESIDENT_SHARE, PlacedExamples, fits_on
from stayput.testing import toy_clients, toy_examples, toy_task

SEED = 3


def shaken(inputs, draws):
    """Draws are named by the row in the data, wherever the row is when it is used."""
    return inputs + draws(inputs.shape[1]).to(inputs.dtype)


TASK = replace(toy_task(torch.float64), augment=shaken)


@pytest.mark.parametrize("name", ["sequential", "lanes"])
@pytest.mark.parametrize("staged_bytes", [1, 2000, 2**30])
def test_the_model_has_the_bits_it_has_with_all_examples_on_the_device(device, name, staged_bytes, monkeypatch):
    clients = toy_clients((7, 1, 12, 10, 3, 25))
    experiment = [(FedAvg(0.7, local_epochs=3, batch_size=4, learning_rate=0.2).algorithm(), SEED)]
    (resident,) = trained(ENGINES[name](TASK, clients, device=device), clients, experiment)
    monkeypatch.setattr("stayput.engines.placed_examples.fits_on", lambda device, examples: False)
    monkeypatch.setattr("stayput.engines.lanes.stepping.STAGED_BYTES", staged_bytes)
    engine = ENGINES[name](TASK, clients, test=toy_examples(), device=device)
    assert not engine._data.resident
    (streamed,) = trained(engine, clients, experiment)
    assert largest_difference(streamed, resident) == 0
    assert fingerprint(streamed) == fingerprint(resident)
    assert engine.evaluate(engine.initial_model(SEED))["accuracy"] > 0


def test_a_window_brings_each_row_once_and_finds_it_again(monkeypatch):
    monkeypatch.setattr("stayput.engines.placed_examples.fits_on", lambda device, examples: False)
    examples = toy_examples()
    data = PlacedExamples(examples, toy_task(torch.float64), torch.device("cpu"), torch.float64)
    staged = data.staged(5)
    rows = torch.tensor([[9, 2, 9], [2, 29, 4]], dtype=torch.int32)
    places = torch.from_numpy(staged.take(rows.numpy()))
    assert places.max() == 3
    inputs, targets = staged.batch(places.reshape(-1))
    expected_inputs, expected_targets = data.batch(rows.reshape(-1))
    assert torch.equal(inputs, expected_inputs)
    assert torch.equal(targets, expected_targets)


@pytest.mark.parametrize(("spare_bytes", "fits"), [(0, True), (-1, False)])
def test_examples_go_onto_a_gpu_up_to_a_share_of_its_free_memory(spare_bytes, fits, monkeypatch, caplog):
    examples = toy_examples()
    needed = examples.inputs.nbytes + examples.targets.nbytes
    free = int(needed / RESIDENT_SHARE) + spare_bytes
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 10 * free))
    assert fits_on(torch.device("cuda"), examples) == fits
    assert ("they are sent as they are needed" in caplog.text) != fits


def test_on_a_cpu_examples_stay_where_they_are():
    assert fits_on(torch.device("cpu"), toy_examples())
