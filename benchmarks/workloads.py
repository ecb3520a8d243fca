"""The workloads that engines are measured on: what is trained, by how many clients, in which steps.

    W1  MNIST CNN, 100 clients of 600, cohort 10, E=1, B=10
    W2  the same with the 2NN
    W3  CIFAR-10 as Apple's pfl measures itself: 1000 users of 50 images, cohort 50, E=1, B=10, SGD 0.1, evaluation on
        10,000 every 10 rounds
    W4  the character LSTM over 80 characters, 1146 clients of 70 lines, cohort 114, E=1, B=10

Examples are random: what a pixel shows does not change what it costs. `tiny` is each of them at a size for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from stayput.algorithms import FedAvg
from stayput.data.federated_data import Examples, FederatedData
from stayput.data.partitions import Iid
from stayput.tasks.catalogue import named_task
from stayput.tasks.losses import cross_entropy
from stayput.tasks.metrics import accuracy
from stayput.tasks.task import Task, unit_interval

CHARACTERS = 90
"""Different symbols in W4's lines; the rest of the model's 258 are rare."""


class PflCifarNet(nn.Module):
    """The CNN of pfl's CIFAR-10 benchmark: two convolutions without padding, pooling, dropout, 128 units."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
            nn.Flatten(), nn.Linear(14 * 14 * 64, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        """Logits [batch, 10] of images [batch, 3, 32, 32]."""
        logits: Tensor = self.layers(images)
        return logits


@dataclass(frozen=True)
class Workload:
    """What is trained, and how fast that is asked to be on one H200."""

    name: str
    task: Task
    num_clients: int
    examples_each: int
    cohort: int
    rate: float
    make: Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
    """That many inputs and targets."""
    grids: Mapping[str, tuple[int, int]]
    """Numbers of learning rates and of seeds that are trained together, by what to call them."""
    asked: Mapping[str, float]
    """Microseconds per client-step, by grid."""
    test_examples: int = 0
    batch_size: int = 10

    @property
    def client_steps(self) -> int:
        """Of one round of one experiment."""
        return self.cohort * -(-self.examples_each // self.batch_size)

    def clients(self) -> FederatedData:
        """Its population."""
        inputs, targets = self.make(np.random.default_rng(0), self.num_clients * self.examples_each)
        return Examples(inputs, targets).partition(Iid(num_clients=self.num_clients), seed=0)

    def test(self) -> Examples | None:
        """What models are evaluated on."""
        return Examples(*self.make(np.random.default_rng(1), self.test_examples)) if self.test_examples else None

    def algorithm(self, rate: float) -> FedAvg:
        """FedAvg with E=1."""
        fraction = self.cohort / self.num_clients
        return FedAvg(client_fraction=fraction, local_epochs=1, batch_size=self.batch_size, learning_rate=rate)


def digits(draw: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the size of MNIST's."""
    return draw.integers(256, size=(count, 28, 28), dtype=np.uint8), draw.integers(10, size=count, dtype=np.uint8)


def pictures(draw: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the size of CIFAR-10's."""
    return draw.integers(256, size=(count, 3, 32, 32), dtype=np.uint8), draw.integers(10, size=count, dtype=np.uint8)


def lines(draw: np.random.Generator, count: int, length: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Of 80 characters, without padding: all of it costs the same."""
    text = draw.integers(CHARACTERS, size=(count, length + 1), dtype=np.int16)
    return np.ascontiguousarray(text[:, :-1]), np.ascontiguousarray(text[:, 1:])


def short_lines(draw: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Of 5 characters, for tests."""
    return lines(draw, count, 5)


_MNIST = {"num_clients": 100, "examples_each": 600, "cohort": 10, "rate": 0.1, "make": digits}
_CIFAR = Task(PflCifarNet, cross_entropy, (accuracy,), prepare=unit_interval, name="pfl-cifar10")

WORKLOADS = {
    each.name: each
    for each in (
        Workload(
            "W2", named_task("mnist-2nn").task, **_MNIST,
            grids={"one run": (1, 1), "11 rates": (11, 1), "11 rates, 10 seeds": (11, 10)},
            asked={"11 rates": 1.5, "11 rates, 10 seeds": 1.0},
        ),
        Workload(
            "W1", named_task("mnist-cnn").task, **_MNIST,
            grids={"one run": (1, 1), "11 rates": (11, 1)}, asked={"11 rates": 25.0},
        ),
        Workload(
            "W3", _CIFAR, num_clients=1000, examples_each=50, cohort=50, rate=0.1, make=pictures, test_examples=10_000,
            grids={"one run": (1, 1), "11 rates": (11, 1)}, asked={"one run": 25.0},
        ),
        Workload(
            "W4", named_task("shakespeare-lstm").task, num_clients=1146, examples_each=70, cohort=114, rate=0.5,
            make=lines, grids={"one run": (1, 1)}, asked={"one run": 150.0},
        ),
    )
}  # fmt: skip
GRID_AT_MOST = 3.0
"""Times a single run of W1 that its grid of 11 rates may take."""
WHOLE_ROUNDS, EVALUATE_EVERY = 1500, 10
"""Of pfl's benchmark."""
WHOLE_ASKED = {"pfl": 60.0, "pfl, 5 processes": 15.0}
"""How many times faster than pfl on the same GPU the whole benchmark is asked to be."""


def tiny(workload: Workload) -> Workload:
    """The same at a size for tests: a few clients of a few examples."""
    from dataclasses import replace

    make = short_lines if workload.make is lines else workload.make
    grids = {name: (min(rates, 2), 1) for name, (rates, _) in workload.grids.items()}
    smaller = {"num_clients": 4, "examples_each": 7, "cohort": 2, "batch_size": 3, "make": make, "grids": grids}
    return replace(workload, **smaller, test_examples=min(workload.test_examples, 20))
