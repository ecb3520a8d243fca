from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import stayput as sp
from stayput.core.history import RoundReport
from stayput.errors import (
    InvalidSetting,
    LabelOutOfRange,
    ModelMisfit,
    TrainingDiverged,
    UnknownName,
)
from stayput.testing import CLASSES, FEATURES, ToyNet, toy_clients, toy_examples, toy_task

SETTINGS = sp.FedAvg(client_fraction=0.5, local_epochs=2, batch_size=4, learning_rate=0.2)


def train(task=None, clients=None, **settings):
    arguments = {"rounds": 4, "test": toy_examples(80, seed=2), **settings}
    return sp.train(task or toy_task(), clients or toy_clients(), SETTINGS, **arguments)


def test_a_run_has_its_history_its_model_and_its_measure():
    run = train(rounds=30)
    assert [r.round_number for r in run.history.reports] == list(range(31))
    assert isinstance(run.model, ToyNet)
    assert not run.model.training
    test = toy_examples(80, seed=2)
    with torch.no_grad():
        accuracy = (run.model(torch.from_numpy(test.inputs)).argmax(1).numpy() == test.targets).mean()
    assert run.history.reports[-1].evaluation["accuracy"] == pytest.approx(accuracy)
    assert 0 < run.rounds_to(0.8) < 30
    assert run.rounds_to(1.1) is None
    assert run.rounds_to(0.9, metric="loss") is not None


def test_rounds_without_an_evaluation_have_none_but_first_and_last_always_do():
    run = train(rounds=7, evaluate_every=3)
    assert run.curve().rounds.tolist() == [0, 3, 6, 7]


def test_training_ends_at_the_target_only_if_told_so():
    going_on = train(rounds=30, target=0.7)
    stopped = train(rounds=30, target=0.7, stop_at_target=True)
    assert going_on.history.last_round == 30
    assert stopped.history.last_round == np.ceil(stopped.rounds_to(0.7)) < 30
    assert stopped.rounds_to(0.7) == going_on.rounds_to(0.7)


def test_without_test_examples_there_is_a_model_and_no_curve():
    run = train(test=None)
    assert run.curve().rounds.size == 0
    assert run.rounds_to(0.5) is None


def test_zero_rounds_give_the_initial_model():
    run = train(rounds=0)
    assert run.history.reports[0].evaluation.keys() == {"loss", "accuracy"}


def test_progress_is_called_every_round():
    seen = []
    train(rounds=3, on_round=lambda report, history: seen.append((report.round_number, history.last_round)))
    assert seen == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_test_examples_may_be_plain_arrays():
    test = toy_examples(80, seed=2)
    assert train(test=(test.inputs, test.targets)).model_sha256 == train().model_sha256


def test_plot_draws_into_a_file(tmp_path):
    path = train().plot(tmp_path / "curve.png")
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("settings", "error", "sentence"),
    [
        ({"rounds": -1}, InvalidSetting, "rounds=-1"),
        ({"engine": "fast"}, UnknownName, "engine='fast': unknown; .*sequential"),
        ({"device": "tpu9"}, InvalidSetting, "device='tpu9'"),
        ({"device": "meta"}, InvalidSetting, "device='meta': must be cpu or cuda"),
        ({"target": 0.9, "test": None}, InvalidSetting, "target=0.9: needs test examples"),
    ],
)
def test_wrong_arguments_are_refused_before_training(settings, error, sentence):
    with pytest.raises(error, match=sentence):
        train(**settings)


def test_a_rate_that_is_too_high_stops_the_run_with_round_client_and_rate():
    wild = sp.FedAvg(client_fraction=1.0, local_epochs=20, batch_size=1, learning_rate=1e30)
    with pytest.raises(TrainingDiverged, match=r"round 1, client \d: .* learning_rate=1e\+30"):
        sp.train(toy_task(), toy_clients(), wild, rounds=5)


