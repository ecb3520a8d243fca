"""Central SGD and one-shot averaging, the two baselines beside FedSGD."""

from __future__ import annotations

import pytest

import stayput as sp
from stayput.algorithms import ALGORITHMS
from stayput.errors import InvalidSetting
from stayput.testing import toy_clients, toy_examples, toy_task


def test_how_central_sgd_is_cut_into_rounds_changes_nothing():
    def model(updates_per_round, rounds):
        settings = sp.CentralSgd(batch_size=7, learning_rate=0.3, updates_per_round=updates_per_round)
        return sp.train(toy_task(), toy_clients(), settings, rounds=rounds, seed=2).model.state_dict()

    fine, coarse = model(1, 12), model(6, 2)
    # Not bit for bit: each round adds its move to the model it began with.
    assert all((fine[name] - coarse[name]).abs().max() < 1e-6 for name in fine)


def test_central_sgd_sees_one_pool():
    run = sp.train(toy_task(), toy_clients((7, 1, 12)), sp.CentralSgd(batch_size=100), rounds=1)
    assert run.history.reports[-1].cohort_size == 1
    assert run.history.reports[-1].num_examples == 20


def test_one_shot_averaging_is_one_round_over_everybody():
    run = sp.train(toy_task(), toy_clients((7, 1, 12)), sp.OneShotAveraging(local_epochs=3), rounds=1)
    assert run.history.reports[-1].cohort_size == 3
    with pytest.raises(InvalidSetting, match=r"rounds=2: one_shot is 1 round by definition"):
        sp.train(toy_task(), toy_clients(), sp.OneShotAveraging(), rounds=2)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_learns_the_toy_task_with_its_default_settings(name):
    settings = ALGORITHMS[name]()
    rounds = settings.algorithm().only_rounds or 60
    run = sp.train(toy_task(), toy_clients((40, 30, 30)), settings, rounds=rounds, test=toy_examples(200, seed=9))
    first, last = run.history.reports[0].evaluation["loss"], run.history.reports[-1].evaluation["loss"]
    assert last < 0.8 * first
    assert settings.algorithm().name == name


@pytest.mark.parametrize("settings", [{"batch_size": {1: 5, 2: 7}}, {"local_epochs": {1: 5, 2: 7}}])
def test_one_round_has_nothing_to_schedule(settings):
    with pytest.raises(InvalidSetting, match="must be a whole number"):
        sp.OneShotAveraging(**settings)


@pytest.mark.parametrize("updates", [0, -3, 1.5])
def test_wrong_updates_per_round_are_refused(updates):
    with pytest.raises(InvalidSetting, match="updates_per_round="):
        sp.CentralSgd(updates_per_round=updates)
