"""What the plain engine takes beyond the contract: any model that torch can run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import stayput as sp
from stayput.core.engine import RoundWork
from stayput.core.tensors import fingerprint
from stayput.engines import SequentialEngine
from stayput.engines.model_program import minibatches
from stayput.engines.placed_examples import PlacedExamples
from stayput.errors import ModelMisfit
from stayput.testing import CLASSES, FEATURES, toy_clients, toy_examples, toy_task


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(FEATURES)
        self.output = nn.Linear(FEATURES, CLASSES)

    def forward(self, x):
        return self.output(self.norm(x))


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(FEATURES, 30), nn.Dropout(0.5), nn.Linear(30, CLASSES))

    def forward(self, x):
        return self.net(x)


class SharedGradient(nn.Module):
    """Two biases that are added get one gradient tensor; a third weight is never used, a fourth is frozen."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)
        self.extra = nn.Parameter(torch.zeros(CLASSES))
        self.unused = nn.Parameter(torch.ones(2))
        self.frozen = nn.Parameter(torch.ones(CLASSES), requires_grad=False)

    def forward(self, x):
        return x @ self.linear.weight.T + (self.linear.bias + self.extra) * self.frozen


def task_of(model):
    return sp.Task(model, sp.losses.cross_entropy, [sp.metrics.accuracy])


def train(model, clients=None, rounds=3, **settings):
    settings = {"client_fraction": 1.0, "local_epochs": 2, "batch_size": 4, "learning_rate": 0.1, **settings}
    clients = toy_clients((8, 4, 12)) if clients is None else clients
    return sp.train(task_of(model), clients, sp.FedAvg(**settings), rounds=rounds, test=toy_examples(50, seed=1))


def test_running_statistics_travel_and_are_averaged():
    run = train(Normalised, rounds=1)
    norm = run.model.norm
    # Each client sees its own batches: ceil(n_k/4) per epoch, twice; the counter's mean is weighted with n_k.
    expected = (8 * 4 + 4 * 2 + 12 * 6) / 24
    assert norm.num_batches_tracked.dtype == torch.int64
    assert norm.num_batches_tracked.item() == round(expected)
    assert norm.running_mean.abs().sum() > 0
    assert run.history.reports[-1].evaluation["accuracy"] > run.history.reports[0].evaluation["accuracy"]


def test_one_clients_statistics_do_not_reach_the_next():
    clients = toy_clients((8, 12, 4))
    engine = SequentialEngine(task_of(Normalised), clients, device=torch.device("cpu"))
    algorithm = sp.FedAvg(client_fraction=1.0, batch_size=4).algorithm()
    sent = algorithm.broadcast(algorithm.init(engine.initial_model(0)))

    def work(cohort):
        return RoundWork(1, 0, np.array(cohort), algorithm.plan(1), sent, algorithm.client)

    together = {u.client: fingerprint(u.update) for u in engine.train(work([0, 1, 2]))}
    assert [fingerprint(u.update) for u in engine.train(work([2]))] == [together[2]]
    assert int(sent["buffers"]["norm.num_batches_tracked"]) == 0


def test_dropout_repeats_with_the_seed_whatever_the_caller_draws():
    torch.manual_seed(1)
    first = train(Dropping)
    torch.manual_seed(2)
    torch.rand(10)
    assert train(Dropping).model_sha256 == first.model_sha256


def test_gradients_that_share_memory_unused_and_frozen_weights():
    run = train(SharedGradient, rounds=1, local_epochs=1)
    model = run.model
    # linear.bias and extra have the same gradient at every step: they must have moved by the same amount.
    engine = SequentialEngine(task_of(SharedGradient), toy_clients((8, 4, 12)), device=torch.device("cpu"))
    start = engine.initial_model(0)["weights"]
    moved = (model.linear.bias - start["linear.bias"]).detach()
    torch.testing.assert_close(moved, (model.extra - start["extra"]).detach(), rtol=1e-5, atol=1e-7)
    assert moved.abs().sum() > 0
    assert model.unused.tolist() == [1.0, 1.0]
    assert model.frozen.tolist() == [1.0] * CLASSES


def test_data_is_not_copied():
    clients = toy_clients()
    placed = PlacedExamples(clients.examples, toy_task(), torch.device("cpu"), torch.float32)
    assert placed._inputs.data_ptr() == clients.examples.inputs.ctypes.data
    read_only = toy_examples(12)
    read_only.inputs.flags.writeable = False
    placed = PlacedExamples(read_only, toy_task(), torch.device("cpu"), torch.float32)
    assert placed._inputs.data_ptr() == read_only.inputs.ctypes.data


@pytest.mark.parametrize(("num_rows", "length", "window"), [(23, 5, 10), (23, 5, 3), (4, 4, 100), (23, 1, 7)])
def test_minibatches_are_the_same_whatever_the_window(num_rows, length, window):
    data = PlacedExamples(toy_examples(40), toy_task(), torch.device("cpu"), torch.float32)
    rows, order = np.arange(40)[::-1][:num_rows].copy(), np.random.default_rng(0).permutation(num_rows)
    made = list(minibatches(data, rows, order, length, window_rows=window))
    expected = [data.batch(torch.from_numpy(rows[order[i : i + length]])) for i in range(0, num_rows, length)]
    assert len(made) == len(expected)
    for (x, y), (expected_x, expected_y) in zip(made, expected, strict=True):
        assert torch.equal(x, expected_x)
        assert torch.equal(y, expected_y)


def test_inputs_take_the_models_dtype_and_labels_that_of_the_loss():
    examples = sp.data.Examples(np.zeros((3, FEATURES)), np.array([0, 1, 2], dtype=np.uint8))
    x, y = PlacedExamples(examples, toy_task(), torch.device("cpu"), torch.float32).batch(slice(None))
    assert x.dtype == torch.float32
    assert y.dtype == torch.int64


def test_a_model_that_fails_on_a_minibatch_says_where():
    with pytest.raises(
        ModelMisfit,
        match=r"round 1, client \d: the model fails on a minibatch of 1 \(shape \(1, 4\)\): ValueError: Expected more "
        r"than 1 value per channel",
    ):
        train(Normalised, clients=toy_clients((9, 5, 13)))
