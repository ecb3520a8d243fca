"""Layers and models over lanes against the plain engine, in float64, on clients of odd sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from side_by_side import largest_difference, trained
from torch import nn

from stayput.algorithms import FedAvg
from stayput.data.federated_data import Assignment, Examples, FederatedData
from stayput.engines import LanesEngine, SequentialEngine
from stayput.engines.lanes import exchange
from stayput.engines.lanes.folding import FoldedModel
from stayput.engines.lanes.layers import LaneConv2d
from stayput.engines.lanes.mapping import MappedModel
from stayput.models.char_lstm import CharLstm
from stayput.models.peephole_lstm import PeepholeLstm
from stayput.tasks.losses import cross_entropy
from stayput.tasks.task import Task
from stayput.testing import CLASSES, FEATURES, ToyNet, toy_clients

CPU = torch.device("cpu")
SYMBOLS, STEPS = 11, 6


def clients_with(inputs, targets, sizes=(7, 1, 12)):
    draw = np.random.default_rng(1)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return FederatedData(Examples(inputs, targets), Assignment(draw.permutation(offsets[-1]), offsets))


def images():
    draw = np.random.default_rng(0)
    return clients_with(draw.standard_normal((20, 3, 9, 8)), draw.integers(CLASSES, size=20))


def texts(symbols=SYMBOLS, steps=STEPS):
    draw = np.random.default_rng(0)
    targets = draw.integers(symbols, size=(20, steps))
    targets[draw.random((20, steps)) < 0.3] = -100  # padding
    targets[:, 0] = 1  # something to learn from everywhere
    return clients_with(draw.integers(symbols, size=(20, steps)), targets)


def predictions(targets):
    return (targets != -100).sum(dim=1)


def token_loss(output, targets):
    losses = nn.functional.cross_entropy(output, targets, reduction="none", ignore_index=-100)
    return losses.sum(dim=1) / (targets != -100).sum(dim=1)


def image_model(*layers):
    return lambda: nn.Sequential(*(layer() for layer in layers)).double()


class Reader(nn.Module):
    """Symbols to symbols through two recurrent layers, with dropout between."""

    def __init__(self, hidden=5):
        super().__init__()
        self.table = nn.Embedding(SYMBOLS, 4, padding_idx=2)
        self.first = PeepholeLstm(4, hidden)
        self.drop = nn.Dropout(0.3)
        self.second = PeepholeLstm(hidden, 3)
        self.output = nn.Linear(3, SYMBOLS)
        with torch.no_grad():
            for layer in (self.first, self.second):
                layer.peepholes.normal_()

    def forward(self, symbols):
        return self.output(self.second(self.drop(self.first(self.table(symbols))))).transpose(1, 2)


class Twice(ToyNet):
    """Calls a layer two times."""

    def __init__(self):
        super().__init__(torch.float64)
        self.again = nn.Linear(5, 5, dtype=torch.float64)

    def forward(self, x):
        return self.output(self.again(self.again(self.hidden(x)).relu()).relu())


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(FEATURES, FEATURES, dtype=torch.float64)
        self.again = self.down
        self.output = nn.Linear(FEATURES, CLASSES, dtype=torch.float64)

    def forward(self, x):
        return self.output(self.again(self.down(x).tanh()))


class OwnWeight(ToyNet):
    """Weights outside of layers, a normalisation without state, and dropout."""

    def __init__(self):
        super().__init__(torch.float64)
        self.scale = nn.Parameter(torch.full((5,), 0.5, dtype=torch.float64))
        self.norm = nn.LayerNorm(5, dtype=torch.float64)
        self.drop = nn.Dropout(0.4)

    def forward(self, x):
        return self.output(self.drop(self.norm(self.hidden(x).relu()) * self.scale))


class Loose(ToyNet):
    def __init__(self):
        super().__init__(torch.float64)

    def forward(self, x):
        return super().forward(x) + self.output.bias


CONVOLUTIONS = {
    "same": image_model(lambda: nn.Conv2d(3, 2, (4, 3), padding="same", dilation=(1, 2)), nn.Flatten,
                        lambda: nn.Linear(144, CLASSES)),
    "same twice": image_model(lambda: nn.Conv2d(3, 4, 2, padding="same"), nn.ReLU,
                              lambda: nn.Conv2d(4, 2, 4, padding="same", bias=False), nn.Flatten,
                              lambda: nn.Linear(144, CLASSES)),
    "valid": image_model(lambda: nn.Conv2d(3, 2, 3, padding="valid", stride=2), nn.ReLU,
                         lambda: nn.Conv2d(2, 3, 2), nn.Flatten, lambda: nn.Linear(18, CLASSES)),
    "dropped": image_model(lambda: nn.Conv2d(3, 4, 3), nn.ReLU, lambda: nn.MaxPool2d(2), lambda: nn.Dropout(0.25),
                           lambda: nn.Dropout2d(0.5), nn.Flatten, lambda: nn.Linear(36, CLASSES)),
}  # fmt: skip
FEDAVG = FedAvg(1.0, local_epochs=2, batch_size=5, learning_rate=0.1).algorithm()
EXPERIMENTS = [(FEDAVG, 3), (FedAvg(0.7, batch_size="all", learning_rate=0.3).algorithm(), 5)]


def refuse_unless_alike(task, clients, device, experiments=EXPERIMENTS, rounds=2, tolerance=1e-10):
    engine = LanesEngine(task, clients, device=device)
    together = trained(engine, clients, experiments, rounds)
    for ours, experiment in zip(together, experiments, strict=True):
        (theirs,) = trained(SequentialEngine(task, clients, device=CPU), clients, [experiment], rounds)
        assert largest_difference(ours, theirs) <= tolerance
    return engine._model


@pytest.mark.filterwarnings("ignore:Using padding=.same. with even kernel lengths:UserWarning")  # our own does not copy
@pytest.mark.parametrize("windows", [True, False])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_and_dropout(device, name, windows, monkeypatch):
    if windows:  # as on CUDA
        monkeypatch.setattr(exchange, "LaneConv2dOnCpu", LaneConv2d)
    model = refuse_unless_alike(Task(CONVOLUTIONS[name], cross_entropy), images(), device)
    assert isinstance(model, FoldedModel)


def test_text_with_padding_through_embedding_lstms_and_dropout(device):
    task = Task(lambda: Reader().double(), token_loss, num_predictions=predictions)
    model = refuse_unless_alike(task, texts(), device)
    assert isinstance(model, FoldedModel)
    assert model.descends


@pytest.mark.slow
def test_the_papers_char_lstm(device):
    task = Task(lambda: CharLstm().double(), token_loss, num_predictions=predictions)
    experiment = [(FedAvg(1.0, batch_size=5, learning_rate=0.5).algorithm(), 3)]
    refuse_unless_alike(task, texts(258, 13), device, experiment, rounds=1)
    refuse_unless_alike(replace(task, model=CharLstm), texts(258, 13), device, experiment, 1, tolerance=1e-5)


def test_a_layer_that_is_called_twice_gets_its_whole_gradient(device):
    model = refuse_unless_alike(Task(Twice, cross_entropy), toy_clients(), device)
    assert isinstance(model, FoldedModel)
    assert not model.descends


@pytest.mark.parametrize("module", [Tied, OwnWeight, Loose])
def test_what_does_not_fold_is_mapped(device, module):
    model = refuse_unless_alike(Task(module, cross_entropy), toy_clients(), device)
    assert isinstance(model, MappedModel)


def test_masks_differ_from_step_to_step_client_to_client_and_seed_to_seed(device):
    """Dropping everything but a bias: what is left of each step can be told."""
    clients = toy_clients((6, 6))
    task = Task(lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(FEATURES, CLASSES)).double(), cross_entropy)
    one_step = FedAvg(1.0, batch_size=6, learning_rate=0.1).algorithm()
    engine = LanesEngine(task, clients, device=device)
    first, second = trained(engine, clients, [(one_step, 0), (one_step, 0)], rounds=1)
    assert largest_difference(first, second) == 0
    program = engine._program
    x = torch.ones(4, FEATURES, dtype=torch.float64, device=device)
    outputs = set()
    with torch.no_grad():
        for name in ((0, 1, 0), (1, 1, 0), (0, 2, 0), (0, 1, 1)):
            program.begin_client(*name)
            weights, target = program.initial_model(0)["weights"], torch.zeros(4, dtype=torch.int64, device=device)
            for _ in range(2):
                with torch.enable_grad():
                    outputs.add(float(program.loss_and_gradient(weights, x, target)[0]))
    assert len(outputs) == 8
