"""A module that cannot be folded, run over lanes by `torch.func.vmap`: slower, but it knows nearly every layer.

Shape suffixes: L lane, B example of a minibatch, N = L*B.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from stayput.core.tensors import Tensors
from stayput.engines.lanes.model_over_lanes import GradientOfLanes
from stayput.engines.lanes.objective import Minibatches, mean_losses
from stayput.engines.masks import CountedDropout, MaskStream
from stayput.engines.precision import autocast
from stayput.tasks.task import Task


class MappedModel:
    """A module, and its gradient, mapped over stacked weights."""

    def __init__(self, task: Task, module: nn.Module, masks: MaskStream, device: torch.device) -> None:
        self._task, self._module, self._masks, self._device = task, module, masks, device
        self.descends = False
        self.repeats = not any(isinstance(layer, CountedDropout) for layer in module.modules())

    def outputs(self, weights: Tensors, minibatches: Minibatches) -> Tensor:
        """What the model says of all lanes' examples, [N, ...]."""
        inputs, *_, name_L4, gradient_L = _by_lane(minibatches)
        output_LB: Tensor = vmap(self._output)(dict(weights), inputs, name_L4, gradient_L)
        return output_LB.flatten(end_dim=1)

    def descend(self, weights: Tensors, rate_L: Tensor, minibatches: Minibatches) -> Tensor:
        """Not here: gradients are always written."""
        raise NotImplementedError

    def gradient_of_lanes(self, minibatches: Minibatches) -> GradientOfLanes:
        """The gradient of each lane's mean loss."""

        def loss_of(weights: Tensors, lane: tuple[Tensor, ...], call: int) -> Tensor:
            inputs, targets, share_B, name_4, gradient = lane
            output = self._output(weights, inputs, name_4, gradient + call)
            return mean_losses(self._task, output, targets, share_B[None])[0]

        def at(lane: tuple[Tensor, ...], weights: Tensors, call: int) -> tuple[dict[str, Tensor], Tensor]:
            gradient, loss = grad_and_value(loss_of)(dict(weights), lane, call)
            return gradient, loss

        return GradientOfLanes(_by_lane(minibatches), at)

    def _output(self, weights: Tensors, inputs: Tensor, name_4: Tensor, gradient: Tensor) -> Tensor:
        self._masks.begin_forward(name_4, gradient)
        with autocast(self._device):
            output: Tensor = functional_call(self._module, dict(weights), (inputs,))
        return output


def _by_lane(minibatches: Minibatches) -> tuple[Tensor, ...]:
    """Inputs, targets, shares, mask names, gradients computed: each with the lane as its first dimension."""
    each = minibatches
    shape = each.share_LB.shape
    inputs, targets = (tensor.reshape(*shape, *tensor.shape[1:]) for tensor in (each.inputs, each.targets))
    return inputs, targets, each.share_LB, each.mask_name_L4, each.gradient_L
