"""Every algorithm that is more than plain SGD and its average, on every engine, against plain loops in float64."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from stacked_engine import StackedEngine

import stayput as sp
from stayput.algorithms import ALGORITHMS
from stayput.core.cohort import choose_cohort
from stayput.core.local_work import passes
from stayput.core.round import begin_round, end_round
from stayput.core.seeds import Purpose, torch_stream
from stayput.core.tensors import fingerprint
from stayput.engines import ENGINES
from stayput.errors import InvalidSetting
from stayput.testing import ToyNet, toy_clients, toy_task

SEED, ROUNDS, SIZES = 4, 4, (7, 1, 12, 10, 3)
EVERY_ENGINE = {**ENGINES, "stacked": StackedEngine}
if os.environ.get("STAYPUT_TEST_DEVICE", "cpu") != "cpu":
    del EVERY_ENGINE["stacked"], EVERY_ENGINE["workers"], EVERY_ENGINE["lane_workers"]  # these are for the CPU
LOCAL = {"client_fraction": 0.6, "local_epochs": 2, "batch_size": 5, "learning_rate": 0.2}
SETTINGS = {
    "fed_avg_m": sp.FedAvgM(**LOCAL, momentum=0.7, server_learning_rate=0.8),
    "fed_adagrad": sp.FedAdagrad(**LOCAL, server_learning_rate=0.05, beta1=0.3, tau=0.01),
    "fed_adam": sp.FedAdam(**LOCAL, server_learning_rate=0.05, beta1=0.8, beta2=0.9, tau=0.01),
    "fed_yogi": sp.FedYogi(**LOCAL, server_learning_rate=0.05, beta1=0.8, beta2=0.9, tau=0.01),
    "fed_prox": sp.FedProx(**LOCAL, mu=0.4),
    "fed_nova": sp.FedNova(**LOCAL, learning_rate_decay=0.9),
    "mime_lite": sp.MimeLite(**LOCAL, momentum=0.6),
    "scaffold": sp.Scaffold(**LOCAL, learning_rate_decay=0.9, server_learning_rate=0.7),
}


PAIRS = [(engine, name) for engine in EVERY_ENGINE for name in SETTINGS]
ROUNDING = {"lanes": 1e-12, "lane_workers": 1e-12}
"""Of engines that take the step of plain SGD in another way than that of other programs, in float64."""
on_every_engine = pytest.mark.parametrize(("engine_name", "name"), PAIRS)


def made(engine_name, clients, device, dtype=torch.float64):
    return EVERY_ENGINE[engine_name](toy_task(dtype), clients, device=device)


def trained(engine, settings, clients, rounds=ROUNDS):
    """The server's state and the clients' memories after some rounds."""
    algorithm, memory = settings.algorithm(), {}
    state = algorithm.init(engine.initial_model(SEED))
    for t in range(1, rounds + 1):
        work = begin_round(
            state, t, algorithm=algorithm, num_clients=clients.num_clients, seed=SEED, memory=dict(memory)
        )
        (result,) = engine.run([work])
        state, _ = end_round(state, work, result, algorithm=algorithm, num_examples=clients.num_examples)
        memory.update(result.memory)
    return state, memory


class Reference:
    """The algorithms as their papers have them, over flat vectors of one toy model, one client after another."""

    def __init__(self, settings, clients):
        self.settings, self.clients = settings, clients
        with torch_stream(SEED, Purpose.INITIAL_WEIGHTS):
            self.model = ToyNet(torch.float64)
        self.x = torch.from_numpy(clients.examples.inputs).double()
        self.y = torch.from_numpy(clients.examples.targets)
        self.w = torch.nn.utils.parameters_to_vector(self.model.parameters()).detach()
        self.memory = {k: torch.zeros_like(self.w) for k in range(clients.num_clients)}
        self.m = torch.zeros_like(self.w)  # momentum, first moment, or SCAFFOLD's c
        self.v = torch.full_like(self.w, getattr(settings, "tau", 0.0) ** 2)

    def gradient(self, w, rows):
        torch.nn.utils.vector_to_parameters(w, self.model.parameters())
        loss = torch.nn.functional.cross_entropy(self.model(self.x[rows]), self.y[rows])
        return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(self.model.parameters()))])

    def local(self, k, plan, t):
        """A client's final weights and the number of its steps."""
        name, w, steps = self.settings.name, self.w.clone(), 0
        rows = self.clients.rows(k)
        length = plan.batch_length(len(rows))
        for order in passes(plan, len(rows), seed=SEED, round_number=t, client=k):
            for first in range(0, len(order), length):
                g = self.gradient(w, torch.from_numpy(rows[order[first : first + length]]))
                if name == "fed_prox":
                    g = g + self.settings.mu * (w - self.w)
                if name == "mime_lite":
                    g = (1 - self.settings.momentum) * g + self.settings.momentum * self.m
                if name == "scaffold":
                    g = g - self.memory[k] + self.m
                w, steps = w - plan.learning_rate * g, steps + 1
        return w, steps

    def round(self, t):
        settings, plan = self.settings, self.settings.plan(t)
        cohort = choose_cohort(self.clients.num_clients, settings.client_fraction, seed=SEED, round_number=t).tolist()
        n = {k: len(self.clients.rows(k)) for k in cohort}
        m_t = sum(n.values())
        local = {k: self.local(k, plan, t) for k in cohort}
        delta = sum(n[k] / m_t * (w - self.w) for k, (w, _) in local.items())
        match settings.name:
            case "fed_avg_m":
                self.m = settings.momentum * self.m + delta
                self.w = self.w + settings.server_learning_rate * self.m
            case "fed_adagrad" | "fed_adam" | "fed_yogi":
                self.m = settings.beta1 * self.m + (1 - settings.beta1) * delta
                if settings.name == "fed_adagrad":
                    self.v = self.v + delta**2
                elif settings.name == "fed_adam":
                    self.v = settings.beta2 * self.v + (1 - settings.beta2) * delta**2
                else:
                    self.v = self.v - (1 - settings.beta2) * delta**2 * torch.sign(self.v - delta**2)
                self.w = self.w + settings.server_learning_rate * self.m / (self.v.sqrt() + settings.tau)
            case "fed_prox":
                self.w = self.w + delta
            case "fed_nova":
                effective = sum(n[k] / m_t * steps for k, (_, steps) in local.items())
                self.w = self.w + effective * sum(n[k] / m_t * (w - self.w) / steps for k, (w, steps) in local.items())
            case "mime_lite":
                full = sum(n[k] / m_t * self.gradient(self.w, torch.from_numpy(self.clients.rows(k))) for k in cohort)
                self.m = settings.momentum * self.m + (1 - settings.momentum) * full
                self.w = self.w + delta
            case "scaffold":
                c = self.m.clone()
                for k, (w, steps) in local.items():
                    new = self.memory[k] - c + (self.w - w) / (steps * plan.learning_rate)
                    self.m = self.m + n[k] / self.clients.num_examples * (new - self.memory[k])
                    self.memory[k] = new
                self.w = self.w + settings.server_learning_rate * delta


