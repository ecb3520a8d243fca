from __future__ import annotations

import numpy as np
import pytest
import torch

from stayput.algorithms import FedAvg
from stayput.core.engine import ClientUpdate, summed
from stayput.core.round import run_round
from stayput.errors import TrainingDiverged


class ScriptedEngine:
    """Answers with given losses and moves, last client first."""

    def __init__(self, answers):
        self.answers = answers

    def initial_model(self, seed):
        return {"weights": {"w": torch.zeros(1)}}

    def run(self, works):
        return [summed(work, self.train(work)) for work in works]

    def train(self, work):
        for client in reversed(work.cohort.tolist()):
            num_examples, move, loss = self.answers[client]
            yield ClientUpdate(client, num_examples, {"weights": {"w": torch.tensor([move])}}, 2, loss)

    def evaluate(self, model):
        return {}


def one_round(answers, fraction=1.0):
    engine, algorithm = ScriptedEngine(answers), FedAvg(client_fraction=fraction, learning_rate=0.25).algorithm()
    state = algorithm.init(engine.initial_model(0))
    return run_round(state, 3, algorithm=algorithm, engine=engine, num_clients=len(answers), seed=0)


def test_the_model_moves_by_the_mean_weighted_with_the_cohorts_examples():
    state, report = one_round([(100, 1.0, 0.5), (300, 5.0, 1.5)])
    assert state["weights"]["w"].item() == pytest.approx((100 * 1.0 + 300 * 5.0) / 400)
    assert report.cohort_size == 2
    assert report.num_examples == 400
    assert report.num_steps == 4
    assert report.round_number == 3
    assert report.learning_rate == 0.25
    assert report.train_loss == pytest.approx((100 * 0.5 + 300 * 1.5) / 400)


def test_only_the_cohort_counts():
    # n is 1000 but m_t the 10 of the one client: weights n_k/n would move the model by 0.01 or 0.05 only.
    state, report = one_round([(10, 1.0, 0.1), (990, 5.0, 0.1)], fraction=0.0)
    assert state["weights"]["w"].item() in (1.0, 5.0)
    assert report.num_examples in (10, 990)


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_names_round_client_and_rate(loss):
    with pytest.raises(TrainingDiverged, match=rf"round 3, client 1: training gave loss {loss} at learning_rate=0\.25"):
        one_round([(1, 1.0, 0.5), (1, 1.0, loss)])


def test_a_weight_that_is_no_number_is_found_even_when_the_loss_is_one():
    with pytest.raises(TrainingDiverged, match="client 0: training gave weights that are not finite"):
        one_round([(1, float("inf"), 0.5), (1, 1.0, 0.5)])


def test_clients_come_in_ascending_order():
    seen = []

    class Watching(ScriptedEngine):
        def train(self, work):
            seen.append(work.cohort)
            yield from super().train(work)

    algorithm = FedAvg(client_fraction=0.5).algorithm()
    engine = Watching([(1, 1.0, 0.5)] * 9)
    run_round(engine.initial_model(0), 1, algorithm=algorithm, engine=engine, num_clients=9, seed=0)
    assert (np.diff(seen[0]) > 0).all()
