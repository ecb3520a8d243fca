"""Lanes on worker processes: what lanes promise, whoever trains which client."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from stayput.algorithms import FedAvg, Scaffold
from stayput.core.engine import RoundWork
from stayput.core.round import begin_round, end_round
from stayput.core.tensors import fingerprint
from stayput.engines import LaneWorkersEngine, SequentialEngine
from stayput.errors import ModelMisfit
from stayput.tasks.losses import cross_entropy
from stayput.tasks.task import Task
from stayput.testing import FEATURES, toy_clients, toy_task

CPU = torch.device("cpu")
SIZES = (7, 1, 12, 10, 3, 25, 4, 4, 31, 9, 2)


def trained(engine, settings, clients, rounds=3):
    algorithm, memory = settings.algorithm(), {}
    state = algorithm.init(engine.initial_model(2))
    for t in range(1, rounds + 1):
        work = begin_round(
            state, t, algorithm=algorithm, num_clients=clients.num_clients, seed=2, memory=dict(memory)
        )  # fmt: skip
        (result,) = engine.run([work])
        memory.update(result.memory)
        state, _ = end_round(state, work, result, algorithm=algorithm, num_examples=clients.num_examples)
    return state


@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize("settings", [FedAvg(0.8, batch_size=4), Scaffold(0.8, batch_size=4)])
def test_rounds_are_those_of_the_plain_engine(num_workers, settings):
    clients, task = toy_clients(SIZES), toy_task(torch.float64)
    theirs = trained(SequentialEngine(task, clients, device=CPU), settings, clients)
    with LaneWorkersEngine(task, clients, device=CPU, num_workers=num_workers) as engine:
        ours = trained(engine, settings, clients)
    for name, expected in theirs["weights"].items():
        assert float((ours["weights"][name] - expected).abs().max() / expected.abs().max()) <= 1e-10


def test_the_same_run_twice_has_the_same_bits():
    clients = toy_clients(SIZES)
    states = []
    for _ in range(2):
        with LaneWorkersEngine(toy_task(), clients, device=CPU, num_workers=2) as engine:
            states.append(trained(engine, FedAvg(1.0, batch_size=4), clients))
    assert fingerprint(states[0]) == fingerprint(states[1])


@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize("num_clients", [1, 2, 5, 16, 17, 40])
def test_every_client_is_dealt_once_and_workers_get_about_the_same(num_workers, num_clients):
    sizes = np.random.default_rng(0).integers(1, 60, size=num_clients)
    clients = toy_clients(sizes.tolist())
    engine = LaneWorkersEngine(toy_task(), clients, device=CPU, num_workers=num_workers)
    algorithm = FedAvg(1.0, batch_size=4).algorithm()
    sent = algorithm.broadcast(algorithm.init(engine.initial_model(0)))
    work = RoundWork(1, 0, np.arange(num_clients), algorithm.plan(1), sent, algorithm.client)
    longest_first = sorted(range(num_clients), key=lambda client: -sizes[client])
    shares = engine._shares(longest_first, work)
    assert sorted(client for share in shares for client in share) == list(range(num_clients))
    assert max(map(len, shares)) <= engine.clients_at_once
    if num_clients <= num_workers * engine.clients_at_once:
        assert len(shares) == min(num_workers, num_clients)
        load = [sum(int(sizes[client]) for client in share) for share in shares]
        assert max(load) - min(load) <= max(sizes)


def test_a_model_that_lanes_cannot_run_is_refused_by_name():
    task = Task(lambda: nn.Sequential(nn.Linear(FEATURES, 3), nn.BatchNorm1d(3)), cross_entropy)
    with pytest.raises(ModelMisfit, match=r"layer '1', BatchNorm1d.*use engine='sequential'"):
        LaneWorkersEngine(task, toy_clients(), device=CPU)
