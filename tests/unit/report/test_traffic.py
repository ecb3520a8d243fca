"""Bytes from model and cohort, held to what a round of every algorithm really sends."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import stayput
from stayput.algorithms import ALGORITHMS
from stayput.core.history import RoundReport
from stayput.core.round import begin_round
from stayput.core.tensors import MEMORY
from stayput.engines.sequential import SequentialEngine
from stayput.report.traffic import Traffic, traffic_of
from stayput.runs.run_folder import RunFolder
from stayput.testing import toy_clients, toy_task


def bytes_in(groups):
    tensors = [tensor for group, tensors in groups.items() if group != MEMORY for tensor in tensors.values()]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def messages(task, settings):
    """What a client is sent in round 1, and what it returns."""
    clients, algorithm = toy_clients(), settings.algorithm()
    engine = SequentialEngine(task, clients, device=torch.device("cpu"))
    state = algorithm.init(engine.initial_model(0))
    work = begin_round(state, 1, algorithm=algorithm, num_clients=clients.num_clients, seed=0)
    return work.sent, next(iter(engine.train(work))).update


def trained(task, settings, folder):
    stayput.train(task, toy_clients(), settings, rounds=1, folder=folder)
    return RunFolder(folder)


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"central_sgd"}))
def test_bytes_are_those_that_a_round_of_the_algorithm_sends(name, tmp_path):
    settings = ALGORITHMS[name]()
    traffic = traffic_of(trained(toy_task(), settings, tmp_path / "run"))
    sent, update = messages(toy_task(), settings)
    assert (traffic.down, traffic.up) == (bytes_in(sent), bytes_in(update))
    assert (traffic.parameters, traffic.model_bytes) == (43, 4 * 43)


def test_scaffold_sends_twice_what_fed_avg_does(tmp_path):
    plain = traffic_of(trained(toy_task(), stayput.FedAvg(), tmp_path / "plain"))
    twice = traffic_of(trained(toy_task(), ALGORITHMS["scaffold"](), tmp_path / "scaffold"))
    assert (twice.down, twice.up) == (2 * plain.down, 2 * plain.up)


def test_buffers_are_sent_and_are_no_parameters(tmp_path):
    def model():
        return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))

    task = replace(toy_task(), model=model)
    clients = toy_clients((7, 2, 12, 10))  # BatchNorm needs two examples
    stayput.train(task, clients, stayput.FedAvg(batch_size="all"), rounds=1, folder=tmp_path / "run")
    traffic = traffic_of(RunFolder(tmp_path / "run"))
    assert traffic.parameters == 25 + 10 + 18
    assert traffic.down == traffic.up == traffic.model_bytes == 4 * (25 + 10 + 18) + 4 * 10 + 8


def test_a_round_counts_its_cohort():
    traffic = Traffic(parameters=10, model_bytes=40, down=40, up=48)
    report = RoundReport(3, cohort_size=7)
    assert (traffic.down_in(report), traffic.up_in(report)) == (280, 336)


def test_nothing_is_sent_where_data_is_pooled(tmp_path):
    assert traffic_of(trained(toy_task(), ALGORITHMS["central_sgd"](), tmp_path / "run")) is None


def test_nothing_is_known_before_there_is_a_checkpoint(make_run):
    assert traffic_of(make_run()) is None


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    run = trained(toy_task(), stayput.FedAvg(), tmp_path / "run")
    latest = next(iter(run.checkpoint_paths().values()))
    (run.path / "checkpoints" / "round-000099.safetensors").write_bytes(latest.read_bytes()[:20])
    assert traffic_of(run).parameters == 43
