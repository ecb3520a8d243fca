"""What every test may use: the toy task, and the real data where it is at hand."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# One thread for each process: two tests run at a time, and threads that wait for each other's cores are many times
# slower than one. Before torch, which reads it once; the processes that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

from stayput.engines.precision import use_precision

for _shared in ("contracts", "integration"):  # the second engine of the contract tests; readers of others' files
    sys.path.insert(0, str(Path(__file__).parent / _shared))


@pytest.fixture
def device():
    """Where engines compute: the CPU, or what STAYPUT_TEST_DEVICE names (`make test-gpu`)."""
    use_precision("float32")
    return torch.device(os.environ.get("STAYPUT_TEST_DEVICE", "cpu"))
