"""A convolution's windows: gathered from images for a matrix product, and their gradients scattered back.

Images are channels-last, [N, H, W, C], and so are windows, [N, OH, OW, KH, KW, C]: a window's row is then contiguous
in both, and the product of windows and filters is channels-last again, without a transpose. On CUDA each direction
is one Triton kernel that reads and writes every byte once; elsewhere, and as the reference for the kernels, plain
tensor operations. Both are deterministic: scattering is written as a gather over the windows a pixel is in.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad


@dataclass(frozen=True, slots=True)
class Window:
    """How a convolution's window moves over an image; each pair is (height, width)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    more_behind: tuple[int, int] = (0, 0)
    """By how much the padding below and to the right is more than `padding`."""

    @classmethod
    def of(cls, layer: nn.Conv2d) -> Window:
        """The window of a convolution, paddings by name included."""
        kernel, stride, dilation = _pair(layer.kernel_size), _pair(layer.stride), _pair(layer.dilation)
        if layer.padding == "valid":
            return cls(kernel, stride, (0, 0), dilation)
        if layer.padding == "same":  # as much as keeps the size; an odd rest goes behind, as in torch
            total = (dilation[0] * (kernel[0] - 1), dilation[1] * (kernel[1] - 1))
            return cls(kernel, stride, (total[0] // 2, total[1] // 2), dilation, (total[0] % 2, total[1] % 2))
        assert not isinstance(layer.padding, str)  # noqa: S101 - torch refuses other names
        return cls(kernel, stride, _pair(layer.padding), dilation)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """The size of what comes out of an image."""
        sizes = [
            (size + 2 * padding + more - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, padding, dilation, more in zip(
                (height, width), self.kernel, self.stride, self.padding, self.dilation, self.more_behind, strict=True
            )
        ]
        return sizes[0], sizes[1]


def _pair(sizes: tuple[int, ...]) -> tuple[int, int]:
    height, width = sizes
    return height, width


def gather_windows(images_NHWC: Tensor, window: Window) -> Tensor:
    """Every window of every image, [N, OH, OW, KH, KW, C]."""
    if images_NHWC.is_cuda:
        from stayput.engines.lanes import windows_triton

        return windows_triton.gather_windows(images_NHWC.contiguous(), window)
    return plain_gather(images_NHWC, window)


def scatter_windows(windows: Tensor, image_shape: torch.Size, window: Window) -> Tensor:
    """Sum what windows hold of each pixel: the adjoint of `gather_windows`; `image_shape` is (N, H, W, C)."""
    if windows.is_cuda:
        from stayput.engines.lanes import windows_triton

        return windows_triton.scatter_windows(windows.contiguous(), image_shape, window)
    return plain_scatter(windows, image_shape, window)


def plain_gather(images_NHWC: Tensor, window: Window) -> Tensor:
    """`gather_windows` as a copy of a strided view."""
    examples, height, width, channels = images_NHWC.shape
    out_height, out_width = window.output_size(height, width)
    (pad_h, pad_w), (step_h, step_w), (apart_h, apart_w) = window.padding, window.stride, window.dilation
    more_h, more_w = window.more_behind
    padded = pad(images_NHWC, (0, 0, pad_w, pad_w + more_w, pad_h, pad_h + more_h)).contiguous()
    n, h, w, c = padded.stride()
    view = padded.as_strided(
        (examples, out_height, out_width, *window.kernel, channels),
        (n, h * step_h, w * step_w, h * apart_h, w * apart_w, c),
    )
    return view.contiguous()


def plain_scatter(windows: Tensor, image_shape: torch.Size, window: Window) -> Tensor:
    """`scatter_windows` as one addition for each place in the window."""
    examples, height, width, channels = image_shape
    out_height, out_width = windows.shape[1:3]
    (pad_h, pad_w), (step_h, step_w), (apart_h, apart_w) = window.padding, window.stride, window.dilation
    more_h, more_w = window.more_behind
    padded = windows.new_zeros(examples, height + 2 * pad_h + more_h, width + 2 * pad_w + more_w, channels)
    for row in range(window.kernel[0]):
        for column in range(window.kernel[1]):
            rows = slice(row * apart_h, row * apart_h + step_h * (out_height - 1) + 1, step_h)
            columns = slice(column * apart_w, column * apart_w + step_w * (out_width - 1) + 1, step_w)
            padded[:, rows, columns] += windows[:, :, :, row, column]
    return padded[:, pad_h : pad_h + height, pad_w : pad_w + width]
