"""The lanes engine against the plain one: the paper's models, any number of lanes, several experiments at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from side_by_side import largest_difference, trained
from torch import nn

from stayput.algorithms import CentralSgd, FedAvg, FedSgd
from stayput.core.round import begin_round
from stayput.core.tensors import fingerprint
from stayput.data.federated_data import Assignment, Examples, FederatedData
from stayput.engines import LanesEngine, SequentialEngine
from stayput.engines.lanes.stepping import Lanes
from stayput.errors import ModelMisfit
from stayput.tasks.catalogue import named_task
from stayput.tasks.losses import cross_entropy
from stayput.tasks.task import Task
from stayput.testing import CLASSES, FEATURES, ToyNet, toy_clients, toy_task

SEED = 6
CPU = torch.device("cpu")  # where the oracle is: convolutions on a GPU are less exact than lanes are


def image_clients(sizes=(7, 1, 12)):
    draw = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    pixels = draw.integers(256, size=(offsets[-1], 28, 28), dtype=np.uint8)
    labels = draw.integers(10, size=offsets[-1], dtype=np.uint8)
    return FederatedData(Examples(pixels, labels), Assignment(draw.permutation(offsets[-1]), offsets))


def in_float64(task):
    plain = task.model
    return replace(task, model=lambda: plain().double(), prepare=lambda images: images.double() / 255)


@pytest.mark.parametrize("name", ["mnist-2nn", "mnist-cnn"])
@pytest.mark.parametrize(("double", "tolerance"), [(False, 1e-5), (True, 1e-10)])
def test_the_papers_models_learn_the_same(device, name, double, tolerance):
    task = named_task(name).task
    task = in_float64(task) if double else task
    clients = image_clients()
    experiment = [(FedAvg(1.0, local_epochs=2, batch_size=5, learning_rate=0.1).algorithm(), SEED)]
    (ours,) = trained(LanesEngine(task, clients, device=device), clients, experiment)
    (theirs,) = trained(SequentialEngine(task, clients, device=CPU), clients, experiment)
    assert largest_difference(ours, theirs) <= tolerance


@pytest.mark.parametrize("max_lanes", [1, 2, 3, 5, 100])
def test_the_number_of_lanes_does_not_matter(device, max_lanes):
    clients = toy_clients((7, 1, 12, 10, 3, 25))
    experiment = [(FedAvg(1.0, local_epochs=2, batch_size=4, learning_rate=0.2).algorithm(), SEED)]
    task = toy_task(torch.float64)
    (ours,) = trained(LanesEngine(task, clients, device=device, max_lanes=max_lanes), clients, experiment)
    (theirs,) = trained(SequentialEngine(task, clients, device=CPU), clients, experiment)
    assert largest_difference(ours, theirs) <= 1e-10


def test_lanes_that_do_not_fit_are_halved_and_the_round_begins_anew(device, monkeypatch, caplog):
    clients = toy_clients((7, 1, 12, 10, 3, 25))
    experiment = [(FedAvg(1.0, local_epochs=2, batch_size=4, learning_rate=0.2).algorithm(), SEED)]
    task = toy_task(torch.float64)
    take_step = Lanes._take_step

    def small_memory(lanes, width):
        if lanes.capacity > 2 and int(lanes._step) == 3:
            raise torch.OutOfMemoryError("as if")
        take_step(lanes, width)

    monkeypatch.setattr(Lanes, "_take_step", small_memory)
    monkeypatch.setattr(Lanes, "advance", lambda lanes, width, steps: [lanes._take_step(width) for _ in range(steps)])
    (ours,) = trained(LanesEngine(task, clients, device=device), clients, experiment)
    monkeypatch.undo()
    (theirs,) = trained(SequentialEngine(task, clients, device=CPU), clients, experiment)
    assert largest_difference(ours, theirs) <= 1e-10
    assert "does not hold 6 lanes; going on with 3" in caplog.text
    assert "does not hold 3 lanes; going on with 1" in caplog.text


def test_a_window_of_the_schedule_may_end_anywhere(device, monkeypatch):
    monkeypatch.setattr("stayput.engines.lanes.stepping.WINDOW_ENTRIES", 3 * 4 * 4)  # three steps of four lanes
    clients = toy_clients((7, 1, 12, 10))
    experiment = [(FedAvg(1.0, local_epochs=3, batch_size=4, learning_rate=0.2).algorithm(), SEED)]
    task = toy_task(torch.float64)
    (ours,) = trained(LanesEngine(task, clients, device=device), clients, experiment)
    (theirs,) = trained(SequentialEngine(task, clients, device=CPU), clients, experiment)
    assert largest_difference(ours, theirs) <= 1e-10


def test_experiments_that_share_the_device_are_those_they_would_be_alone(device):
    clients = toy_clients((7, 1, 12, 10, 3))
    task = toy_task(torch.float64)
    experiments = [
        (FedAvg(0.6, local_epochs=1, batch_size=4, learning_rate=0.1).algorithm(), 1),
        (FedAvg(0.6, local_epochs=3, batch_size=4, learning_rate=0.4).algorithm(), 2),
        (FedAvg(1.0, local_epochs=2, batch_size="all", learning_rate=0.1).algorithm(), 1),
        (FedSgd(0.4, learning_rate=0.3).algorithm(), 5),
    ]
    together = trained(LanesEngine(task, clients, device=device), clients, experiments)
    for ours, experiment in zip(together, experiments, strict=True):
        (theirs,) = trained(SequentialEngine(task, clients, device=CPU), clients, [experiment])
        assert largest_difference(ours, theirs) <= 1e-10


def test_an_experiment_that_diverges_touches_no_other(device):
    clients = toy_clients((7, 5, 12))
    engine = LanesEngine(toy_task(), clients, device=device)
    calm, wild = FedAvg(1.0, learning_rate=0.1).algorithm(), FedAvg(1.0, learning_rate=1e30, local_epochs=9).algorithm()

    def result(algorithms):
        works = [
            begin_round(a.init(engine.initial_model(SEED)), 1, algorithm=a, num_clients=3, seed=SEED)
            for a in algorithms
        ]
        return engine.run(works)

    beside, wild_result = result([calm, wild])
    assert not np.isfinite(wild_result.train_losses).all()
    (alone,) = result([calm])
    assert all(np.isfinite(beside.train_losses))
    assert beside.finite_mean
    assert not all(wild_result.finite)
    assert largest_difference({"weights": beside.mean["weights"]}, {"weights": alone.mean["weights"]}) <= 1e-5


def test_the_lanes_of_an_experiment_that_has_ended_go_to_the_others(device, monkeypatch):
    """Three experiments of four equal clients on four lanes: three times as many steps as for the one that is left."""
    clients, steps = toy_clients((20,) * 4), []
    engine = LanesEngine(toy_task(torch.float64), clients, device=device, max_lanes=4)
    advance = Lanes.advance
    monkeypatch.setattr(Lanes, "advance", lambda lanes, width, n: (steps.append((width, n)), advance(lanes, width, n)))
    algorithm = FedAvg(1.0, batch_size=5, learning_rate=0.1).algorithm()

    def run(seeds):
        steps.clear()
        works = [
            begin_round(algorithm.init(engine.initial_model(seed)), 1, algorithm=algorithm, num_clients=4, seed=seed)
            for seed in seeds
        ]
        results = engine.run(works)
        assert engine.occupancy == 1
        assert {width for width, _ in steps} == {4}
        return results, sum(n for _, n in steps)

    together, of_three = run([0, 1, 2])
    (left,), of_one = run([1])
    assert (of_three, of_one) == (12, 4)
    for name, tensor in left.mean["weights"].items():
        torch.testing.assert_close(together[1].mean["weights"][name], tensor, rtol=1e-12, atol=1e-14)


def test_a_mean_that_is_too_large_for_its_numbers_is_found(device):
    """Each client's move is finite, and their sum in float64 is not: 3 examples of 1.7e308 each."""
    from stayput.engines.lanes.cohort_sums import CohortSums
    from stayput.engines.lanes.execution import Finished
    from stayput.engines.lanes.jobs import Job

    sums = CohortSums(2)
    jobs = [Job(member, 0, 4, 3, 1, 3) for member in (0, 1)]
    moves = torch.tensor([[1.0, 1.7e308], [1.0, 2.0]], dtype=torch.float64, device=device)
    threes, losses = torch.full((2,), 3, device=device), torch.zeros(2, device=device)
    sums.add(Finished(jobs, torch.arange(2, device=device), threes, {"weights": {"w": moves}}, losses))
    assert [result.finite for result in sums.results()] == [(True,), (True,)]
    assert [result.finite_mean for result in sums.results()] == [False, True]