def flat(tensors):
    return torch.cat([tensor.cpu().double().reshape(-1) for tensor in tensors.values()])


def test_every_algorithm_is_here_or_among_the_plain_ones():
    plain = {"fed_avg", "fed_sgd", "central_sgd", "one_shot"}
    assert set(SETTINGS) | plain == set(ALGORITHMS)


@on_every_engine
def test_rounds_are_those_of_a_plain_loop(engine_name, name, device):
    clients, settings = toy_clients(SIZES), SETTINGS[name]
    state, memory = trained(made(engine_name, clients, device), settings, clients)
    reference = Reference(settings, clients)
    for t in range(1, ROUNDS + 1):
        reference.round(t)
    torch.testing.assert_close(flat(state["weights"]), reference.w, rtol=1e-9, atol=1e-12)
    for client, kept in memory.items():
        torch.testing.assert_close(flat(kept), reference.memory[client], rtol=1e-8, atol=1e-11)


@on_every_engine
def test_a_run_repeats_bit_for_bit(engine_name, name, device):
    clients, settings = toy_clients(SIZES), SETTINGS[name]
    states = [trained(made(engine_name, clients, device, torch.float32), settings, clients, 2)[0] for _ in range(2)]
    assert fingerprint(states[0]) == fingerprint(states[1])


PLAIN = sp.FedAvg(**LOCAL)
SAME_AS_FED_AVG = {
    "FedProx without a pull": (sp.FedProx(**LOCAL, mu=0.0), PLAIN, 0.0),
    "FedAvgM without momentum": (sp.FedAvgM(**LOCAL, momentum=0.0, server_learning_rate=1.0), PLAIN, 0.0),
    "Mime-lite without momentum": (sp.MimeLite(**LOCAL, momentum=0.0), PLAIN, 0.0),
    "FedNova with equal steps": (
        sp.FedNova(client_fraction=0.6, local_epochs=3, batch_size="all", learning_rate=0.2),
        sp.FedAvg(client_fraction=0.6, local_epochs=3, batch_size="all", learning_rate=0.2),
        1e-12,
    ),
}


