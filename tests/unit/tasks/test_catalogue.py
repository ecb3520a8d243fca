from __future__ import annotations

import pytest
import torch

from stayput.data import DATA_SETS
from stayput.errors import UnknownName
from stayput.tasks.catalogue import NAMED_TASKS, named_task

STORED = {
    "mnist": (torch.randint(256, (3, 28, 28), dtype=torch.uint8), (3, 10)),
    "cifar10": (torch.randint(256, (3, 3, 32, 32), dtype=torch.uint8), (3, 10)),
    "shakespeare": (torch.randint(258, (2, 80), dtype=torch.int16), (2, 258, 80)),
    "posts": (torch.randint(10_000, (2, 10), dtype=torch.int16), (2, 10_000, 10)),
}
"""A few stored inputs of each data set, and the shape of what a model says of them."""


@pytest.mark.parametrize("name", NAMED_TASKS)
def test_a_named_task_is_whole(name):
    named = named_task(name)
    assert named.task.name == name
    assert named.data_set in DATA_SETS
    stored, shape = STORED[named.data_set]
    prepared = named.task.prepare(stored)
    assert named.task.model()(prepared).shape == shape


def test_an_unknown_task_lists_the_known_ones():
    with pytest.raises(UnknownName, match="task='mnist-2n': unknown; did you mean 'mnist-2nn'"):
        named_task("mnist-2n")
