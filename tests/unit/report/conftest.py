"""Run folders to report on, written with the writer that runs use."""

import math

import pytest
import torch

from stayput.core.history import RoundReport
from stayput.runs.run_folder import RunFolder
from stayput.runs.run_writer import RunWriter
from stayput.runs.spec import RunSpec

STATE = {"weights": {"w": torch.zeros(2)}}


@pytest.fixture
def make_run(tmp_path):
    """A function that writes a run with the accuracies of rounds 0, 1, ...; None is a round without one."""

    def make(
        accuracies=(0.1, 0.9, 0.96, 0.98),
        *,
        name="run",
        task="mnist-2nn",
        rounds=3,
        target=0.97,
        metric="accuracy",
        labels=((5, 0), (0, 7)),
        ended=True,
        environment=None,
    ):
        spec = RunSpec(
            task=task,
            partition={"name": "shards", "num_clients": 2},
            algorithm={"name": "fed_avg", "learning_rate": {"name": "constant", "value": 0.125}},
            rounds=rounds,
            target=target,
            metrics={metric: True},
        )
        found = {"versions": {"torch": "9.9"}, "machine": {"cores": 3}} if environment is None else environment
        with RunWriter.create(tmp_path / name, spec, found, labels) as writer:
            for number, accuracy in enumerate(accuracies):
                evaluation = {} if accuracy is None else {metric: accuracy, "loss": 1 / (1 + number)}
                loss = None if number == 0 else 1 / number
                report = RoundReport(
                    number, cohort_size=1, num_steps=10, train_loss=loss, seconds=2.0, evaluation=evaluation
                )
                writer.add_report(report, STATE)
            if ended:
                writer.finish({"rounds": max(len(accuracies) - 1, 0), "model_sha256": "f00d" * 16})
        return RunFolder(tmp_path / name)

    return make


@pytest.fixture
def not_a_number():
    return math.nan
