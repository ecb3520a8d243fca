"""Layers over stacked weights: every lane has its own, and its own share of the batch.

Shape suffixes: L lane, B example of a lane, N = L*B, I inputs, O outputs, C channels, H W height and width, M output
positions of a lane's examples, K positions in a convolution's window times channels. Inputs come folded, [N, ...]: to
layers without weights a batch of all lanes' examples is a batch like any other.

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

from stayput.engines.lanes.windows import Window, gather_windows, scatter_windows

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
    """A convolution as a bmm over lanes of gathered windows (im2col)."""

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
        lanes, outputs = weight.shape[:2]
        # A view, so that the step of SGD on it is one on the weights; `lane_layout` made them so.
        weight_LOK = weight.permute(0, 1, 3, 4, 2).view(lanes, outputs, -1)
        windows = gather_windows(x_NCHW.permute(0, 2, 3, 1), window)
        windows_LMK = windows.view(lanes, -1, weight_LOK.shape[2])
        ctx.save_for_backward(windows_LMK, weight_LOK, bias_LO)
        ctx.rate_L, ctx.window, ctx.windows_shape, ctx.shape = descent.rate_L, window, windows.shape, x_NCHW.shape
        y_LMO = _affine(windows_LMK, weight_LOK.transpose(1, 2), bias_LO)
        return y_LMO.view(*windows.shape[:3], outputs).permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the images, then the step."""
        windows_LMK, weight_LOK, bias_LO = ctx.saved_tensors
        lanes, outputs, _ = weight_LOK.shape
        gy_LMO = gradients[0].permute(0, 2, 3, 1).reshape(lanes, -1, outputs)
        gx = None
        if ctx.needs_input_grad[0]:
            examples, channels, height, width = ctx.shape
            gwindows = torch.bmm(gy_LMO, weight_LOK).view(ctx.windows_shape)
            image = torch.Size((examples, height, width, channels))
            gx = scatter_windows(gwindows, image, ctx.window).permute(0, 3, 1, 2)
        _descend(weight_LOK, bias_LO, gy_LMO, windows_LMK, ctx.rate_L)
        return gx, None, None, None, None, None


def lane_layout(stacked: Tensor) -> Tensor:
    """Stacked weights as the layers want them in memory: a convolution's, [L, O, C, KH, KW], with channels last."""
    if stacked.dim() != 5:
        return stacked.contiguous()
    return stacked.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)


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
