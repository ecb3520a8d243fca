"""How weights begin, where a model of 2016 began otherwise than torch does.

TensorFlow 0.12, which the paper's experiments ran on, left the choice to the code: its tutorials drew truncated normal
numbers (`truncated_normal_`) and set biases to 0.1, `tf.get_variable` without an initialiser drew uniform ones of unit
scale (`unit_scaling_`), and layers drew Glorot's (torch has these). Must not import anything of stayput.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def truncated_normal_(weight: Tensor, deviation: float) -> None:
    """`tf.truncated_normal`: a normal number is drawn again until it is within two deviations of 0."""
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)


def unit_scaling_(weight: Tensor, inputs: int) -> None:
    """The default of `tf.get_variable`: uniform, so that an output has about the scale of one of its `inputs`."""
    bound = math.sqrt(3 / inputs)
    with torch.no_grad():
        weight.uniform_(-bound, bound)


def unit_scaling_linear_(layer: nn.Linear) -> None:
    """Weights of unit scale, biases 0."""
    unit_scaling_(layer.weight, layer.in_features)
    nn.init.zeros_(layer.bias)
