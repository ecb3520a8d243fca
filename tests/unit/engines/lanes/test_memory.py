"""How many lanes a device's memory holds."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from stayput.algorithms import FedAvg, FedProx
from stayput.core.round import run_round
from stayput.data.federated_data import Examples
from stayput.engines import LanesEngine
from stayput.engines.lanes import memory
from stayput.engines.lanes.memory import FUSED_COPIES, MAPPED_COPIES, bytes_of_a_lane, lanes_that_fit
from stayput.engines.model_program import ModelProgram
from stayput.engines.placed_examples import PlacedExamples
from stayput.tasks.losses import cross_entropy
from stayput.tasks.task import Task
from stayput.testing import toy_clients, toy_task

CPU = torch.device("cpu")
WEIGHTS = (3 * 2 * 2 * 4 + 4 + 4 * 3 * 3 * 5 + 5) * 4


class Convolving(nn.Sequential):
    """One convolution and one linear layer, so that what a step keeps can be counted by hand."""

    def __init__(self):
        super().__init__(nn.Conv2d(3, 4, 2), nn.Flatten(), nn.Linear(4 * 3 * 3, 5))


def images(task, count):
    draw = torch.Generator().manual_seed(0)
    pixels = torch.rand(count, 3, 4, 4, generator=draw).numpy()
    labels = torch.randint(5, (count,), generator=draw).numpy()
    return PlacedExamples(Examples(pixels, labels), task, CPU, torch.float32)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("batch_length", [1, 7])
def test_a_lane_needs_its_copies_of_the_weights_and_what_a_step_keeps(fused, batch_length):
    task = Task(Convolving, cross_entropy)
    needed = bytes_of_a_lane(ModelProgram(task, CPU), images(task, 10), batch_length, fused=fused)
    without_step = (FUSED_COPIES if fused else MAPPED_COPIES) * WEIGHTS
    # Of an example: the image, the convolved image, log-probabilities, and nine windows of twelve values.
    floats_of_an_example = 3 * 4 * 4 + 4 * 3 * 3 + 5 + 9 * 12
    assert without_step + 2 * 4 * floats_of_an_example * batch_length <= needed
    assert needed <= without_step + 2 * 4 * (floats_of_an_example + 20) * batch_length + 100


def test_more_lanes_fit_into_more_memory_and_one_always_does():
    assert lanes_that_fit(1000, 100) == 8
    assert lanes_that_fit(1000, 10**9) == 1


def test_what_torch_keeps_for_reuse_counts_as_free(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (500, 9000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 300)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 200)
    assert memory.free_bytes(torch.device("cuda")) == 600


@pytest.mark.parametrize("settings", [FedAvg, FedProx])
def test_clients_take_turns_on_the_lanes_that_fit_and_that_is_said(settings, monkeypatch, caplog):
    clients = toy_clients((7, 1, 12, 10, 3, 25))
    task = toy_task(torch.float64)
    algorithm = settings(client_fraction=1.0, local_epochs=2, batch_size=4, learning_rate=0.2)
    theirs = last_model(LanesEngine(task, clients, device=CPU), clients, algorithm)
    assert "take turns" not in caplog.text
    monkeypatch.setattr("stayput.engines.lanes.engine.free_bytes", lambda device: 1)
    monkeypatch.setattr("stayput.engines.lanes.engine.lanes_that_fit", lambda free, lane_bytes: 2)
    tight = LanesEngine(task, clients, device=CPU)
    ours = last_model(tight, clients, algorithm)
    assert caplog.text.count("6 clients take turns on 2 lanes") == 1
    assert max(lanes.capacity for lanes in tight._lanes.values()) == 2
    for name, weight in ours["weights"].items():
        assert torch.allclose(weight, theirs["weights"][name], rtol=0, atol=1e-12)


def last_model(engine, clients, settings):
    algorithm = settings.algorithm()
    state = algorithm.init(engine.initial_model(5))
    state, _ = run_round(state, 1, algorithm=algorithm, engine=engine, num_clients=clients.num_clients, seed=5)
    return state
