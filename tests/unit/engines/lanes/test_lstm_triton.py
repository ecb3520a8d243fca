"""The kernels of the LSTM's steps against the plain operations, under Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from stayput.engines.lanes import lstm

SIZES = [(3, 2, 4, 5), (1, 1, 1, 1), (2, 3, 7, 130)]
"""Lanes, examples, time steps, hidden units: odd ones, a single one, more than a block."""


def compare_kernels(device):
    from stayput.engines.lanes import lstm_triton

    for lanes, examples, steps, size in SIZES:
        for dtype, tolerance in ((torch.float64, 1e-13), (torch.float32, 2e-6)):
            draw = torch.Generator().manual_seed(size)
            shapes = [(lanes, examples, steps, 4 * size), (lanes, 4 * size, size), (lanes, 3, size)]
            driven, weight, peepholes = (torch.randn(shape, generator=draw, dtype=dtype).to(device) for shape in shapes)
            weight = weight / size**0.5
            gy = torch.randn(lanes, examples, steps, size, generator=draw, dtype=dtype).to(device)
            expected = lstm.run(driven.clone(), weight, peepholes)
            found = lstm_triton.run(driven.clone(), weight, peepholes)
            for ours, theirs in zip(found, expected, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
            back = lstm_triton.run_back(gy, expected.gates_LBTG, expected.cells_LBTH, weight, peepholes)
            plain = lstm.run_back(gy, expected, weight, peepholes)
            torch.testing.assert_close(back, plain, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.slow
def test_the_kernels_do_what_the_plain_operations_do(device):
    if device.type == "cuda":
        compare_kernels(device)
        return
    environment = {**os.environ, "TRITON_INTERPRET": "1"}  # Triton reads it when it is imported
    command = [sys.executable, "-W", "ignore", str(Path(__file__))]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_they_are_not_used_unless_asked_for():
    assert not lstm._fused_steps
    lstm.use_fused_steps(True)
    try:
        assert lstm._fused_steps
        driven = torch.randn(1, 1, 2, 4)
        assert lstm.run(driven, torch.randn(1, 4, 1), torch.zeros(1, 3, 1)).cells_LBTH.shape == (1, 1, 2, 1)  # a CPU
    finally:
        lstm.use_fused_steps(False)


if __name__ == "__main__":
    compare_kernels(torch.device("cpu"))
