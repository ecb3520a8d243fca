"""Which of several ways lane layers compute: Triton kernels where they fit, torch's own operations everywhere else.

Every kernel here has a plain form beside it, which the tests compare it with and which takes over where a kernel does
not fit. `without` turns kernels off, for benchmarks that time both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

NAMES = ("linear", "lstm")
"""Kernels that can be turned off: those of linear layers on few examples, and of the LSTM over time."""

_off: set[str] = set()

SMALL_BATCH = 64
"""Examples of a lane up to which the kernels of linear layers are for; above, products are limited by arithmetic."""


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Inside, these kernels are not used."""
    before = set(_off)
    _off.update(names)
    try:
        yield
    finally:
        _off.clear()
        _off.update(before)


def is_on(name: str, like: Tensor) -> bool:
    """Whether a kernel may be used on tensors like this one: float32 on CUDA."""
    return like.is_cuda and like.dtype == torch.float32 and name not in _off


def product_dtype(x: Tensor) -> torch.dtype:
    """In what matrices are multiplied: as they are, or in what autocast says."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def fits_linear(x_LBI: Tensor, weight_LOI: Tensor) -> bool:
    """Whether the kernels of linear layers are for a product of these."""
    if not (is_on("linear", weight_LOI) and torch.backends.cuda.matmul.allow_tf32):
        return False  # exact float32 products are faster in cuBLAS
    return x_LBI.dtype == weight_LOI.dtype and x_LBI.shape[1] <= SMALL_BATCH


def fits_lstm(x_LBTG: Tensor) -> bool:
    """Whether the kernels of the LSTM are for such sequences."""
    return is_on("lstm", x_LBTG)
