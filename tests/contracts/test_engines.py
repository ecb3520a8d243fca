"""The promises of every engine, for every algorithm: they are one federated averaging, computed in different ways."""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import pytest
import torch
from stacked_engine import StackedEngine

from stayput.algorithms import CentralSgd, FedAvg, FedSgd, OneShotAveraging
from stayput.core.engine import RoundWork
from stayput.core.local_work import passes
from stayput.core.round import run_round
from stayput.core.tensors import fingerprint
from stayput.engines import ENGINES
from stayput.testing import ToyNet, toy_clients, toy_examples, toy_task

EVERY_ENGINE = {**ENGINES, "stacked": StackedEngine}
if os.environ.get("STAYPUT_TEST_DEVICE", "cpu") != "cpu":
    del EVERY_ENGINE["stacked"], EVERY_ENGINE["workers"], EVERY_ENGINE["lane_workers"]  # these are for the CPU
SETTINGS = {
    "E=1, B=3": FedAvg(client_fraction=0.5, local_epochs=1, batch_size=3, learning_rate=0.2),
    "E=2, B=5, decay": FedAvg(1.0, local_epochs=2, batch_size=5, learning_rate=0.3, learning_rate_decay=0.7),
    "B=all": FedAvg(client_fraction=0.75, local_epochs=3, batch_size="all", learning_rate=0.2),
    "schedules": FedAvg(1.0, local_epochs={1: 3, 2: 1}, batch_size={1: 2, 3: "all"}, learning_rate=0.1),
    "one client": FedAvg(client_fraction=0.0, local_epochs=2, batch_size=4, learning_rate=0.1),
    "FedSGD": FedSgd(client_fraction=0.5, learning_rate=0.5),
    "one-shot": OneShotAveraging(local_epochs=4, batch_size=3, learning_rate=0.1),
    "central": CentralSgd(batch_size=7, learning_rate=0.2, updates_per_round=3),
}
SEED = 4


@pytest.fixture(params=EVERY_ENGINE)
def engine_class(request):
    return EVERY_ENGINE[request.param]


@pytest.fixture(params=SETTINGS)
def algorithm(request):
    return SETTINGS[request.param].algorithm()


def plain_rounds(algorithm, clients, rounds, dtype):
    """FedAvg written out with nothing of stayput's but its random choices: the reference for all engines."""
    from stayput.core.cohort import choose_cohort
    from stayput.core.seeds import Purpose, torch_stream

    with torch_stream(SEED, Purpose.INITIAL_WEIGHTS):
        model = ToyNet(dtype)
    x = torch.from_numpy(clients.examples.inputs).to(dtype)
    y = torch.from_numpy(clients.examples.targets)
    for t in range(1, rounds + 1):
        start = [p.detach().clone() for p in model.parameters()]
        plan = algorithm.plan(t)
        cohort = choose_cohort(clients.num_clients, algorithm.client_fraction, seed=SEED, round_number=t)
        m_t = sum(len(clients.rows(k)) for k in cohort)
        mean = [torch.zeros_like(p, dtype=torch.float64) for p in start]
        for k in cohort.tolist():
            rows = clients.rows(k)
            with torch.no_grad():
                for p, w in zip(model.parameters(), start, strict=True):
                    p.copy_(w)
            sgd = torch.optim.SGD(model.parameters(), lr=plan.learning_rate)
            length = plan.batch_length(len(rows))
            for order in passes(plan, len(rows), seed=SEED, round_number=t, client=k):
                for first in range(0, len(order), length):
                    batch = torch.from_numpy(rows[order[first : first + length]])
                    sgd.zero_grad()
                    torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
                    sgd.step()
            for total, p in zip(mean, model.parameters(), strict=True):
                total.add_(p.detach().double() * len(rows) / m_t)
        with torch.no_grad():
            for p, w in zip(model.parameters(), mean, strict=True):
                p.copy_(w)
    return {name: p.detach() for name, p in model.named_parameters()}


def trained(engine, algorithm, clients, rounds):
    state = algorithm.init(engine.initial_model(SEED))
    reports = []
    for t in range(1, rounds + 1):
        state, report = run_round(
            state, t, algorithm=algorithm, engine=engine, num_clients=clients.num_clients, seed=SEED
        )
        reports.append(report)
    return state, reports


