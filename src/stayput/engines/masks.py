"""Dropout whose masks are named by what they are for, so that every engine on every device draws the same ones.

torch draws a dropout mask from a generator that a whole process shares: on a GPU other numbers than on a CPU, and for
clients stacked in lanes other numbers than for clients one after another. So dropout layers are exchanged for ones
whose masks are streams of core/seeds.py: Philox4x64, keyed by (seed, "dropout"), with a counter of round, client, and
which dropout of which of the client's gradients it is. Each word decides on four values, 16 bits each, the lowest
first: a value is dropped if its 16 bits are less than p·2¹⁶. NumPy computes the words on a CPU, a Triton kernel on
CUDA.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from stayput.core.seeds import Purpose, stream_key, words_of

LEVELS = 2**16
"""Different values of the bits that decide; p is rounded to a multiple of 1 / LEVELS."""
CALLS = 2**16
"""Dropouts of one forward pass that can be told apart."""
FULL_GRADIENT = 2**32
"""Gradients are counted from 0 while a client trains, and from here in the full gradient that some programs ask for."""


def stream_name(seed: int, round_number: int, client: int) -> tuple[int, int, int, int]:
    """What names the masks of a client in a round, as four words: two of the key, the client, the round."""
    key = stream_key(seed, Purpose.DROPOUT)
    return _signed(key % 2**64), _signed(key >> 64), client, round_number


def _signed(word: int) -> int:
    """The same 64 bits as a number that an int64 can hold."""
    return word - 2**64 if word >= 2**63 else word


class Draw(NamedTuple):
    """One dropout of all lanes."""

    call: int
    """Which of its forward pass."""
    values: int
    """How many each lane needs."""
    threshold: int
    scale: float
    dtype: torch.dtype


class MaskStream:
    """Where the dropout layers of a module find what names their masks; lanes share a batch, each with its own part."""

    def __init__(self, num_lanes: int, device: torch.device) -> None:
        self.begin_forward(
            torch.zeros(num_lanes, 4, dtype=torch.int64, device=device),
            torch.zeros(num_lanes, dtype=torch.int64, device=device),
        )

    def begin_forward(self, name_L4: Tensor, gradient_L: Tensor) -> None:
        """For each lane whose masks come next, and which of its client's gradients they are for."""
        self._name_L4, self._gradient_L, self._calls = name_L4, gradient_L, 0

    def next_noise(self, like: Tensor, p: float, shape: torch.Size) -> Tensor:
        """What the next dropout multiplies with: 0 where a value is dropped, 1/(1-p) where it is kept."""
        call, self._calls = self._calls, self._calls + 1
        if p >= 1:
            return like.new_zeros(shape)
        lanes = 1 if self._gradient_L.dim() == 0 else len(self._gradient_L)
        count = math.prod(shape) // lanes
        noise: Tensor = _Noise.apply(  # type: ignore[no-untyped-call]
            self._name_L4, self._gradient_L, Draw(call, count, round(p * LEVELS), 1 / (1 - p), like.dtype)
        )
        return noise.reshape(shape)


class CountedDropout(nn.Module):
    """nn.Dropout on a stream of masks; `per_channel` drops whole channels, [batch, channel], as nn.Dropout2d does."""

    def __init__(self, p: float, stream: MaskStream, *, per_channel: bool) -> None:
        super().__init__()
        self.p, self.stream, self._per_channel = p, stream, per_channel

    def forward(self, x: Tensor) -> Tensor:
        """Drop and scale in training; nothing in evaluation."""
        if not self.training or self.p == 0:
            return x
        shape = torch.Size((*x.shape[:2], *[1] * (x.dim() - 2))) if self._per_channel else x.shape
        return x * self.stream.next_noise(x, self.p, shape)

    def extra_repr(self) -> str:
        """What `print` shows of it."""
        return f"p={self.p}"


PER_CHANNEL: dict[type[nn.Module], bool] = {
    nn.Dropout: False,
    nn.Dropout1d: True,
    nn.Dropout2d: True,
    nn.Dropout3d: True,
}
"""The layers that are exchanged. A subclass of one may do anything and is not taken for it."""


def exchange_dropout(module: nn.Module, stream: MaskStream) -> nn.Module:
    """The module with its dropout layers exchanged, in place; itself exchanged if it is one."""
    if type(module) in PER_CHANNEL:
        return _counted(module, stream)
    for parent, name, layer in list(_dropouts(module)):
        setattr(parent, name, _counted(layer, stream))
    return module


def _dropouts(module: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    for parent in module.modules():
        for name, layer in parent.named_children():
            if type(layer) in PER_CHANNEL:
                yield parent, name, layer


def _counted(layer: nn.Module, stream: MaskStream) -> CountedDropout:
    p = float(layer.p)  # type: ignore[arg-type] # every dropout layer has one
    return CountedDropout(p, stream, per_channel=PER_CHANNEL[type(layer)]).train(layer.training)


class _Noise(torch.autograd.Function):
    """[lane, count] factors; under `vmap`, where there is one lane to see, those of all that are mapped."""

    @staticmethod
    def forward(name_L4: Tensor, gradient_L: Tensor, draw: Draw) -> Tensor:
        if gradient_L.dim() == 0:
            return _Noise.forward(name_L4[None], gradient_L[None], draw)[0]
        if gradient_L.is_cuda:
            from stayput.engines import masks_triton

            return masks_triton.noise(name_L4, gradient_L, draw)
        return plain_noise(name_L4, gradient_L, draw)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:  # noqa: ANN401, ARG004 - torch's own signature
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, ...]:  # noqa: ANN401, ARG004 - torch's own signature
        return None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, name_L4: Tensor, gradient_L: Tensor, draw: Draw) -> tuple[Tensor, int]:  # noqa: ANN401, ARG004
        return _Noise.forward(name_L4, gradient_L, draw), 0


def plain_noise(name_L4: Tensor, gradient_L: Tensor, draw: Draw) -> Tensor:
    """Factors for each lane, [lane, count], from NumPy's Philox."""
    kept = np.empty((len(gradient_L), draw.values), dtype=bool)
    for lane, ((low, high, client, round_number), gradient) in enumerate(
        zip(name_L4.tolist(), gradient_L.tolist(), strict=True)
    ):
        key = np.array([low, high], dtype=np.int64).view(np.uint64)
        words = words_of(key, -(-draw.values // 4), (gradient * CALLS + draw.call, client, round_number))
        np.greater_equal(words.astype("<u8", copy=False).view("<u2")[: draw.values], draw.threshold, out=kept[lane])
    return torch.from_numpy(kept).to(draw.dtype).mul_(draw.scale)
