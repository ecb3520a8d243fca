"""The promises of every engine for tasks that augment what they train on, and whose examples count unequally."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from stayput.algorithms import CentralSgd, FedAvg
from stayput.core.cohort import choose_cohort
from stayput.core.local_work import passes
from stayput.core.round import begin_round, end_round
from stayput.core.seeds import Purpose, torch_stream
from stayput.core.tensor_streams import ExampleStreams, tensor_key
from stayput.engines import ENGINES
from stayput.testing import ToyNet, toy_clients, toy_examples, toy_task

SEEDS = (4, 11)


def shaken(inputs, draws):
    return inputs + draws(inputs.shape[1]).to(inputs.dtype) - 0.5 * draws(1).to(inputs.dtype)


def label_plus_one(targets):
    return targets + 1


TASK = replace(toy_task(torch.float64), augment=shaken, num_predictions=label_plus_one)


@pytest.fixture(params=ENGINES)
def engine_class(request):
    return ENGINES[request.param]


@pytest.fixture(params=["FedAvg", "one pass", "central"])
def algorithm(request):
    return {
        "FedAvg": FedAvg(client_fraction=0.75, local_epochs=2, batch_size=5, learning_rate=0.2),
        "one pass": FedAvg(client_fraction=1.0, local_epochs=1, batch_size="all", learning_rate=0.2),
        "central": CentralSgd(batch_size=7, learning_rate=0.2, updates_per_round=3),
    }[request.param].algorithm()


def plain_round(module, algorithm, clients, seed, t):
    """One round with nothing of the engines': augmentation and weights written out."""
    x, y = torch.from_numpy(clients.examples.inputs), torch.from_numpy(clients.examples.targets)
    start = [p.detach().clone() for p in module.parameters()]
    plan = algorithm.plan(t)
    cohort = choose_cohort(clients.num_clients, algorithm.client_fraction, seed=seed, round_number=t).tolist()
    m_t = sum(len(clients.rows(k)) for k in cohort)
    mean = [torch.zeros_like(p) for p in start]
    for k in cohort:
        for p, w in zip(module.parameters(), start, strict=True):
            p.data = w.clone()
        rows, step = clients.rows(k), 0
        length = plan.batch_length(len(rows))
        for order in passes(plan, len(rows), seed=seed, round_number=t, client=k):
            for first in range(0, len(order), length):
                batch = torch.from_numpy(rows[order[first : first + length]])
                draws = ExampleStreams(tensor_key(seed, Purpose.AUGMENTATION), (batch, step, t))
                output = module(shaken(x[batch], draws).double())
                losses = torch.nn.functional.cross_entropy(output, y[batch], reduction="none")
                weight = y[batch].double() + 1
                gradients = torch.autograd.grad((losses * weight).sum() / weight.sum(), list(module.parameters()))
                for p, g in zip(module.parameters(), gradients, strict=True):
                    p.data -= plan.learning_rate * g
                step += 1
        for total, p in zip(mean, module.parameters(), strict=True):
            total.add_(p.detach() * len(rows) / m_t)
    for p, w in zip(module.parameters(), mean, strict=True):
        p.data = w


def test_two_rounds_of_two_experiments_are_those_of_a_plain_loop(engine_class, algorithm, device):
    clients = toy_clients((7, 1, 12, 10))
    clients = clients.pooled() if algorithm.pools_clients else clients
    engine = engine_class(TASK, clients, device=device)
    states = [algorithm.init(engine.initial_model(seed)) for seed in SEEDS]
    modules = []
    for seed in SEEDS:
        with torch_stream(seed, Purpose.INITIAL_WEIGHTS):
            modules.append(ToyNet(torch.float64))
    for t in (1, 2):
        works = [
            begin_round(state, t, algorithm=algorithm, num_clients=clients.num_clients, seed=seed)
            for state, seed in zip(states, SEEDS, strict=True)
        ]
        results = engine.run(works)  # both experiments at once, where an engine can
        for number, (work, result) in enumerate(zip(works, results, strict=True)):
            states[number], _ = end_round(states[number], work, result, algorithm=algorithm)
            plain_round(modules[number], algorithm, clients, SEEDS[number], t)
    for state, module in zip(states, modules, strict=True):
        for name, expected in module.named_parameters():
            torch.testing.assert_close(state["weights"][name].cpu(), expected.detach(), rtol=1e-10, atol=1e-12)


def test_an_evaluation_weighs_examples_and_does_not_augment(engine_class, device):
    test = toy_examples(1203, seed=1)
    engine = engine_class(TASK, toy_clients(), test=test, device=device)
    model = engine.initial_model(0)
    output = engine.module_with(model).cpu()(torch.from_numpy(test.inputs).double())
    losses = torch.nn.functional.cross_entropy(output, torch.from_numpy(test.targets), reduction="none").detach()
    weight = test.targets + 1
    evaluation = engine.evaluate(model)
    assert evaluation["loss"] == pytest.approx(np.average(losses.numpy(), weights=weight), rel=1e-10)
    assert evaluation["accuracy"] == pytest.approx(
        np.average(output.argmax(1).numpy() == test.targets, weights=weight), rel=1e-12
    )