def work_for(engine, algorithm, cohort, round_number=1):
    sent = algorithm.broadcast(algorithm.init(engine.initial_model(SEED)))
    return RoundWork(
        round_number, SEED, np.array(cohort, dtype=np.int64), algorithm.plan(round_number), sent, algorithm.client
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_three_rounds_are_those_of_a_plain_loop(engine_class, algorithm, device, dtype, tolerance):
    clients = toy_clients((7, 1, 12, 10))
    clients = clients.pooled() if algorithm.pools_clients else clients
    rounds = algorithm.only_rounds or 3
    engine = engine_class(toy_task(dtype), clients, device=device)
    state, _ = trained(engine, algorithm, clients, rounds)
    for name, expected in plain_rounds(algorithm, clients, rounds, dtype).items():
        ours = state["weights"][name].cpu()
        assert ours.dtype == dtype
        assert float((ours - expected).abs().max() / expected.abs().max()) <= tolerance, name


def test_a_run_repeats_bit_for_bit(engine_class, algorithm, device):
    clients = toy_clients()
    clients = clients.pooled() if algorithm.pools_clients else clients
    states = [trained(engine_class(toy_task(), clients, device=device), algorithm, clients, 1)[0] for _ in range(2)]
    assert fingerprint(states[0]) == fingerprint(states[1])


def test_each_client_answers_once_and_says_what_it_did(engine_class, device):
    clients = toy_clients((7, 1, 12, 10))
    engine = engine_class(toy_task(), clients, device=device)
    algorithm = FedAvg(local_epochs=2, batch_size=5).algorithm()
    updates = {update.client: update for update in engine.train(work_for(engine, algorithm, [0, 1, 3]))}
    assert sorted(updates) == [0, 1, 3]
    assert {k: u.num_examples for k, u in updates.items()} == {0: 7, 1: 1, 3: 10}
    assert {k: u.num_steps for k, u in updates.items()} == {0: 4, 1: 2, 3: 4}
    assert all(np.isfinite(update.train_loss) for update in updates.values())


def test_what_a_client_learns_does_not_depend_on_who_else_trains(engine_class, device):
    clients = toy_clients((7, 1, 12, 10))
    engine = engine_class(toy_task(torch.float64), clients, device=device)
    algorithm = FedAvg(local_epochs=2, batch_size=5).algorithm()
    together = {u.client: u for u in engine.train(work_for(engine, algorithm, [0, 1, 2, 3]))}
    for client in (3, 0, 2, 1):
        (alone,) = engine.train(work_for(engine, algorithm, [client]))
        for name, tensor in alone.update["weights"].items():
            torch.testing.assert_close(tensor, together[client].update["weights"][name], rtol=1e-10, atol=1e-14)


def test_training_changes_neither_what_was_sent_nor_the_callers_randomness(engine_class, algorithm, device):
    clients = toy_clients()
    clients = clients.pooled() if algorithm.pools_clients else clients
    engine = engine_class(toy_task(), clients, device=device)
    work = work_for(engine, algorithm, [0])
    before, randomness = fingerprint(work.sent), torch.random.get_rng_state()
    assert list(engine.train(work))
    assert fingerprint(work.sent) == before
    assert torch.equal(torch.random.get_rng_state(), randomness)


def test_the_initial_model_follows_from_the_seed(engine_class, device):
    torch.manual_seed(1)
    first = engine_class(toy_task(), toy_clients(), device=device)
    torch.manual_seed(2)
    second = engine_class(toy_task(), toy_clients(), device=device)
    assert fingerprint(first.initial_model(8)) == fingerprint(second.initial_model(8))
    assert fingerprint(first.initial_model(8)) != fingerprint(first.initial_model(9))


def test_an_evaluation_is_the_mean_over_all_test_examples(engine_class, device):
    test = toy_examples(2503, seed=1)  # several forward passes, the last one partial
    engine = engine_class(toy_task(torch.float64), toy_clients(), test=test, device=device)
    model = engine.initial_model(0)
    module = engine.module_with(model)
    output = module.cpu()(torch.from_numpy(test.inputs).double())
    evaluation = engine.evaluate(model)
    expected = torch.nn.functional.cross_entropy(output, torch.from_numpy(test.targets)).item()
    assert evaluation["loss"] == pytest.approx(expected, rel=1e-10)
    assert evaluation["accuracy"] == (output.argmax(1).numpy() == test.targets).mean()
    assert engine_class(toy_task(), toy_clients(), device=device).evaluate(model) == {}


@pytest.mark.parametrize("lanes_order", [[3, 1, 0, 2], [0, 1, 2, 3]])
def test_reports_do_not_depend_on_the_order_of_arrival(device, lanes_order):
    clients = toy_clients()
    algorithm = FedAvg(client_fraction=1.0, local_epochs=2, batch_size=3).algorithm()

    class Shuffled(ENGINES["sequential"]):
        def train(self, work):
            updates = list(super().train(work))
            yield from (updates[position] for position in lanes_order)

    make = partial(trained, algorithm=algorithm, clients=clients, rounds=2)
    plain_state, plain_reports = make(ENGINES["sequential"](toy_task(), clients, device=device))
    state, reports = make(Shuffled(toy_task(), clients, device=device))
    assert fingerprint(state) == fingerprint(plain_state)
    assert [r.train_loss for r in reports] == [r.train_loss for r in plain_reports]
