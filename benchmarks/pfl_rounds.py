"""Rounds of Apple's pfl on the benchmarks' workloads; `peers.py` and `lanes.py` run it with a Python that has it.

Not part of stayput and importing nothing of it: the models are written out here, with random images, as pfl's own
examples would have them: one dataset of tensors for each user, `torch.optim.SGD` at the clients, plain averaging.
W3 is its own CIFAR-10 benchmark, and evaluates on 10,000 images every 10 rounds. Prints the seconds of each round but
the first as JSON; under `torch.distributed.run`, the first process does.
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
from pfl.callback.central_evaluation import CentralEvaluationCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

SIZES_OF_MNIST = (100, 600, 10, (1, 28, 28))
"""Users, images of each, cohort, an image's shape."""


class WithLoss(nn.Sequential):
    """A module with the two functions that pfl asks of one."""

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """The mean over a minibatch."""
        self.train()
        return cross_entropy(self(images), labels)

    @torch.no_grad()
    def metrics(self, images: Tensor, labels: Tensor) -> dict[str, object]:
        """Of a central evaluation."""
        self.eval()
        correct = (self(images).argmax(dim=1) == labels).sum().item()
        return {"accuracy": Weighted(correct, len(labels))}


def model(workload: str) -> WithLoss:
    """The paper's MNIST models."""
    if workload == "W2":
        return WithLoss(
            nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)
        )
    if workload == "W3":
        return WithLoss(
            nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
            nn.Flatten(), nn.Linear(14 * 14 * 64, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
        )  # fmt: skip
    return WithLoss(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10),
    )  # fmt: skip


def made_up(count: int, shape: tuple[int, ...], device: str) -> tuple[Tensor, Tensor]:
    """Random images and labels, on the device."""
    draw = np.random.default_rng(0)
    images = torch.from_numpy(draw.random((count, *shape), dtype=np.float32)).to(device)
    return images, torch.from_numpy(draw.integers(10, size=count)).to(device)


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
    parser.add_argument("workload", choices=("W1", "W2", "W3"))
    parser.add_argument("rounds", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tiny", action="store_true", help="four users of seven images, for a test")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.device != "cpu":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    num_users, each, cohort, shape = (1000, 50, 50, (3, 32, 32)) if arguments.workload == "W3" else SIZES_OF_MNIST
    if arguments.tiny:
        num_users, each, cohort = 4, 7, 2
    images, labels = made_up(num_users * each, shape, arguments.device)
    users = {
        str(user): PyTorchTensorDataset((images[user * each :][:each], labels[user * each :][:each]))
        for user in range(num_users)
    }
    data = FederatedDataset(users.__getitem__, get_user_sampler("random", list(users)))
    module = model(arguments.workload).to(arguments.device)
    clock = Clock()
    callbacks: list[TrainingProcessCallback] = [clock]
    if arguments.workload == "W3":
        test = Dataset(made_up(20 if arguments.tiny else 10_000, shape, arguments.device))
        evaluation = CentralEvaluationCallback(test, NNEvalHyperParams(local_batch_size=1000), frequency=10)
        callbacks.insert(0, evaluation)
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=arguments.rounds + 1,
            evaluation_frequency=10**9,
            train_cohort_size=cohort,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=data, val_data=data),
        model=PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0)),
        model_train_params=NNTrainHyperParams(local_batch_size=10, local_num_epochs=1, local_learning_rate=0.1),
        callbacks=callbacks,
    )
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(np.diff(clock.times).tolist()), flush=True)
    if torch.distributed.is_initialized():  # pfl leaves it to the end of the process, where the first to end aborts
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
