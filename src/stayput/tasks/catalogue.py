"""The named tasks: what `stayput run NAME` and specs refer to.

To add one: a model in `models/`, a data set in `data/`, and an entry here.
"""

from __future__ import annotations

from dataclasses import dataclass

from stayput.data import posts, shakespeare
from stayput.errors import UnknownName
from stayput.models import CharLstm, CifarCnn, MnistCnn, TwoLayerNet, WordLstm
from stayput.tasks.image_augmentation import augmented, centred
from stayput.tasks.losses import cross_entropy
from stayput.tasks.metrics import accuracy
from stayput.tasks.sequences import PaddedSequences, symbols
from stayput.tasks.task import Task, centred_interval, unit_interval


@dataclass(frozen=True)
class NamedTask:
    """A task with its data set and the paper's target for it."""

    task: Task
    data_set: str
    """A name in `data.DATA_SETS`."""
    paper_target: float
    """The accuracy that the paper counts rounds to."""
    summary: str


_LINES = PaddedSequences((shakespeare.PADDING,))
_POSTS = PaddedSequences((posts.NOTHING, posts.UNKNOWN))

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
            Task(TwoLayerNet, cross_entropy, (accuracy,), prepare=centred_interval, name="mnist-2nn-paper"),
            data_set="mnist",
            paper_target=0.97,
            summary="the same with pixels in [-0.5, 0.5], which gives the paper's rounds; [0, 1] needs fewer",
        ),
        NamedTask(
            Task(MnistCnn, cross_entropy, (accuracy,), prepare=unit_interval, name="mnist-cnn"),
            data_set="mnist",
            paper_target=0.99,
            summary="MNIST digits, two 5x5 convolutions and 512 units (1,663,370 parameters)",
        ),
        NamedTask(
            Task(
                CharLstm,
                _LINES.cross_entropy,
                (_LINES.accuracy,),
                prepare=symbols,
                num_predictions=_LINES.num_predictions,
                name="shakespeare-lstm",
            ),
            data_set="shakespeare",
            paper_target=0.54,
            summary="the next character in Shakespeare, two LSTM layers of 256 (866,578 parameters)",
        ),
        NamedTask(
            Task(CifarCnn, cross_entropy, (accuracy,), prepare=centred, augment=augmented, name="cifar10-cnn"),
            data_set="cifar10",
            paper_target=0.85,
            summary="CIFAR-10 images, the TensorFlow tutorial's CNN (1,068,298 parameters)",
        ),
        NamedTask(
            Task(
                WordLstm,
                _POSTS.cross_entropy,
                (_POSTS.accuracy,),
                prepare=symbols,
                num_predictions=_POSTS.num_predictions,
                name="posts-lstm",
            ),
            data_set="posts",
            paper_target=0.105,
            summary="the next word in posts, an LSTM of 256 over 10,000 words (4,950,544 parameters)",
        ),
    )
}
"""Named tasks by name."""


def named_task(name: str) -> NamedTask:
    """The task of that name, or an error that lists the names there are."""
    if name not in NAMED_TASKS:
        raise UnknownName("task", name, NAMED_TASKS)
    return NAMED_TASKS[name]
