"""A task: what is learned, apart from the data and from the algorithm.

The same task serves the simulator, a cluster and a deployment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from stayput.core.tensor_streams import Draws
from stayput.errors import InvalidSetting, UnknownName
from stayput.tasks.losses import Loss
from stayput.tasks.metrics import Metric

LOSS_NAME = "loss"
"""The name under which the loss on the test examples is reported beside the metrics."""


def unchanged(inputs: Tensor) -> Tensor:
    """The default `prepare`: inputs reach the model as they are stored."""
    return inputs


def unit_interval(inputs: Tensor) -> Tensor:
    """Bytes 0..255 as numbers in [0, 1]."""
    return inputs / 255


def centred_interval(inputs: Tensor) -> Tensor:
    """Bytes 0..255 as numbers in [-0.5, 0.5], as TensorFlow's tutorials of 2016 had them."""
    return inputs / 255 - 0.5


@dataclass(frozen=True)
class Task:
    """Model, loss and metrics."""

    model: Callable[[], nn.Module]
    """Makes a fresh model: a class, or a function without arguments."""
    loss: Loss
    """From output and targets to one value per example."""
    metrics: Sequence[Metric] = ()
    """Measured on the test examples; the first is the one that targets refer to."""
    prepare: Callable[[Tensor], Tensor] = unchanged
    """Applied to a batch of stored inputs, on the device, before the model sees them; works example by example."""
    augment: Callable[[Tensor, Draws], Tensor] | None = None
    """Takes the place of `prepare` on the minibatches that a client trains on: from stored inputs and draws of random
    numbers for each example ([batch, n] for n of them) to what the model sees."""
    num_predictions: Callable[[Tensor], Tensor] | None = None
    """From a batch of targets to how many predictions each example asks for, its weight in the means of loss and
    metrics, over a minibatch and over the test examples; one each if None. For sequences with padding."""
    name: str = "custom"

    def __post_init__(self) -> None:
        """Refuse a model that is not made here, and metrics that share a name."""
        if isinstance(self.model, nn.Module) or not callable(self.model):
            raise InvalidSetting(
                f"model={type(self.model).__name__} instance: must make a fresh model when called "
                f"(pass the class, or `lambda: MyNet(...)`)"
            )
        for name in ("loss", "prepare"):
            if not callable(value := getattr(self, name)):
                raise InvalidSetting(f"{name}={value!r}: must be a function (such as stayput.losses.cross_entropy)")
        metrics: object = self.metrics  # code that is not typed passes anything
        if not isinstance(metrics, list | tuple) or not all(isinstance(metric, Metric) for metric in metrics):
            raise InvalidSetting(
                f"metrics={self.metrics!r}: must be a list of stayput.Metric (such as [stayput.metrics.accuracy])"
            )
        names = [metric.name for metric in self.metrics]
        if len({*names, LOSS_NAME}) != len(names) + 1:
            raise InvalidSetting(f"metrics={names}: must have different names, none of them {LOSS_NAME!r}")

    def weights(self, targets: Tensor) -> Tensor | None:
        """How much each example counts in a mean; None where all count the same."""
        return None if self.num_predictions is None else self.num_predictions(targets)

    def mean_loss(self, output: Tensor, targets: Tensor) -> Tensor:
        """The mean loss over a minibatch, what a client takes the gradient of."""
        losses, weights = self.loss(output, targets), self.weights(targets)
        return losses.mean() if weights is None else (losses * weights).sum() / weights.sum()

    @property
    def target_metric(self) -> str:
        """What a target refers to: the first metric, or the loss where there is none."""
        return self.metrics[0].name if self.metrics else LOSS_NAME

    def higher_is_better(self, metric: str) -> bool:
        """Whether more of a metric is better."""
        directions = {LOSS_NAME: False, **{known.name: known.higher_is_better for known in self.metrics}}
        if metric not in directions:
            raise UnknownName("metric", metric, directions)
        return directions[metric]
