"""FedSGD against what it claims to be: one step of gradient descent on all the data of the cohort."""

from __future__ import annotations

import torch
from torch.func import functional_call

from stayput.algorithms import FedAvg, FedSgd
from stayput.core.round import run_round
from stayput.core.tensors import fingerprint
from stayput.engines import SequentialEngine
from stayput.testing import ToyNet, toy_clients, toy_task


def one_round(settings, clients, dtype):
    engine = SequentialEngine(toy_task(dtype), clients, device=torch.device("cpu"))
    algorithm = settings.algorithm()
    before = algorithm.init(engine.initial_model(1))
    after, report = run_round(before, 1, algorithm=algorithm, engine=engine, num_clients=clients.num_clients, seed=1)
    return before, after, report


def test_with_every_client_it_is_one_full_batch_gradient_step():
    clients = toy_clients((7, 1, 12, 10))
    before, after, report = one_round(FedSgd(client_fraction=1.0, learning_rate=0.5), clients, torch.float64)
    weights = {name: w.clone().requires_grad_() for name, w in before["weights"].items()}
    x, y = torch.from_numpy(clients.examples.inputs).double(), torch.from_numpy(clients.examples.targets)
    loss = torch.nn.functional.cross_entropy(functional_call(ToyNet(torch.float64), weights, (x,)), y)
    gradients = torch.autograd.grad(loss, list(weights.values()))
    for (name, weight), gradient in zip(weights.items(), gradients, strict=True):
        torch.testing.assert_close(after["weights"][name], (weight - 0.5 * gradient).detach(), rtol=1e-12, atol=1e-14)
    assert report.train_loss is not None
    assert abs(report.train_loss - loss.item()) < 1e-12


def test_it_is_fed_avg_with_one_epoch_of_one_batch_to_the_last_bit():
    clients = toy_clients()
    _, ours, _ = one_round(FedSgd(client_fraction=0.5, learning_rate=0.3), clients, torch.float32)
    _, theirs, _ = one_round(FedAvg(0.5, local_epochs=1, batch_size="all", learning_rate=0.3), clients, torch.float32)
    assert fingerprint(ours) == fingerprint(theirs)
