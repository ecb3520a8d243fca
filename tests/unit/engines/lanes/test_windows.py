"""Windows of images: the plain form against torch's own unfold, the Triton kernels against the plain form."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn.functional import unfold

from stayput.engines.lanes.windows import Window, gather_windows, plain_gather, plain_scatter, scatter_windows

CASES = [
    # examples, height, width, channels, window
    (3, 7, 9, 2, Window((3, 3), (1, 1), (1, 1), (1, 1))),
    (2, 28, 28, 1, Window((5, 5), (1, 1), (2, 2), (1, 1))),
    (5, 11, 8, 3, Window((3, 2), (2, 3), (0, 1), (1, 1))),
    (1, 9, 10, 4, Window((2, 3), (1, 2), (1, 0), (3, 2))),
    (4, 5, 5, 1, Window((5, 5), (1, 1), (0, 0), (1, 1))),
    (7, 1, 1, 5, Window((1, 1), (1, 1), (0, 0), (1, 1))),
]


@pytest.mark.parametrize(("examples", "height", "width", "channels", "window"), CASES)
def test_windows_are_those_of_unfold(examples, height, width, channels, window):
    images = torch.randn(examples, height, width, channels, dtype=torch.float64)
    windows = plain_gather(images, window)
    expected = unfold(images.permute(0, 3, 1, 2), window.kernel, window.dilation, window.padding, window.stride)
    ours = windows.permute(0, 5, 3, 4, 1, 2).reshape(expected.shape)
    assert torch.equal(ours, expected)


@pytest.mark.parametrize(("examples", "height", "width", "channels", "window"), CASES)
def test_scattering_is_the_adjoint_of_gathering(examples, height, width, channels, window):
    images = torch.randn(examples, height, width, channels, dtype=torch.float64, requires_grad=True)
    windows = plain_gather(images, window)
    gradient = torch.randn_like(windows)
    windows.backward(gradient)
    torch.testing.assert_close(plain_scatter(gradient, images.shape, window), images.grad)


def compare_kernels(device):
    from stayput.engines.lanes import windows_triton

    for examples, height, width, channels, window in CASES:
        for dtype in (torch.float32, torch.float64):
            images = torch.randn(examples, height, width, channels, dtype=dtype, device=device)
            windows = windows_triton.gather_windows(images, window)
            assert torch.equal(windows, plain_gather(images, window))
            gradient = torch.randn_like(windows)
            scattered = windows_triton.scatter_windows(gradient, images.shape, window)
            torch.testing.assert_close(scattered, plain_scatter(gradient, images.shape, window))


def test_the_kernels_do_the_same(device):
    if device.type == "cuda":
        compare_kernels(device)
        assert torch.equal(
            gather_windows(torch.ones(1, 3, 3, 1, device=device), CASES[0][4]).cpu(),
            plain_gather(torch.ones(1, 3, 3, 1), CASES[0][4]),
        )
        return
    # Triton reads the variable when it is imported, so its interpreter needs a process of its own.
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_on_the_cpu_the_plain_form_is_used():
    images = torch.randn(2, 4, 4, 1)
    window = CASES[0][4]
    assert torch.equal(gather_windows(images, window), plain_gather(images, window))
    windows = gather_windows(images, window)
    assert torch.equal(scatter_windows(windows, images.shape, window), plain_scatter(windows, images.shape, window))


if __name__ == "__main__":
    compare_kernels(torch.device("cpu"))
