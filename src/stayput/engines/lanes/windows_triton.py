"""The kernels of `windows.py`: one element a thread, every byte read and written once.

Run on the CPU by Triton's interpreter (TRITON_INTERPRET=1) in the tests.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from stayput.engines.lanes.windows import Window

BLOCK = 1024


def gather_windows(images_NHWC: Tensor, window: Window) -> Tensor:
    """Every window of every image, [N, OH, OW, KH, KW, C]; images must be contiguous."""
    examples, height, width, channels = images_NHWC.shape
    out_height, out_width = window.output_size(height, width)
    windows = images_NHWC.new_empty(examples, out_height, out_width, *window.kernel, channels)
    _gather[(triton.cdiv(windows.numel(), BLOCK),)](
        images_NHWC, windows, windows.numel(), height, width, channels, out_height, out_width, *_sizes(window), BLOCK
    )
    return windows


def scatter_windows(windows: Tensor, image_shape: torch.Size, window: Window) -> Tensor:
    """Sum what windows hold of each pixel, [N, H, W, C]; windows must be contiguous."""
    _, height, width, channels = image_shape
    out_height, out_width = windows.shape[1:3]
    images = windows.new_empty(image_shape)
    _scatter[(triton.cdiv(images.numel(), BLOCK),)](
        windows, images, images.numel(), height, width, channels, out_height, out_width, *_sizes(window), BLOCK
    )
    return images


def _sizes(window: Window) -> tuple[int, ...]:
    return (*window.kernel, *window.stride, *window.padding, *window.dilation)


@triton.jit
def _gather(
    images,
    windows,
    count,
    height: tl.constexpr,
    width: tl.constexpr,
    channels: tl.constexpr,
    out_height: tl.constexpr,
    out_width: tl.constexpr,
    kernel_h: tl.constexpr,
    kernel_w: tl.constexpr,
    step_h: tl.constexpr,
    step_w: tl.constexpr,
    pad_h: tl.constexpr,
    pad_w: tl.constexpr,
    apart_h: tl.constexpr,
    apart_w: tl.constexpr,
    block: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    channel = (at % channels).to(tl.int32)
    rest = at // channels
    column = (rest % kernel_w).to(tl.int32)
    rest = rest // kernel_w
    row = (rest % kernel_h).to(tl.int32)
    rest = rest // kernel_h
    out_x = (rest % out_width).to(tl.int32)
    rest = rest // out_width
    out_y = (rest % out_height).to(tl.int32)
    example = rest // out_height
    y = out_y * step_h - pad_h + row * apart_h
    x = out_x * step_w - pad_w + column * apart_w
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width) & (at < count)
    source = ((example * height + y) * width + x) * channels + channel
    tl.store(windows + at, tl.load(images + source, mask=inside, other=0.0), mask=at < count)


@triton.jit
def _scatter(
    windows,
    images,
    count,
    height: tl.constexpr,
    width: tl.constexpr,
    channels: tl.constexpr,
    out_height: tl.constexpr,
    out_width: tl.constexpr,
    kernel_h: tl.constexpr,
    kernel_w: tl.constexpr,
    step_h: tl.constexpr,
    step_w: tl.constexpr,
    pad_h: tl.constexpr,
    pad_w: tl.constexpr,
    apart_h: tl.constexpr,
    apart_w: tl.constexpr,
    block: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    channel = (at % channels).to(tl.int32)
    rest = at // channels
    x = (rest % width).to(tl.int32)
    rest = rest // width
    y = (rest % height).to(tl.int32)
    example = rest // height
    total = tl.zeros([block], dtype=images.dtype.element_ty)
    for row in tl.static_range(kernel_h):
        for column in tl.static_range(kernel_w):
            from_y = y + pad_h - row * apart_h
            from_x = x + pad_w - column * apart_w
            out_y = from_y // step_h
            out_x = from_x // step_w
            inside = (from_y >= 0) & (from_x >= 0) & (out_y < out_height) & (out_x < out_width) & (at < count)
            inside = inside & (out_y * step_h == from_y) & (out_x * step_w == from_x)
            place = ((example * out_height + out_y) * out_width + out_x) * kernel_h + row
            source = (place * kernel_w + column) * channels + channel
            total += tl.load(windows + source, mask=inside, other=0.0)
    tl.store(images + at, total, mask=at < count)
