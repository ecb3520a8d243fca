"""Tasks as a fleet's file names them, for processes of their own: `fleet_tasks:toy`, and one that takes its time."""

from __future__ import annotations

import dataclasses
import time

import torch
from torch import Tensor, nn

from stayput.tasks.losses import cross_entropy
from stayput.tasks.metrics import accuracy
from stayput.tasks.task import Task, unchanged
from stayput.testing import CLASSES, FEATURES, toy_task


def slowly(inputs):
    """As they are, after a while: what a client on a slow machine takes for a minibatch."""
    time.sleep(0.7)
    return unchanged(inputs)


toy = toy_task()
slow = dataclasses.replace(toy, name="slow", prepare=slowly)


class Wide(nn.Module):
    """As many parameters as the paper's MNIST CNN (1,663,370; 6.65 MB), and quick to compute."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(FEATURES, 1_280)
        self.middle = nn.Linear(1_280, 1_280)
        self.output = nn.Linear(1_280, CLASSES)
        self.rest = nn.Parameter(torch.zeros(1_663_370 - 5 * 1_280 - 1_281 * 1_280 - 1_281 * CLASSES))

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [batch, 3] of inputs [batch, 4]."""
        logits: Tensor = self.output(self.middle(self.hidden(inputs).relu()).relu()) + self.rest.sum()
        return logits


wide = Task(Wide, cross_entropy, (accuracy,), name="wide")
