"""Layers over stacked weights: every lane has its own, and its own share of the batch.

Shape suffixes: L lane, B example of a lane, N = L*B, I inputs, O outputs, C channels, H W height and width, M output
positions of a lane's examples, K positions in a convolution's window times channels. Inputs come folded, [N, ...]: to
layers without weights a batch of all lanes' examples is a batch like any other.

Backward adds the gradient of the weights, times a factor for each lane, into tensors that it is told. If these are
the weights themselves and the factor is -η, that is the step of SGD as the accumulation of a matrix product: the
gradient of a weight is never written to memory, which halves the memory traffic of a step, and that is what limits
small models. A layer's weights are changed after the gradient of its inputs has been computed from them, and nothing
reads them again in that step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from stayput.engines.lanes.windows import Window, gather_windows, scatter_windows
from stayput.engines.precision import product_dtype

Context = Any
"""What autograd passes from forward to backward; it has no type of its own."""


@dataclass(frozen=True, slots=True)
class Learning:
    """What backward does with the gradients of weights."""

    into: Mapping[str, Tensor]
    """Where they are added: the weights themselves, or zeros."""
    factor_L: Tensor | None
    """What they are multiplied with: -η of every lane, or nothing."""
    spark: Tensor
    """A scalar that requires a gradient, so that backward comes by although no weight and no input does."""

    @property
    def descends(self) -> bool:
        """Whether backward changes the weights, so that each may be used once only."""
        return self.factor_L is not None


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """The stacked weights of one layer, by their names in it, and where their gradients go."""

    of: Mapping[str, Tensor]
    into: Mapping[str, Tensor]
    factor_L: Tensor | None

    def scaled(self, gradient: Tensor) -> Tensor:
        """A gradient [lane, ...] times the factors."""
        if self.factor_L is None:
            return gradient
        return gradient * self.factor_L.reshape(-1, *[1] * (gradient.dim() - 1))


class LaneLinear(torch.autograd.Function):
    """y = x·wᵀ + b, a bmm over lanes."""

    @staticmethod
    def forward(
        ctx: Context,
        x_NI: Tensor,
        spark: Tensor,  # noqa: ARG004 - it is there to be differentiated
        weights: LayerWeights,
    ) -> Tensor:
        """All lanes' examples through their lane's weights."""
        weight_LOI, bias_LO = weights.of["weight"], weights.of.get("bias")
        x_LBI = x_NI.reshape(len(weight_LOI), -1, x_NI.shape[-1]).to(product_dtype(x_NI))
        ctx.save_for_backward(x_LBI)
        ctx.weights, ctx.shape = weights, x_NI.shape
        return affine(x_LBI, weight_LOI, bias_LO).reshape(*x_NI.shape[:-1], weight_LOI.shape[1])

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the inputs, then that of the weights."""
        (x_LBI,) = ctx.saved_tensors
        weight_LOI = ctx.weights.of["weight"]
        gy_LBO = gradients[0].reshape(len(weight_LOI), -1, weight_LOI.shape[1])
        gx_LBI = learn_affine(gy_LBO, x_LBI, weight_LOI, ctx.weights, needs_gx=ctx.needs_input_grad[0])
        return None if gx_LBI is None else gx_LBI.reshape(ctx.shape), None, None


