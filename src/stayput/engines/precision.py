"""How exactly matrices are multiplied.

float32  as it says
tf32     on CUDA: factors with ten bits of mantissa, sums in float32
bf16     layers compute in bfloat16, seven bits of mantissa, under torch's autocast; weights, gradients, losses and
         averages stay float32, and so does an LSTM's state

torch lets convolutions use TF32 unless told not to; stayput does not, so that engines agree and results repeat on
other machines. Less than float32 is asked for by name.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from stayput.errors import UnknownName

PRECISIONS = ("float32", "tf32", "bf16")

_rounds_to_bf16 = False


def use_precision(name: str) -> None:
    """Set how this process multiplies matrices."""
    global _rounds_to_bf16  # noqa: PLW0603 - torch's own settings beside it are the process's, too
    if name not in PRECISIONS:
        raise UnknownName("precision", name, PRECISIONS)
    allow = name != "float32"
    torch.backends.cuda.matmul.allow_tf32 = allow
    torch.backends.cudnn.allow_tf32 = allow
    torch.backends.cudnn.deterministic = True  # the same run twice gives the same bits
    _rounds_to_bf16 = name == "bf16"


def precision_in_use() -> str:
    """What was set."""
    return "bf16" if _rounds_to_bf16 else "tf32" if torch.backends.cuda.matmul.allow_tf32 else "float32"


def autocast(device: torch.device) -> AbstractContextManager[object]:
    """Inside, layers compute as the precision says."""
    if not _rounds_to_bf16:
        return nullcontext()
    # Without the cache: it would hold weights as they were before the step that lanes take in place.
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)


def product_dtype(x: Tensor) -> torch.dtype:
    """In what matrices are multiplied: as they are, or in what autocast says."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
