"""The named tasks: what `stayput run NAME` and specs refer to.

To add one: a model in `models/`, a data set in `data/`, and an entry here.
"""

from __future__ import annotations

from dataclasses import dataclass

from stayput.errors import UnknownName
from stayput.models.mnist_cnn import MnistCnn
from stayput.models.two_layer_net import TwoLayerNet
from stayput.tasks.losses import cross_entropy
from stayput.tasks.metrics import accuracy
from stayput.tasks.task import Task, unit_interval


@dataclass(frozen=True)
class NamedTask:
    """A task with its data set and the paper's target for it."""

    task: Task
    data_set: str
    """A name in `data.DATA_SETS`."""
    paper_target: float
    """The accuracy that the paper counts rounds to."""
    summary: str


NAMED_TASKS = {
    named.task.name: named
    for named in (
        NamedTask(
            Task(TwoLayerNet, cross_entropy, (accuracy,), prepare=unit_interval, name="mnist-2nn"),
            data_set="mnist",
            paper_target=0.97,
            summary="MNIST digits, two hidden layers of 200 units (199,210 parameters)",
        ),
        NamedTask(
            Task(MnistCnn, cross_entropy, (accuracy,), prepare=unit_interval, name="mnist-cnn"),
            data_set="mnist",
            paper_target=0.99,
            summary="MNIST digits, two 5x5 convolutions and 512 units (1,663,370 parameters)",
        ),
    )
}
"""Named tasks by name."""


def named_task(name: str) -> NamedTask:
    """The task of that name, or an error that lists the names there are."""
    if name not in NAMED_TASKS:
        raise UnknownName("task", name, NAMED_TASKS)
    return NAMED_TASKS[name]