@pytest.mark.parametrize("case", SAME_AS_FED_AVG)
@pytest.mark.parametrize("engine_name", EVERY_ENGINE)
def test_what_is_fed_avg_at_one_end_is_that(engine_name, case, device):
    settings, plain, tolerance = SAME_AS_FED_AVG[case]
    clients = toy_clients(SIZES)
    ours, _ = trained(made(engine_name, clients, device), settings, clients)
    theirs, _ = trained(made(engine_name, clients, device), plain, clients)
    tolerance = max(tolerance, ROUNDING.get(engine_name, 0))
    torch.testing.assert_close(flat(ours["weights"]), flat(theirs["weights"]), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("engine_name", sorted(EVERY_ENGINE))
def test_the_first_round_of_scaffold_is_that_of_fed_avg(engine_name, device):
    clients = toy_clients(SIZES)
    scaffold = sp.Scaffold(**LOCAL)
    ours, _ = trained(made(engine_name, clients, device), scaffold, clients, 1)
    theirs, _ = trained(made(engine_name, clients, device), PLAIN, clients, 1)
    tolerance = ROUNDING.get(engine_name, 0)
    torch.testing.assert_close(flat(ours["weights"]), flat(theirs["weights"]), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("engine_name", sorted(EVERY_ENGINE))
def test_scaffolds_corrections_of_all_clients_sum_to_zero(engine_name, device):
    clients = toy_clients(SIZES)
    state, memory = trained(made(engine_name, clients, device), SETTINGS["scaffold"], clients)
    c = flat(state["control"])
    controls = {k: flat(memory[k]) if k in memory else torch.zeros_like(c) for k in range(clients.num_clients)}
    corrections = sum(size * (c - controls[k]) for k, size in enumerate(clients.client_sizes.tolist()))
    assert c.abs().max() > 0.01
    assert corrections.abs().max() < 1e-10


@pytest.mark.parametrize("name", ["fed_prox", "fed_nova", "mime_lite", "scaffold"])
def test_programs_take_stacked_tensors_with_one_fact_per_lane(name):
    """As `core.algorithm` says of facts: without `vmap`, one client a row, everything broadcasts."""
    from stayput.core.algorithm import ClientFacts

    algorithm = SETTINGS[name].algorithm()
    rates, steps = torch.tensor([0.1, 0.3], dtype=torch.float64), torch.tensor([4, 6])
    sent = algorithm.broadcast(algorithm.init({"weights": {"a": torch.ones(3, 2), "b": torch.ones(4)}}))
    lanes = [
        {g: {n: t + i + 0.5 for n, t in tensors.items()} for g, tensors in sent.items()} for i in range(len(steps))
    ]
    for lane in lanes:
        lane["full_gradient"] = {n: t * 0.3 for n, t in lane["weights"].items()}
        if algorithm.client.memory is not None:
            lane["memory"] = {n: t * 0.7 for n, t in lane["weights"].items()}
        if name != "mime_lite":
            del lane["full_gradient"]

    def update(given, facts):
        local = algorithm.client.start(given, facts)
        for _ in range(2):
            local = algorithm.client.step(local, lambda weights: {n: w * w for n, w in weights.items()}, facts)
        return algorithm.client.finish(given, local, facts)

    stacked = {g: {n: torch.stack([lane[g][n] for lane in lanes]) for n in lanes[0][g]} for g in lanes[0]}
    together = update(stacked, ClientFacts(rates, torch.tensor([9, 8]), steps))
    for number, lane in enumerate(lanes):
        alone = update(lane, ClientFacts(float(rates[number]), 9 - number, int(steps[number])))
        for group, tensors in alone.items():
            for tensor_name, tensor in tensors.items():
                torch.testing.assert_close(together[group][tensor_name][number], tensor, rtol=1e-5, atol=1e-6)


def test_a_mean_over_all_clients_needs_to_know_how_many_examples_there_are(device):
    clients, algorithm = toy_clients(SIZES), sp.Scaffold(**LOCAL).algorithm()
    engine = ENGINES["sequential"](toy_task(), clients, device=device)
    state = algorithm.init(engine.initial_model(SEED))
    work = begin_round(state, 1, algorithm=algorithm, num_clients=clients.num_clients, seed=SEED)
    (result,) = engine.run([work])
    with pytest.raises(InvalidSetting, match="scaffold takes means over all clients"):
        end_round(state, work, result, algorithm=algorithm)


def test_full_gradients_are_over_all_of_a_clients_data_in_any_minibatches(device):
    clients = toy_clients(SIZES)
    engine = ENGINES["sequential"](toy_task(torch.float64), clients, device=device)
    gradients = []
    for batch_size in (1, 5, "all"):
        algorithm = sp.MimeLite(batch_size=batch_size).algorithm()
        work = begin_round(algorithm.init(engine.initial_model(SEED)), 1, algorithm=algorithm, num_clients=5, seed=SEED)
        (update,) = engine.train(type(work)(1, SEED, np.array([2]), work.plan, work.sent, work.program))
        gradients.append(flat(update.update["full_gradient"]))
    torch.testing.assert_close(gradients[0], gradients[2], rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(gradients[1], gradients[2], rtol=1e-10, atol=1e-13)
