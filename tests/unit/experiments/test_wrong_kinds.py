"""What code that is not typed may pass by mistake, each with its sentence."""

from __future__ import annotations

import pytest

import stayput as sp
from stayput.errors import InvalidSetting
from stayput.testing import ToyNet, toy_clients, toy_examples, toy_task

EXAMPLES = toy_examples(40)
GOOD = {"task": toy_task(), "clients": toy_clients(), "algorithm": sp.FedAvg(), "rounds": 1}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"task": "mnist-2nn"}, "task='mnist-2nn': must be a stayput.Task"),
        ({"task": ToyNet}, "task=a type: must be a stayput.Task"),
        ({"clients": EXAMPLES}, r"clients=a Examples: .*spread examples with .partition"),
        ({"clients": EXAMPLES.inputs}, "clients=a ndarray: must be clients"),
        ({"algorithm": "fed_avg"}, "algorithm='fed_avg': must be an algorithm's settings, such as stayput.FedAvg()"),
        ({"algorithm": None}, "algorithm=None: must be"),
        ({"test": (EXAMPLES.inputs,)}, r"test=a tuple: must be a pair of arrays .test=.x_test, y_test.."),
        ({"test": "x"}, "test='x': must be a pair"),
    ],
)
def test_each_is_refused_with_what_it_must_be(wrong, sentence):
    with pytest.raises(InvalidSetting, match=sentence):
        sp.train(**{**GOOD, **wrong})
    with pytest.raises(InvalidSetting, match=sentence):
        sp.sweep(**{**GOOD, **wrong}, over={"learning_rate": [0.1]})


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"loss": "cross_entropy"}, "loss='cross_entropy': must be a function"),
        ({"prepare": None}, "prepare=None: must be a function"),
        ({"metrics": "accuracy"}, "metrics='accuracy': must be a list of stayput.Metric"),
        ({"metrics": [len]}, "must be a list of stayput.Metric"),
    ],
)
def test_a_tasks_parts_are_what_they_must_be(wrong, sentence):
    with pytest.raises(InvalidSetting, match=sentence):
        sp.Task(**{"model": ToyNet, "loss": sp.losses.cross_entropy, **wrong})