def test_nan_in_a_clients_data_stops_the_run_with_its_name():
    clients = toy_clients((7, 5, 12))
    clients.examples.inputs[clients.rows(1)] = float("nan")
    with pytest.raises(TrainingDiverged, match="round 1, client 1: training gave loss nan"):
        sp.train(toy_task(), clients, sp.FedAvg(client_fraction=1.0), rounds=1)


class TestMisfits:
    def task(self, model=ToyNet, loss=sp.losses.cross_entropy, metrics=()):
        return sp.Task(model, loss, metrics)

    def test_inputs_of_another_shape(self):
        with pytest.raises(ModelMisfit, match=r"the model Linear fails on the clients' examples .*shape \(2, 4\)"):
            train(self.task(lambda: nn.Linear(9, CLASSES)))

    def test_test_inputs_of_another_shape(self):
        wrong = sp.data.Examples(np.zeros((5, 9), np.float32), np.zeros(5, int))
        with pytest.raises(ModelMisfit, match="fails on the test examples"):
            train(test=wrong)

    def test_a_label_the_model_has_no_output_for(self):
        clients = toy_clients((7, 5, 12))
        clients.examples.targets[clients.rows(2)[3]] = 3
        with pytest.raises(
            LabelOutOfRange, match=r"label 3 \(row \d+ of the clients' examples, held by client 2\): must be in 0\.\.2"
        ):
            train(clients=clients)

    def test_a_negative_label(self):
        clients = toy_clients()
        clients.examples.targets[0] = -1
        with pytest.raises(LabelOutOfRange, match="label -1"):
            train(clients=clients)

    def test_an_output_that_is_not_a_row_an_example(self):
        class Flat(ToyNet):
            def forward(self, x):
                return super().forward(x).flatten()

        with pytest.raises(ModelMisfit, match=r"output for .* is shape \(6,\): must be one tensor with a row"):
            train(self.task(Flat))

    def test_an_output_that_is_no_tensor(self):
        class Pair(ToyNet):
            def forward(self, x):
                return super().forward(x), x

        with pytest.raises(ModelMisfit, match="is a tuple"):
            train(self.task(Pair))

    def test_a_loss_that_takes_the_mean_itself(self):
        with pytest.raises(ModelMisfit, match=r"the loss gave shape \(\) for 2 examples: .*reduction='none'"):
            train(self.task(loss=nn.functional.cross_entropy))

    def test_a_loss_that_fails(self):
        with pytest.raises(ModelMisfit, match="the loss fails on the clients' examples"):
            train(self.task(loss=sp.losses.mean_squared_error))

    def test_a_metric_that_is_no_measure_per_example(self):
        metric = sp.Metric("top", lambda output, targets: output.argmax(1).float().mean())
        with pytest.raises(ModelMisfit, match="the metric 'top' gave shape"):
            train(self.task(metrics=[metric]))

    def test_a_model_that_was_made_already(self):
        with pytest.raises(InvalidSetting, match="must make a fresh model when called"):
            self.task(ToyNet())

    def test_metrics_of_one_name(self):
        with pytest.raises(InvalidSetting, match="must have different names"):
            self.task(metrics=[sp.metrics.accuracy, sp.metrics.accuracy])


def test_a_regression_with_a_metric_that_should_fall():
    x = np.random.default_rng(0).normal(size=(60, FEATURES))
    y = x @ np.array([[1.0], [-2.0], [0.5], [0.0]])
    error = sp.Metric("error", lambda output, targets: (output - targets).abs().mean(dim=1), higher_is_better=False)
    task = sp.Task(lambda: nn.Linear(FEATURES, 1), sp.losses.mean_squared_error, [error])
    clients = sp.data.from_arrays(x, y).partition(sp.partitions.Iid(num_clients=6), seed=0)
    run = sp.train(task, clients, SETTINGS, rounds=40, test=(x, y), target=0.05)
    assert run.spec.metric == "error"
    assert run.rounds_to(0.05) is not None
    assert run.history.reports[0] != RoundReport(0)
