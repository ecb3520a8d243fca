"""A toy task and toy clients, small enough to check by hand and to train in milliseconds. For users' tests too.

task, clients, test = toy_task(), toy_clients(sizes=(7, 1, 12)), toy_examples(40, seed=1)
run = stayput.train(task, clients, stayput.FedAvg(client_fraction=1.0), rounds=3, test=test)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from stayput.core.seeds import Purpose, generator
from stayput.data.federated_data import Assignment, Examples, FederatedData
from stayput.tasks.losses import cross_entropy
from stayput.tasks.metrics import accuracy
from stayput.tasks.task import Task

FEATURES, CLASSES = 4, 3


class ToyNet(nn.Module):
    """4 -> 5 -> 3 with a ReLU: 43 parameters."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.hidden = nn.Linear(FEATURES, 5, dtype=dtype)
        self.output = nn.Linear(5, CLASSES, dtype=dtype)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [batch, 3] of inputs [batch, 4]."""
        logits: Tensor = self.output(self.hidden(inputs).relu())
        return logits


def toy_task(dtype: torch.dtype = torch.float32) -> Task:
    """Tell three clouds of points apart."""
    return Task(partial(ToyNet, dtype), cross_entropy, (accuracy,), name="toy")


def toy_examples(num_examples: int = 30, *, seed: int = 0) -> Examples:
    """Points around three centres, labelled with the centre; half of a second key each."""
    draw = generator(seed, Purpose.TOY_DATA)
    targets = draw.integers(CLASSES, size=num_examples)
    centres = np.eye(CLASSES, FEATURES) * 3
    inputs = (centres[targets] + draw.standard_normal((num_examples, FEATURES))).astype(np.float32)
    return Examples(inputs, targets, keys={"half": np.where(np.arange(num_examples) % 2 == 0, "even", "odd")})


def toy_clients(sizes: Sequence[int] = (7, 1, 12, 10), *, seed: int = 0) -> FederatedData:
    """Clients of uneven sizes, one of them with a single example."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    examples = toy_examples(int(offsets[-1]), seed=seed)
    order = generator(seed, Purpose.PARTITION).permutation(len(examples)).astype(np.int64)
    return FederatedData(examples, Assignment(order, offsets))
