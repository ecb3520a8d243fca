"""An ordinary module, run on the examples of all lanes at once.

Lanes are folded into the batch: the module sees one batch of L*B examples. Layers without weights (ReLU, pooling,
flatten, ...) treat examples one by one and need not know; layers with weights are exchanged, in a copy of the
module, for ones that find their lane's weights in stacked tensors. So an `nn.Module` that a user wrote runs as it
is, at the speed of a batch.

What cannot be folded is refused with the layer's name, before training: a layer with weights that has no lane form,
state beside the weights (BatchNorm), random layers, and a `forward` that mixes examples or uses weights outside its
layers, which a trial against the plain module finds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from stayput.core.tensors import Groups
from stayput.engines.lanes.layers import Descent, LaneConv2d, LaneLinear, lane_layout
from stayput.engines.lanes.windows import Window
from stayput.errors import ModelMisfit

WAY_OUT = "use engine='sequential', which trains any model"
Weights = Mapping[str, Tensor]


class FoldedModule:
    """A module's twin over stacked weights."""

    def __init__(self, module: nn.Module) -> None:
        _refuse_unfoldable(module)
        self._twin = nn.Sequential(copy.deepcopy(module)).train()  # a holder: the module may itself be a layer
        self._bound: list[_LaneLayer] = []
        for name, layer in list(self._twin[0].named_modules()):
            if type(layer) in LANE_LAYERS:
                lane_layer = LANE_LAYERS[type(layer)](layer, name)
                self._bound.append(lane_layer)
                parent, _, last = f"0.{name}".rstrip(".").rpartition(".")
                setattr(self._twin.get_submodule(parent), last, lane_layer)

    def bind(self, weights: Weights, descent: Descent) -> Callable[[Tensor], Tensor]:
        """The module as a function of folded inputs, over these weights; backward takes the step of `descent`."""
        for layer in self._bound:
            layer.take(weights, descent)
        return self._twin


class _LaneLayer(nn.Module):
    """A layer that finds its weights, [lane, ...], where it was told to."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._prefix = f"{name}." if name else ""
        self._weight: Tensor | None = None
        self._bias: Tensor | None = None
        self._descent: Descent | None = None

    def take(self, weights: Weights, descent: Descent) -> None:
        """Remember the stacked weights of this layer, and the step to take."""
        self._weight = weights[f"{self._prefix}weight"]
        self._bias = weights.get(f"{self._prefix}bias")
        self._descent = descent


class _Linear(_LaneLayer):
    def __init__(self, layer: nn.Linear, name: str) -> None:
        super().__init__(name)
        del layer  # everything about it is in its weights

    def forward(self, x: Tensor) -> Tensor:
        assert self._descent is not None  # noqa: S101 - `bind` comes first
        y: Tensor = LaneLinear.apply(  # type: ignore[no-untyped-call]
            x, self._weight, self._bias, self._descent, self._descent.spark
        )
        return y


class _Conv2d(_LaneLayer):
    def __init__(self, layer: nn.Conv2d, name: str) -> None:
        super().__init__(name)
        padding = layer.padding
        if layer.groups != 1 or layer.padding_mode != "zeros" or isinstance(padding, str):
            raise ModelMisfit(
                f"layer {name!r}, {layer}: the lanes engine has convolutions of one group with zero padding given in "
                f"numbers only ({WAY_OUT})"
            )
        self._window = Window(*(_pair(sizes) for sizes in (layer.kernel_size, layer.stride, padding, layer.dilation)))

    def forward(self, x: Tensor) -> Tensor:
        assert self._descent is not None  # noqa: S101 - `bind` comes first
        y: Tensor = LaneConv2d.apply(  # type: ignore[no-untyped-call]
            x, self._weight, self._bias, self._window, self._descent, self._descent.spark
        )
        return y


def _pair(sizes: tuple[int, ...]) -> tuple[int, int]:
    height, width = sizes
    return height, width


LANE_LAYERS: dict[type[nn.Module], Callable[..., _LaneLayer]] = {nn.Linear: _Linear, nn.Conv2d: _Conv2d}
"""Layers with weights that have a form over lanes. A subclass of one may do anything and is not taken for it."""

RANDOM_LAYERS = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
    nn.RReLU,
)


def refuse_different_outputs(
    module: nn.Module, inputs: Tensor, fold: Callable[[Tensor, Groups], Tensor], models: list[Groups]
) -> None:
    """Refuse a module whose folded form says something else than the module itself, lane by lane.

    `inputs` are shared out among the models, so that each lane has other examples.
    """
    try:
        folded = fold(inputs, _stacked(models))
    except Exception as error:
        sentence = " ".join(str(error).split())
        raise ModelMisfit(
            f"the model {type(module).__name__} does not run on the examples of several lanes at once: "
            f"{type(error).__name__}: {sentence} ({WAY_OUT})"
        ) from error
    each = len(inputs) // len(models)
    for lane, model in enumerate(models):
        mine = slice(lane * each, (lane + 1) * each)
        with torch.no_grad():
            plain = torch.func.functional_call(module, dict(model["weights"]), (inputs[mine],))
        ours = folded[mine].detach()
        if ours.shape != plain.shape or not torch.allclose(ours, plain, rtol=1e-3, atol=1e-3):
            raise ModelMisfit(
                f"the model {type(module).__name__} gives other outputs when several lanes share a batch: its forward "
                f"mixes examples, or uses weights outside its layers ({WAY_OUT})"
            )


def _stacked(models: list[Groups]) -> Groups:
    first = models[0]
    return {
        group: {name: lane_layout(torch.stack([model[group][name] for model in models])) for name in tensors}
        for group, tensors in first.items()
    }


def _refuse_unfoldable(module: nn.Module) -> None:
    for name, layer in module.named_modules():
        label = f"layer {name or type(module).__name__!r}, {layer if name else type(layer).__name__}"
        if isinstance(layer, RANDOM_LAYERS):
            raise ModelMisfit(f"{label}: is random, which the lanes engine does not do yet ({WAY_OUT})")
        if any(True for _ in layer.buffers(recurse=False)):
            raise ModelMisfit(f"{label}: keeps state beside its weights, which lanes cannot share ({WAY_OUT})")
        if type(layer) not in LANE_LAYERS and any(True for _ in layer.parameters(recurse=False)):
            known = ", ".join(sorted(known.__name__ for known in LANE_LAYERS))
            raise ModelMisfit(f"{label}: has weights but no form over lanes (there is one for {known}; {WAY_OUT})")
    names = [name for name, _ in module.named_parameters(remove_duplicate=False)]
    if len(names) != len(list(module.named_parameters())):
        raise ModelMisfit(
            f"the model {type(module).__name__} shares weights between layers, which the lanes engine does not do yet "
            f"({WAY_OUT})"
        )
    frozen = [name for name, parameter in module.named_parameters() if not parameter.requires_grad]
    if frozen:
        raise ModelMisfit(f"weight {frozen[0]!r} is frozen, which the lanes engine does not do yet ({WAY_OUT})")
