from __future__ import annotations

import pytest
from torch import nn

from stayput.engines.choice import chosen_engine
from stayput.tasks.catalogue import named_task
from stayput.tasks.losses import cross_entropy
from stayput.tasks.task import Task


@pytest.mark.parametrize(
    ("task", "device", "engine"),
    [
        (named_task("mnist-2nn").task, "cpu", "lanes"),
        (named_task("mnist-cnn").task, "cpu", "sequential"),
        (named_task("mnist-2nn").task, "cuda", "lanes"),
        (named_task("mnist-cnn").task, "cuda:0", "lanes"),
        (Task(lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), cross_entropy), "cuda", "sequential"),
    ],
)
def test_auto_takes_the_fastest_engine_that_can(task, device, engine):
    assert chosen_engine("auto", task, device) == engine


def test_what_was_asked_for_is_taken():
    assert chosen_engine("sequential", named_task("mnist-2nn").task, "cuda") == "sequential"
