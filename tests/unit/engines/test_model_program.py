"""Convolutions run channels last on a CPU, where the model lets them, and learn the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from stayput.data.federated_data import Examples
from stayput.engines.model_program import ModelProgram, channels_last
from stayput.engines.placed_examples import PlacedExamples
from stayput.tasks.losses import cross_entropy
from stayput.tasks.task import Task

CPU = torch.device("cpu")


class Reshaping(nn.Module):
    """As most models are: `flatten`, pooling, and a normalisation that counts."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 6, 3, padding=1), nn.Conv2d(6, 4, 2)
        self.norm, self.output = nn.BatchNorm2d(6), nn.Linear(4 * 2 * 3, 5)

    def forward(self, x):
        hidden = nn.functional.max_pool2d(self.norm(self.first(x)).relu(), 2)
        return self.output(self.rows(self.second(hidden)))

    def rows(self, hidden):
        return hidden.flatten(start_dim=1)


class Viewing(Reshaping):
    """`view` needs channels first."""

    def rows(self, hidden):
        return hidden.view(len(hidden), -1)


def made(model):
    task = Task(lambda: model().double(), cross_entropy)
    draw = np.random.default_rng(0)
    examples = Examples(draw.standard_normal((7, 1, 7, 9)), draw.integers(5, size=7))
    program = ModelProgram(task, CPU)
    data = PlacedExamples(examples, task, CPU, torch.float64)
    return program, data


def gradient(program, data):
    model = program.initial_model(1)
    program.load(model, training=True)
    loss, gradients = program.loss_and_gradient(model["weights"], *data.batch(slice(0, 7)))
    return {"loss": loss, **gradients, **program.buffers()}


@pytest.mark.parametrize(("model", "filters"), [(Reshaping, {"first.weight", "second.weight"}), (Viewing, set())])
def test_filters_are_laid_out_where_the_model_lets_them_and_nothing_else_changes(model, filters):
    plain, data = made(model)
    expected = gradient(plain, data)
    program, _ = made(model)
    randomness = torch.random.get_rng_state()
    program.lay_out_filters(data)
    assert torch.equal(torch.random.get_rng_state(), randomness)
    assert program._filters == filters
    found = gradient(program, data)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-12, atol=1e-14)
    features = program.module.first(data.batch(slice(0, 2))[0])
    assert features.is_contiguous(memory_format=torch.channels_last) == bool(filters)


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_filters_are_the_same_numbers_in_another_order(channels):
    filters = torch.randn(4, channels, 3, 2)
    laid_out = channels_last(filters)
    assert torch.equal(laid_out, filters)
    assert laid_out.stride() == (6 * channels, 1, 2 * channels, channels)
    assert channels_last(laid_out) is laid_out
