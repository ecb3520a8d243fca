"""Layers with weights, exchanged in a twin of a module for ones that find stacked weights where they are told to."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

from torch import Tensor, nn

from stayput.engines.lanes.layers import (
    LaneConv2d,
    LaneConv2dOnCpu,
    LaneEmbedding,
    LaneLinear,
    LayerWeights,
    Learning,
)
from stayput.engines.lanes.lstm import LaneLstm
from stayput.engines.lanes.windows import Window
from stayput.models.peephole_lstm import PeepholeLstm


class LaneLayer(nn.Module):
    """A layer that finds its weights, [lane, ...], where it was told to."""

    def __init__(self, layer: nn.Module, name: str) -> None:
        super().__init__()
        self._names = {own: f"{name}.{own}" if name else own for own, _ in layer.named_parameters(recurse=False)}
        self.training = layer.training
        self.calls = 0
        """How often it was called since it was given weights."""

    def take(self, weights: Mapping[str, Tensor], learning: Learning) -> None:
        """Remember the stacked weights of this layer, and what backward is to do."""
        self._weights = LayerWeights(
            {own: weights[name] for own, name in self._names.items()},
            {own: learning.into[name] for own, name in self._names.items()},
            learning.factor_L,
        )
        self._spark = learning.spark
        self.calls = 0

    def used(self) -> tuple[Tensor, LayerWeights]:
        """What a call needs; calls are counted."""
        self.calls += 1
        return self._spark, self._weights


class _Linear(LaneLayer):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = LaneLinear.apply(x, *self.used())  # type: ignore[no-untyped-call]
        return y


class _Conv2d(LaneLayer):
    def __init__(self, layer: nn.Conv2d, name: str) -> None:
        super().__init__(layer, name)
        self._window = Window.of(layer)

    def forward(self, x: Tensor) -> Tensor:
        form = LaneConv2d if x.is_cuda else LaneConv2dOnCpu
        y: Tensor = form.apply(x, *self.used(), self._window)  # type: ignore[no-untyped-call]
        return y


class _Embedding(LaneLayer):
    def __init__(self, layer: nn.Embedding, name: str) -> None:
        super().__init__(layer, name)
        self._padding_idx = layer.padding_idx

    def forward(self, index: Tensor) -> Tensor:
        y: Tensor = LaneEmbedding.apply(index, *self.used(), self._padding_idx)  # type: ignore[no-untyped-call]
        return y


class _Lstm(LaneLayer):
    def forward(self, sequence: Tensor) -> Tensor:
        y: Tensor = LaneLstm.apply(sequence, *self.used())  # type: ignore[no-untyped-call]
        return y


LANE_LAYERS: dict[type[nn.Module], Callable[..., LaneLayer]] = {
    nn.Linear: _Linear,
    nn.Conv2d: _Conv2d,
    nn.Embedding: _Embedding,
    PeepholeLstm: _Lstm,
}
"""Layers with weights that have a form over lanes. A subclass of one may do anything and is not taken for it."""


def missing_form(layer: nn.Module) -> str | None:
    """What about a layer with weights has no form over lanes, or None."""
    if type(layer) not in LANE_LAYERS:
        known = ", ".join(sorted(known.__name__ for known in LANE_LAYERS))
        return f"has weights but no form over lanes (there is one for {known})"
    if isinstance(layer, nn.Conv2d) and (layer.groups != 1 or layer.padding_mode != "zeros"):
        return "has a form over lanes only with one group and padded with zeros"
    if isinstance(layer, nn.Embedding) and (layer.max_norm is not None or layer.scale_grad_by_freq or layer.sparse):
        return "has a form over lanes only without max_norm, scale_grad_by_freq and sparse"
    return None


def twin_over_lanes(module: nn.Module) -> tuple[nn.Module, list[LaneLayer]]:
    """A copy of a module with its layers exchanged, and the layers that stand there now."""
    twin = nn.Sequential(copy.deepcopy(module)).train()  # a holder: the module may itself be a layer
    exchanged = []
    for name, layer in list(twin[0].named_modules()):
        if type(layer) in LANE_LAYERS:
            lane_layer = LANE_LAYERS[type(layer)](layer, name)
            exchanged.append(lane_layer)
            parent, _, last = f"0.{name}".rstrip(".").rpartition(".")
            setattr(twin.get_submodule(parent), last, lane_layer)
    return twin, exchanged
