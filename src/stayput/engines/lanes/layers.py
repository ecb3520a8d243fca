"""Layers over stacked weights: every lane has its own, and its own share of the batch.

Shape suffixes: L lane, B example of a lane, I inputs, O outputs, C channels, H W height and width, P output
position, K position in a convolution's window times channels. Inputs come folded, [L*B, ...]: to layers without
weights a batch of all lanes' examples is a batch like any other.

Backward takes the step of SGD itself: w <- w - η·g is the accumulation of a matrix product into w, so the gradient
of a weight is never written to memory. That halves the memory traffic of a step, which is what limits small models.
A layer's weights are changed after the gradient of its inputs has been computed from them, and nothing reads them
again in that step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import fold, unfold

Context = Any
"""What autograd passes from forward to backward; it has no type of its own."""


@dataclass(frozen=True, slots=True)
class Descent:
    """The step that backward takes."""

    rate_L: Tensor
    """η of every lane."""
    spark: Tensor
    """A scalar that requires a gradient, so that backward comes by although no weight and no input does."""


class LaneLinear(torch.autograd.Function):
    """y = x·wᵀ + b, a bmm over lanes."""

    @staticmethod
    def forward(
        ctx: Context,
        x_NI: Tensor,
        weight_LOI: Tensor,
        bias_LO: Tensor | None,
        descent: Descent,
        spark: Tensor,  # noqa: ARG004 - it is there to be differentiated
    ) -> Tensor:
        """All lanes' examples through their lane's weights."""
        lanes = len(weight_LOI)
        x_LBI = x_NI.reshape(lanes, -1, x_NI.shape[-1])
        ctx.save_for_backward(x_LBI, weight_LOI, bias_LO)
        ctx.rate_L, ctx.shape = descent.rate_L, x_NI.shape
        y_LBO = _affine(x_LBI, weight_LOI.transpose(1, 2), bias_LO)
        return y_LBO.reshape(*x_NI.shape[:-1], y_LBO.shape[-1])

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the inputs, then the step."""
        x_LBI, weight_LOI, bias_LO = ctx.saved_tensors
        gy_LBO = gradients[0].reshape(len(weight_LOI), -1, weight_LOI.shape[1])
        gx = torch.bmm(gy_LBO, weight_LOI).reshape(ctx.shape) if ctx.needs_input_grad[0] else None
        _descend(weight_LOI, bias_LO, gy_LBO, x_LBI, ctx.rate_L)
        return gx, None, None, None, None


class LaneConv2d(torch.autograd.Function):
    """A convolution as a bmm over lanes of unfolded windows (im2col)."""

    @staticmethod
    def forward(
        ctx: Context,
        x_NCHW: Tensor,
        weight: Tensor,
        bias_LO: Tensor | None,
        window: Window,
        descent: Descent,
        spark: Tensor,  # noqa: ARG004 - it is there to be differentiated
    ) -> Tensor:
        """All lanes' images through their lane's filters."""
        lanes, examples = len(weight), len(x_NCHW)
        weight_LOK = weight.reshape(lanes, weight.shape[1], -1)
        height, width = window.output_size(x_NCHW.shape[2], x_NCHW.shape[3])
        columns_NKP = unfold(x_NCHW, window.kernel, window.dilation, window.padding, window.stride)
        columns_LMK = columns_NKP.transpose(1, 2).reshape(lanes, -1, columns_NKP.shape[1])
        ctx.save_for_backward(columns_LMK, weight_LOK, bias_LO)
        ctx.rate_L, ctx.window, ctx.image = descent.rate_L, window, x_NCHW.shape
        y_LMO = _affine(columns_LMK, weight_LOK.transpose(1, 2), bias_LO)
        return y_LMO.reshape(examples, height, width, -1).permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the images, then the step."""
        columns_LMK, weight_LOK, bias_LO = ctx.saved_tensors
        lanes, outputs, _ = weight_LOK.shape
        gy_LMO = gradients[0].permute(0, 2, 3, 1).reshape(lanes, -1, outputs)
        gx = None
        if ctx.needs_input_grad[0]:
            gcolumns_LMK = torch.bmm(gy_LMO, weight_LOK)
            gcolumns_NKP = gcolumns_LMK.reshape(ctx.image[0], -1, gcolumns_LMK.shape[-1]).transpose(1, 2)
            window = ctx.window
            gx = fold(gcolumns_NKP, ctx.image[2:], window.kernel, window.dilation, window.padding, window.stride)
        _descend(weight_LOK, bias_LO, gy_LMO, columns_LMK, ctx.rate_L)
        return gx, None, None, None, None, None


@dataclass(frozen=True, slots=True)
class Window:
    """How a convolution's window moves over an image."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """The size of what comes out of an image."""
        sizes = [
            (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, padding, dilation in zip(
                (height, width), self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        ]
        return sizes[0], sizes[1]


def _affine(x_LBI: Tensor, weight_LIO: Tensor, bias_LO: Tensor | None) -> Tensor:
    if bias_LO is None:
        return torch.bmm(x_LBI, weight_LIO)
    return torch.baddbmm(bias_LO.unsqueeze(1), x_LBI, weight_LIO)


def _descend(weight_LOI: Tensor, bias_LO: Tensor | None, gy_LBO: Tensor, x_LBI: Tensor, rate_L: Tensor) -> None:
    """Take the step w <- w - η·gyᵀx, b <- b - η·Σ gy, in place."""
    step_LBO = gy_LBO * -rate_L[:, None, None]
    weight_LOI.baddbmm_(step_LBO.transpose(1, 2), x_LBI)
    if bias_LO is not None:
        bias_LO.add_(step_LBO.sum(dim=1))
