"""Steps replayed from a recording: the bits of the step as it is written, or no replay."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from stayput.algorithms import FedAvg, FedProx, Scaffold
from stayput.core.round import begin_round
from stayput.core.tensors import fingerprint
from stayput.engines import LanesEngine
from stayput.engines.lanes import stepping
from stayput.engines.lanes.replaying import Recorder, replay
from stayput.tasks.losses import cross_entropy
from stayput.tasks.task import Task
from stayput.testing import CLASSES, FEATURES, toy_clients, toy_task

CPU = torch.device("cpu")
LOCAL = {"client_fraction": 1.0, "local_epochs": 4, "batch_size": 4, "learning_rate": 0.2}


def results(task, settings, monkeypatch, *, recorded=True):
    """Two rounds, and the lanes that ran them."""
    clients = toy_clients((7, 1, 12, 10, 3, 25))
    with monkeypatch.context() as patch:
        if not recorded:
            patch.setattr(stepping.Lanes, "_take_step_on_cpu", stepping.Lanes._take_step)
        engine = LanesEngine(task, clients, device=CPU)
        algorithm = settings.algorithm()
        state = algorithm.init(engine.initial_model(3))
        works = [begin_round(state, t, algorithm=algorithm, num_clients=6, seed=3) for t in (1, 2)]
        found = [engine.run([work])[0] for work in works]
    return found, next(iter(engine._lanes.values()))


class Dropping(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(FEATURES, 9), nn.ReLU(), nn.Dropout(0.4), nn.Linear(9, CLASSES))


class Convolving(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.output = nn.Conv2d(1, 3, 2), nn.Linear(3, CLASSES)

    def forward(self, x):
        return self.output(nn.functional.max_pool2d(self.conv(x.view(-1, 1, 1, FEATURES).expand(-1, 1, 3, FEATURES))
                                                    .relu(), 2).amax(dim=(2, 3)))  # fmt: skip


@pytest.mark.parametrize("settings", [FedAvg(**LOCAL), FedProx(**LOCAL), Scaffold(**LOCAL)])
@pytest.mark.parametrize("task", [toy_task(), Task(Convolving, cross_entropy)])
def test_a_replayed_step_has_the_bits_of_the_step(task, settings, monkeypatch):
    ours, lanes = results(task, settings, monkeypatch)
    assert len(lanes._recordings) > 1
    theirs, plain = results(task, settings, monkeypatch, recorded=False)
    assert not plain._recordings
    for mine, their in zip(ours, theirs, strict=True):
        assert fingerprint(mine.mean) == fingerprint(their.mean)
        assert mine.train_losses == their.train_losses


def test_masks_are_drawn_anew_in_every_step(monkeypatch):
    ours, lanes = results(Task(Dropping, cross_entropy), FedAvg(**LOCAL), monkeypatch)
    assert not lanes._recordings
    theirs, _ = results(Task(Dropping, cross_entropy), FedAvg(**LOCAL), monkeypatch, recorded=False)
    assert [fingerprint(mine.mean) for mine in ours] == [fingerprint(their.mean) for their in theirs]


def through_an_array(output, targets):
    """A loss that leaves torch: its scale is made of the targets of the step, by NumPy."""
    scale = torch.from_numpy(np.asarray(targets.numpy() % 2, dtype=np.float32)) + 1
    return scale * nn.functional.cross_entropy(output, targets, reduction="none")


def by_a_number(output, targets):
    """A loss that takes a number out of a tensor."""
    return (1 + targets.sum().item() % 2) * nn.functional.cross_entropy(output, targets, reduction="none")


@pytest.mark.parametrize("loss", [through_an_array, by_a_number])
def test_a_step_that_leaves_torch_is_not_replayed(loss, monkeypatch):
    task = Task(toy_task().model, loss)
    ours, lanes = results(task, FedAvg(**LOCAL), monkeypatch)
    assert not lanes._recordings
    theirs, _ = results(task, FedAvg(**LOCAL), monkeypatch, recorded=False)
    assert [fingerprint(mine.mean) for mine in ours] == [fingerprint(their.mean) for their in theirs]


def test_a_recording_reads_and_writes_where_the_step_did():
    x, total = torch.ones(3, 4), torch.zeros(4)

    def step():
        fresh = torch.zeros(4)
        fresh += (x.T[:, 1:] * torch.arange(2.0)).sum(dim=1)
        lowest, where = (fresh + x[0]).reshape(2, 2).min(dim=0)
        total[:2] += lowest + where
        return torch.cat([fresh, lowest]).split(3)

    with Recorder() as recorder:
        step()
    calls = recorder.calls()
    expected = total.clone()
    for number in (2.0, -5.0, 0.5):
        x.copy_(torch.arange(12.0).view(3, 4) * number)
        before = total.clone()
        step()
        expected.copy_(total)
        total.copy_(before)
        replay(calls)
        assert torch.equal(total, expected)
