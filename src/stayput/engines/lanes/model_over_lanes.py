"""What a model over lanes is, whichever way it is computed: folded (`folding.py`) or mapped (`mapping.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from stayput.core.tensors import Tensors
from stayput.engines.lanes.objective import Minibatches
from stayput.errors import ModelMisfit

WAY_OUT = "use engine='sequential', which trains any model"


class GradientOfLanes(NamedTuple):
    """The gradient of each lane's mean loss, for a program that is mapped over lanes and sees one."""

    mapped: tuple[Tensor, ...]
    """What must be mapped over lanes beside the program's own tensors."""
    at: Callable[[Any, Tensors, int], tuple[dict[str, Tensor], Tensor]]
    """From a lane's part of `mapped`, its weights, and how many gradients the step has asked for before, to the
    gradient and the loss."""


class ModelOverLanes(Protocol):
    """A model with weights of its own in every lane."""

    descends: bool
    """Whether `descend` may be used."""
    repeats: bool
    """Whether it does nothing but torch's operations, so that they may be recorded and replayed: masks of dropout are
    drawn by other means."""

    def outputs(self, weights: Tensors, minibatches: Minibatches) -> Tensor:
        """What the model says of all lanes' examples, [N, ...]."""
        ...

    def descend(self, weights: Tensors, rate_L: Tensor, minibatches: Minibatches) -> Tensor:
        """Take a step of SGD, in place, and give the mean losses before it."""
        ...

    def gradient_of_lanes(self, minibatches: Minibatches) -> GradientOfLanes:
        """The gradient of each lane's mean loss."""
        ...


def cannot(module: nn.Module, layer_name: str, reason: str) -> ModelMisfit:
    """The refusal of a model, or of a layer of it."""
    if not layer_name:
        return ModelMisfit(f"the model {type(module).__name__}: {reason} ({WAY_OUT})")
    return ModelMisfit(f"layer {layer_name!r}, {module.get_submodule(layer_name)}: {reason} ({WAY_OUT})")
