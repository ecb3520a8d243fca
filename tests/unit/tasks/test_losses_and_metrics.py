from __future__ import annotations

import math

import pytest
import torch

from stayput.tasks.losses import cross_entropy, mean_squared_error
from stayput.tasks.metrics import accuracy


def test_cross_entropy_by_hand():
    logits = torch.tensor([[0.0, 0.0], [math.log(3.0), 0.0]])
    losses = cross_entropy(logits, torch.tensor([1, 0]))
    assert losses.tolist() == pytest.approx([math.log(2), -math.log(0.75)])


def test_an_example_with_many_positions_counts_as_their_mean():
    logits, labels = torch.randn(4, 3, 5), torch.randint(3, (4, 5))
    by_hand = torch.stack([torch.nn.functional.cross_entropy(logits[i].T, labels[i]) for i in range(4)])
    torch.testing.assert_close(cross_entropy(logits, labels), by_hand)
    right = (logits.argmax(1) == labels).float().mean(1)
    torch.testing.assert_close(accuracy.per_example(logits, labels), right)


def test_mean_squared_error_is_per_example():
    errors = mean_squared_error(torch.tensor([[1.0, 3.0], [0.0, 0.0]]), torch.tensor([[0.0, 1.0], [0.0, 2.0]]))
    assert errors.tolist() == [2.5, 2.0]


def test_accuracy_is_right_or_wrong():
    logits = torch.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    assert accuracy.per_example(logits, torch.tensor([1, 1, 1])).tolist() == [1.0, 0.0, 1.0]
