from __future__ import annotations

import pytest
import torch

from stayput.data import DATA_SETS
from stayput.errors import UnknownName
from stayput.tasks.catalogue import NAMED_TASKS, named_task


@pytest.mark.parametrize("name", NAMED_TASKS)
def test_a_named_task_is_whole(name):
    named = named_task(name)
    assert named.task.name == name
    assert named.data_set in DATA_SETS
    pixels = torch.randint(256, (3, 28, 28), dtype=torch.uint8)
    prepared = named.task.prepare(pixels)
    assert prepared.min() >= 0
    assert prepared.max() <= 1
    assert named.task.model()(prepared).shape == (3, 10)


def test_an_unknown_task_lists_the_known_ones():
    with pytest.raises(UnknownName, match="task='mnist-2n': unknown; did you mean 'mnist-2nn'"):
        named_task("mnist-2n")