class LaneConv2d(torch.autograd.Function):
    """A convolution as a bmm over lanes of gathered windows (im2col)."""

    @staticmethod
    def forward(
        ctx: Context,
        x_NCHW: Tensor,
        spark: Tensor,  # noqa: ARG004 - it is there to be differentiated
        weights: LayerWeights,
        window: Window,
    ) -> Tensor:
        """All lanes' images through their lane's filters."""
        weight_LOK = _filters(weights.of["weight"])
        lanes, outputs, _ = weight_LOK.shape
        images_NHWC = x_NCHW.permute(0, 2, 3, 1).to(product_dtype(x_NCHW))
        windows = gather_windows(images_NHWC, window)
        windows_LMK = windows.view(lanes, -1, weight_LOK.shape[2])
        ctx.save_for_backward(windows_LMK)
        ctx.weights, ctx.window, ctx.windows_shape, ctx.shape = weights, window, windows.shape, x_NCHW.shape
        y_LMO = affine(windows_LMK, weight_LOK, weights.of.get("bias"))
        return y_LMO.view(*windows.shape[:3], outputs).permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the images, then that of the filters."""
        (windows_LMK,) = ctx.saved_tensors
        weight_LOK = _filters(ctx.weights.of["weight"])
        lanes, outputs, _ = weight_LOK.shape
        gy_LMO = gradients[0].permute(0, 2, 3, 1).reshape(lanes, -1, outputs)
        gwindows = learn_affine(gy_LMO, windows_LMK, weight_LOK, ctx.weights, needs_gx=ctx.needs_input_grad[0])
        if gwindows is None:
            return None, None, None, None
        examples, channels, height, width = ctx.shape
        image = torch.Size((examples, height, width, channels))
        gx = scatter_windows(gwindows.view(ctx.windows_shape), image, ctx.window)
        return gx.permute(0, 3, 1, 2), None, None, None


class LaneConv2dOnCpu(torch.autograd.Function):
    """A convolution of each lane in turn by torch's own kernels, which on a CPU gathered windows lose to."""

    @staticmethod
    def forward(
        ctx: Context,
        x_NCHW: Tensor,
        spark: Tensor,  # noqa: ARG004 - it is there to be differentiated
        weights: LayerWeights,
        window: Window,
    ) -> Tensor:
        """Each lane's images through its filters."""
        more_h, more_w = window.more_behind
        padded = pad(x_NCHW, (0, more_w, 0, more_h)) if more_h or more_w else x_NCHW
        padded = padded.to(product_dtype(padded))
        filters, biases = weights.of["weight"], weights.of.get("bias")
        ctx.save_for_backward(padded)
        ctx.weights, ctx.window, ctx.size = weights, window, x_NCHW.shape[2:]
        each = padded.view(len(filters), -1, *padded.shape[1:])
        y = [
            conv2d(images, kernel, None if biases is None else biases[lane], *_settings(window))
            for lane, (images, kernel) in enumerate(zip(each, filters, strict=True))
        ]
        return torch.cat(y)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the images, then that of the filters, lane by lane."""
        (padded,) = ctx.saved_tensors
        filters, needs_gx, lanes = ctx.weights.of["weight"], ctx.needs_input_grad[0], len(ctx.weights.of["weight"])
        gy = gradients[0].view(lanes, -1, *gradients[0].shape[1:])
        each = padded.view(lanes, -1, *padded.shape[1:])
        gx, gfilters = [], []
        for lane in range(lanes):
            of_images, of_filters, _ = torch.ops.aten.convolution_backward(
                gy[lane], each[lane], filters[lane].to(padded.dtype), None, *_settings(ctx.window), False, [0, 0], 1,
                [needs_gx, True, False],
            )  # fmt: skip
            gx.append(of_images)
            gfilters.append(of_filters)
        for lane, gradient in enumerate(gfilters):
            factor = 1 if ctx.weights.factor_L is None else ctx.weights.factor_L[lane]
            ctx.weights.into["weight"][lane].add_(gradient * factor)
        if "bias" in ctx.weights.into:
            ctx.weights.into["bias"].add_(ctx.weights.scaled(gy.sum(dim=(1, 3, 4))))
        height, width = ctx.size
        return torch.cat(gx)[:, :, :height, :width] if needs_gx else None, None, None, None


class LaneEmbedding(torch.autograd.Function):
    """Rows of each lane's table."""

    @staticmethod
    def forward(
        ctx: Context,
        index_N: Tensor,
        spark: Tensor,  # noqa: ARG004 - it is there to be differentiated
        weights: LayerWeights,
        padding_idx: int | None,
    ) -> Tensor:
        """The rows, [N, ..., table's width]."""
        table_LVD = weights.of["weight"]
        lanes, symbols, width = table_LVD.shape
        index_LM = index_N.reshape(lanes, -1).long()
        flat = (index_LM + torch.arange(lanes, device=index_LM.device)[:, None] * symbols).view(-1)
        ctx.save_for_backward(flat, (index_LM != padding_idx) if padding_idx is not None else None)
        ctx.weights = weights
        return table_LVD.view(-1, width).index_select(0, flat).view(*index_N.shape, width)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[None, ...]:
        """Add each row's gradient into the tables."""
        flat, used_LM = ctx.saved_tensors
        into_LVD = ctx.weights.into["weight"]
        lanes, _, width = into_LVD.shape
        gy_LMD = ctx.weights.scaled(gradients[0].reshape(lanes, -1, width)).to(into_LVD.dtype)
        if used_LM is not None:
            gy_LMD = gy_LMD * used_LM[:, :, None]
        rows = into_LVD.view(-1, width)
        if rows.is_cuda:  # sorts the rows first; index_add_ would add in whatever order threads come
            rows.index_put_((flat,), gy_LMD.reshape(-1, width), accumulate=True)
        else:
            rows.index_add_(0, flat, gy_LMD.reshape(-1, width))
        return None, None, None, None


def lane_layout(stacked: Tensor) -> Tensor:
    """Stacked weights as the layers want them in memory: a convolution's, [L, O, C, KH, KW], with channels last."""
    if stacked.dim() != 5:
        return stacked.contiguous()
    return stacked.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)


def affine(x_LBI: Tensor, weight_LOI: Tensor, bias_LO: Tensor | None) -> Tensor:
    """x·wᵀ + b."""
    if bias_LO is None:
        return torch.bmm(x_LBI, weight_LOI.transpose(1, 2))
    return torch.baddbmm(bias_LO.unsqueeze(1), x_LBI, weight_LOI.transpose(1, 2))


def learn_affine(
    gy_LBO: Tensor, x_LBI: Tensor, weight_LOI: Tensor, weights: LayerWeights, *, needs_gx: bool
) -> Tensor | None:
    """The gradient of x, if it is asked for; then gyᵀx and Σ gy, times the factors, are added where they belong."""
    into_LOI = weights.into["weight"]
    into_LOI = _filters(into_LOI) if into_LOI.dim() == 5 else into_LOI
    gx_LBI = torch.bmm(gy_LBO, weight_LOI.to(gy_LBO.dtype)) if needs_gx else None
    step_LBO = weights.scaled(gy_LBO.to(into_LOI.dtype))
    if "bias" in weights.into:
        weights.into["bias"].add_(step_LBO.sum(dim=1))
    into_LOI.baddbmm_(step_LBO.transpose(1, 2), x_LBI.to(into_LOI.dtype))
    return gx_LBI


def _filters(weight: Tensor) -> Tensor:
    """Filters [L, O, C, KH, KW] as [L, O, K]: a view, since `lane_layout` made them so."""
    return weight.permute(0, 1, 3, 4, 2).view(*weight.shape[:2], -1)


def _settings(window: Window) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    return window.stride, window.padding, window.dilation
