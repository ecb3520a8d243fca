"""The noise of `masks.py` as one Triton kernel: every value computes its own block of Philox, and only noise is stored.

Run on the CPU by Triton's interpreter (TRITON_INTERPRET=1) in the tests.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from stayput.engines.masks import Draw

BLOCK = 1024


def noise(name_L4: Tensor, gradient_L: Tensor, draw: Draw) -> Tensor:
    """Factors for each lane, [lane, count]: what `masks.plain_noise` gives."""
    lanes = len(gradient_L)
    out = torch.empty(lanes, draw.values, dtype=draw.dtype, device=gradient_L.device)
    grid = (triton.cdiv(draw.values, BLOCK), lanes)
    _noise[grid](
        name_L4.contiguous(), gradient_L.contiguous(), out, draw.call, draw.values, draw.threshold, draw.scale, BLOCK
    )
    return out


@triton.jit
def _noise(names, gradients, out, call, count, threshold, scale: tl.constexpr, block: tl.constexpr):
    lane = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * block + tl.arange(0, block)
    # NumPy counts up before it draws: the first block of a stream is number 1.
    number = (at // 16 + 1).to(tl.uint64)
    zero = number * 0
    epoch = zero + (tl.load(gradients + lane) * 65536 + call).to(tl.uint64)  # masks.CALLS
    key0 = zero + tl.load(names + 4 * lane).to(tl.uint64)
    key1 = zero + tl.load(names + 4 * lane + 1).to(tl.uint64)
    client = zero + tl.load(names + 4 * lane + 2).to(tl.uint64)
    round_number = zero + tl.load(names + 4 * lane + 3).to(tl.uint64)
    word0, word1, word2, word3 = tl.philox_impl(number, epoch, client, round_number, key0, key1, 10)
    which = (at % 16) // 4
    word = tl.where(which == 0, word0, tl.where(which == 1, word1, tl.where(which == 2, word2, word3)))
    shift = ((at % 4) * 16).to(tl.uint64)
    piece = ((word >> shift) & 0xFFFF).to(tl.int32)
    kept = tl.full([block], scale, out.dtype.element_ty)  # a plain argument would be rounded to float32
    tl.store(out + lane * count + at, tl.where(piece >= threshold, kept, 0.0), mask=at < count)
