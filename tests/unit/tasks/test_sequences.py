from __future__ import annotations

import pytest
import torch

from stayput.tasks.sequences import PaddedSequences
from stayput.tasks.task import Task

PADDED = PaddedSequences((9, 8))


def test_what_asks_for_nothing_counts_nothing():
    torch.manual_seed(0)
    output = torch.randn(2, 10, 4, dtype=torch.float64)
    targets = torch.tensor([[1, 2, 9, 9], [3, 8, 4, 5]])
    by_hand = [
        [-torch.log_softmax(output[row, :, time], dim=0)[targets[row, time]].item() for time in times]
        for row, times in enumerate([[0, 1], [0, 2, 3]])
    ]
    losses = PADDED.cross_entropy(output, targets)
    assert losses.tolist() == pytest.approx([sum(by_hand[0]) / 2, sum(by_hand[1]) / 3])
    assert PADDED.num_predictions(targets).tolist() == [2, 3]
    task = Task(torch.nn.Identity, PADDED.cross_entropy, num_predictions=PADDED.num_predictions)
    assert task.mean_loss(output, targets).item() == pytest.approx((sum(by_hand[0]) + sum(by_hand[1])) / 5)


def test_accuracy_is_the_share_of_what_is_asked():
    targets = torch.tensor([[1, 2, 9], [3, 8, 4], [9, 9, 9]])
    said = torch.tensor([[1, 0, 9], [3, 8, 4], [9, 9, 9]])
    output = torch.nn.functional.one_hot(said, 10).transpose(1, 2).float()
    assert PADDED.correct(output, targets).tolist() == [0.5, 1.0, 0.0]
