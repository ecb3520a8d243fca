"""How weights begin, where a model of 2016 began otherwise than torch does.

The paper does not say how its models were initialised. Its code ran on TensorFlow, where in 2016 the choice was the
code's own; the named ones below are those that its tutorials and its default made. Which of them gives the paper's
numbers is measured: docs/paper.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

Layer = nn.Linear | nn.Conv2d


def truncated_normal_(weight: Tensor, deviation: float) -> None:
    """`tf.truncated_normal`: a normal number is drawn again until it is within two deviations of 0."""
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)


def unit_scaling_(weight: Tensor, inputs: int) -> None:
    """The default of `tf.get_variable`: uniform, so that an output has about the scale of one of its `inputs`."""
    bound = math.sqrt(3 / inputs)
    with torch.no_grad():
        weight.uniform_(-bound, bound)


def unit_scaling_layer_(layer: Layer) -> None:
    """The default of `tf.get_variable` in 2016; biases 0."""
    unit_scaling_(layer.weight, layer.weight[0].numel())
    _set_bias(layer, 0.0)


def _tutorial_(layer: Layer) -> None:
    truncated_normal_(layer.weight, 0.1)
    _set_bias(layer, 0.1)


def _mechanics_(layer: Layer) -> None:
    truncated_normal_(layer.weight, 1 / math.sqrt(layer.weight[0].numel()))
    _set_bias(layer, 0.0)


def _glorot_(layer: Layer) -> None:
    nn.init.xavier_uniform_(layer.weight)
    _set_bias(layer, 0.0)


def _set_bias(layer: Layer, value: float) -> None:
    if layer.bias is not None:
        nn.init.constant_(layer.bias, value)


INITIALISATIONS: dict[str, Callable[[Layer], None]] = {
    "torch": lambda layer: None,  # noqa: ARG005 - as the layer was made
    "unit_scaling": unit_scaling_layer_,
    "glorot": _glorot_,
    "truncated_normal": _tutorial_,
    "fan_in_normal": _mechanics_,
}
"""torch: torch's own, uniform within ±1/sqrt(inputs), biases too.
unit_scaling: uniform within ±sqrt(3/inputs), biases 0: `tf.get_variable` without an initialiser, in 2016.
glorot: uniform within ±sqrt(6/(inputs + outputs)), biases 0: `tf.contrib.layers`, later the default.
truncated_normal: deviation 0.1, biases 0.1: the tutorial "Deep MNIST for Experts".
fan_in_normal: truncated normal, deviation 1/sqrt(inputs), biases 0: the tutorial "MNIST Mechanics 101"."""


def initialise_(module: nn.Module, name: str) -> None:
    """Draw the weights of all linear and convolutional layers of a module anew, layer by layer."""
    draw = INITIALISATIONS[name]
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            draw(layer)
