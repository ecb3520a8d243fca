"""An ordinary module, run on the examples of all lanes at once.

Lanes are folded into the batch: the module sees one batch of L*B examples. Layers without weights (ReLU, pooling,
flatten, dropout, ...) treat examples one by one and need not know; layers with weights are exchanged, in a twin of the
module, for ones that find their lane's weights in stacked tensors. So an `nn.Module` that a user wrote runs as it is,
at the speed of a batch.

A layer with weights that has no form over lanes, weights outside of layers, shared weights, and a `forward` that mixes
examples cannot be folded. `choice_of_model` finds out, and falls back to `mapping.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from stayput.core.tensors import Tensors
from stayput.engines.lanes.exchange import missing_form, twin_over_lanes
from stayput.engines.lanes.layers import Learning
from stayput.engines.lanes.model_over_lanes import GradientOfLanes, cannot
from stayput.engines.lanes.objective import Minibatches, mean_losses
from stayput.engines.masks import CountedDropout, MaskStream
from stayput.engines.precision import autocast
from stayput.tasks.task import Task


class FoldedModel:
    """A module's twin over stacked weights."""

    def __init__(self, task: Task, module: nn.Module, device: torch.device) -> None:
        refuse_unfoldable(module)
        self._task, self._device = task, device
        self._twin, self._layers = twin_over_lanes(module)
        self._masks = MaskStream(1, device)
        dropouts = [layer for layer in self._twin.modules() if isinstance(layer, CountedDropout)]
        for layer in dropouts:
            layer.stream = self._masks
        self.repeats = not dropouts
        self.descends = True
        """Whether backward may take the step of SGD: not where a layer is called twice, since it would meet weights
        that have been changed. Known once the model has been run."""

    def outputs(self, weights: Tensors, minibatches: Minibatches, learning: Learning | None = None) -> Tensor:
        """What the model says of all lanes' examples, [N, ...]."""
        if learning is None:
            dtype = next(iter(weights.values())).dtype
            learning = Learning(weights, None, torch.zeros((), dtype=dtype, device=self._device))
        for layer in self._layers:
            layer.take(weights, learning)
        self._masks.begin_forward(minibatches.mask_name_L4, minibatches.gradient_L)
        with autocast(self._device):
            output: Tensor = self._twin(minibatches.inputs)
        self.descends = self.descends and all(layer.calls <= 1 for layer in self._layers)
        return output

    def descend(self, weights: Tensors, rate_L: Tensor, minibatches: Minibatches) -> Tensor:
        """Take a step of SGD, in place, and give the mean losses before it."""
        return self._learn(weights, Learning(weights, -rate_L, _spark_like(rate_L)), minibatches)

    def gradient_of_lanes(self, minibatches: Minibatches) -> GradientOfLanes:
        """All lanes' gradients at once, however the program that asks for them sees one lane only."""

        def of_all(stacked: Sequence[Tensor], names: Sequence[str], call: int) -> tuple[Tensor, ...]:
            weights = dict(zip(names, stacked, strict=True))
            into = {name: torch.zeros_like(weight) for name, weight in weights.items()}
            later = replace(minibatches, gradient_L=minibatches.gradient_L + call)
            loss_L = self._learn(weights, Learning(into, None, _spark_like(minibatches.share_LB)), later)
            return *into.values(), loss_L

        def at(_: object, weights: Tensors, call: int) -> tuple[dict[str, Tensor], Tensor]:
            *gradients, loss = _AcrossLanes.apply(of_all, tuple(weights), call, *weights.values())  # type: ignore[no-untyped-call]
            return dict(zip(weights, gradients, strict=True)), loss

        return GradientOfLanes((), at)

    def _learn(self, weights: Tensors, learning: Learning, minibatches: Minibatches) -> Tensor:
        output = self.outputs(weights, minibatches, learning)
        loss_L = mean_losses(self._task, output, minibatches.targets, minibatches.share_LB)
        torch.autograd.grad(loss_L, learning.spark, torch.ones_like(loss_L), allow_unused=True)
        return loss_L.detach()


class _AcrossLanes(torch.autograd.Function):
    """A function of stacked tensors that may be called under `vmap` over the lanes, where one lane is to be seen."""

    @staticmethod
    def forward(of_all: object, names: object, call: object, *weights: Tensor) -> tuple[Tensor, ...]:
        raise NotImplementedError  # only under vmap

    @staticmethod
    def setup_context(ctx: object, inputs: object, output: object) -> None:
        """Nothing is differentiated."""

    @staticmethod
    def vmap(info, in_dims, of_all, names, call, *weights):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN002, ANN205 - torch's own signature
        """The function itself, on the tensors of all lanes."""
        stacked = [
            weight.expand(info.batch_size, *weight.shape) if dim is None else weight.movedim(dim, 0)
            for weight, dim in zip(weights, in_dims[3:], strict=True)
        ]
        results = of_all(stacked, names, call)
        return results, (0,) * len(results)


def _spark_like(tensor: Tensor) -> Tensor:
    return torch.zeros((), dtype=tensor.dtype, device=tensor.device, requires_grad=True)


def refuse_unfoldable(module: nn.Module) -> None:
    """Raise `ModelMisfit` if a layer with weights has no form over lanes, or weights are shared."""
    for name, layer in module.named_modules():
        if not any(True for _ in layer.parameters(recurse=False)):
            continue
        missing = missing_form(layer)
        if missing is not None:
            raise cannot(module, name, missing)
    names = [name for name, _ in module.named_parameters(remove_duplicate=False)]
    if len(names) != len(list(module.named_parameters())):
        raise cannot(module, "", "shares weights between layers")
