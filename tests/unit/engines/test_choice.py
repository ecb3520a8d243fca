from __future__ import annotations

import pytest
from torch import nn

from stayput.engines import choice
from stayput.engines.choice import chosen_engine
from stayput.errors import InvalidSetting
from stayput.tasks.catalogue import named_task
from stayput.tasks.losses import cross_entropy
from stayput.tasks.task import Task

UNFOLDABLE = Task(lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), cross_entropy)


@pytest.mark.parametrize(
    ("task", "device", "cores", "engine"),
    [
        (named_task("mnist-2nn").task, "cpu", 2, "lane_workers"),
        (named_task("mnist-2nn").task, "cpu", 1, "lanes"),
        (named_task("mnist-cnn").task, "cpu", 2, "workers"),
        (named_task("mnist-cnn").task, "cpu", 1, "sequential"),
        (named_task("mnist-2nn").task, "cuda", 2, "lanes"),
        (named_task("mnist-cnn").task, "cuda:0", 2, "lanes"),
        (UNFOLDABLE, "cuda", 2, "sequential"),
        (UNFOLDABLE, "cpu", 2, "workers"),
        (UNFOLDABLE, "cpu", 1, "sequential"),
    ],
)
def test_auto_takes_the_fastest_engine_that_can(task, device, cores, engine, monkeypatch):
    monkeypatch.setattr(choice, "usable_cores", lambda: cores)
    assert chosen_engine("auto", task, device) == engine


def test_auto_does_without_processes_where_they_cannot_be_forked(monkeypatch):
    monkeypatch.setattr(choice, "usable_cores", lambda: 2)
    monkeypatch.setattr(choice, "why_no_workers", lambda device: InvalidSetting("no"))
    assert chosen_engine("auto", named_task("mnist-2nn").task, "cpu") == "lanes"


def test_what_was_asked_for_is_taken():
    assert chosen_engine("sequential", named_task("mnist-2nn").task, "cuda") == "sequential"
