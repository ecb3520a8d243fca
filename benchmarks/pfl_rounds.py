"""Rounds of Apple's pfl on the benchmarks' workloads. Run by `peers.py` with an interpreter that has pfl and torch.

Not part of stayput and importing nothing of it: the models are written out here, with random images, as pfl's own
examples would have them: one dataset of tensors for each user, `torch.optim.SGD` at the clients, plain averaging.
Prints the seconds of each round but the first as JSON; under `torch.distributed.run`, the first process does.
"""

from __future__ import annotations

import argparse
import json
import os
import time

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


class WithLoss(nn.Sequential):
    """A module with the two functions that pfl asks of one."""

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """The mean over a minibatch."""
        self.train()
        return cross_entropy(self(images), labels)

    @torch.no_grad()
    def metrics(self, images: Tensor, labels: Tensor) -> dict[str, object]:  # noqa: ARG002 - as pfl calls it
        """None are looked at."""
        return {}


def model(workload: str) -> WithLoss:
    """The paper's MNIST models."""
    if workload == "W2":
        return WithLoss(
            nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)
        )
    return WithLoss(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10),
    )  # fmt: skip


class Clock(TrainingProcessCallback):
    """The time after every round."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):  # noqa: ANN001, ANN201, ARG002 - pfl's own signature
        """Note it."""
        self.times.append(time.perf_counter())
        return False, Metrics()


def main() -> None:
    """Train, and print the seconds of each round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=("W1", "W2"))
    parser.add_argument("rounds", type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    draw = np.random.default_rng(0)
    images = torch.from_numpy(draw.random((60_000, 1, 28, 28), dtype=np.float32))
    labels = torch.from_numpy(draw.integers(10, size=60_000))
    users = {
        str(user): PyTorchTensorDataset((images[user * 600 : user * 600 + 600], labels[user * 600 : user * 600 + 600]))
        for user in range(100)
    }
    data = FederatedDataset(users.__getitem__, get_user_sampler("random", list(users)))
    module = model(arguments.workload)
    clock = Clock()
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=arguments.rounds + 1,
            evaluation_frequency=10**9,
            train_cohort_size=10,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=data, val_data=data),
        model=PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0)),
        model_train_params=NNTrainHyperParams(local_batch_size=10, local_num_epochs=1, local_learning_rate=0.1),
        callbacks=[clock],
    )
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(np.diff(clock.times).tolist()), flush=True)
    if torch.distributed.is_initialized():  # pfl leaves it to the end of the process, where the first to end aborts
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