def test_the_same_run_twice_has_the_same_bits(device):
    clients = image_clients((30, 17, 40, 5))
    experiments = [(FedAvg(1.0, batch_size=8, learning_rate=rate).algorithm(), SEED) for rate in (0.05, 0.1)]
    task = named_task("mnist-cnn").task
    first, second = (trained(LanesEngine(task, clients, device=device), clients, experiments) for _ in range(2))
    assert [fingerprint(s) for s in first] == [fingerprint(s) for s in second]


def test_pooled_data_is_one_lane(device):
    clients = toy_clients((7, 1, 12)).pooled()
    experiment = [(CentralSgd(batch_size=6, updates_per_round=5).algorithm(), SEED)]
    engine = LanesEngine(toy_task(torch.float64), clients, device=device)
    (ours,) = trained(engine, clients, experiment)
    (theirs,) = trained(SequentialEngine(toy_task(torch.float64), clients, device=CPU), clients, experiment)
    assert largest_difference(ours, theirs) <= 1e-10
    assert engine.occupancy == 1


class Odd(nn.Module):
    """Strided, dilated, without bias, on few channels; then a linear layer on positions."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 3, (3, 5), stride=(2, 1), padding=(0, 2), bias=False)
        self.second = nn.Conv2d(3, 2, 3, dilation=2)
        self.across = nn.Linear(24, 4)
        self.output = nn.Linear(2 * 9 * 4, 10, bias=False)

    def forward(self, x):
        x = self.second(self.first(x.unsqueeze(1)).relu())
        return self.output(self.across(x).flatten(start_dim=1))


def test_layers_of_odd_shapes(device):
    clients = image_clients()
    task = Task(lambda: Odd().double(), cross_entropy, prepare=lambda images: images.double() / 255)
    experiment = [(FedAvg(1.0, batch_size=5, learning_rate=0.1).algorithm(), SEED)]
    (ours,) = trained(LanesEngine(task, clients, device=device), clients, experiment)
    (theirs,) = trained(SequentialEngine(task, clients, device=CPU), clients, experiment)
    assert largest_difference(ours, theirs) <= 1e-10


def test_a_model_that_is_a_single_layer(device):
    clients = toy_clients()
    task = Task(lambda: nn.Linear(FEATURES, CLASSES, dtype=torch.float64), cross_entropy)
    experiment = [(FedAvg(1.0, batch_size=5, learning_rate=0.1).algorithm(), SEED)]
    (ours,) = trained(LanesEngine(task, clients, device=device), clients, experiment)
    (theirs,) = trained(SequentialEngine(task, clients, device=CPU), clients, experiment)
    assert largest_difference(ours, theirs) <= 1e-10


class Refused:
    class Normalised(ToyNet):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(FEATURES)

    class Mixing(ToyNet):
        def forward(self, x):
            return super().forward(x - x.mean(dim=0))

    class Random(ToyNet):
        def forward(self, x):
            return super().forward(nn.functional.dropout(x, 0.5, training=self.training))

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.memory = nn.LSTM(FEATURES, CLASSES, batch_first=True)

        def forward(self, x):
            return self.memory(x.unsqueeze(1))[0][:, 0] * x.sum().item()

    class Alpha(ToyNet):
        def __init__(self):
            super().__init__()
            self.drop = nn.AlphaDropout(0.5)

    class Frozen(ToyNet):
        def __init__(self):
            super().__init__()
            self.output.bias.requires_grad_(False)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (Refused.Normalised, r"layer 'norm', BatchNorm1d.*keeps state"),
        (Refused.Mixing, "gives other outputs when several lanes share a batch"),
        (Refused.Random, "does not run on the examples of several lanes|draws random numbers"),
        (Refused.Recurrent, r"layer 'memory', LSTM.*no form over lanes.*nor by vmap"),
        (Refused.Alpha, r"layer 'drop', AlphaDropout.*is random in a way"),
        (Refused.Frozen, "weight 'output.bias' is frozen"),
    ],
)
def test_what_cannot_be_run_over_lanes_is_refused_by_name_with_the_engine_that_can(device, model, sentence):
    with pytest.raises(ModelMisfit, match=rf"(?s){sentence}.*use engine='sequential'"):
        LanesEngine(Task(model, cross_entropy), toy_clients(), device=device)
