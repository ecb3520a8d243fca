"""What every test may use: the toy task, and the real data where it is at hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent / "contracts"))  # the second engine of the contract tests


@pytest.fixture
def cpu():
    return torch.device("cpu")
