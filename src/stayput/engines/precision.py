"""How exactly a GPU multiplies matrices: `float32` as it says, or `tf32`, faster, with ten bits of mantissa.

torch lets convolutions use TF32 unless told not to; stayput does not, so that engines agree and results repeat on
other machines. It is asked for by name.
"""

from __future__ import annotations

import torch

from stayput.errors import UnknownName

PRECISIONS = ("float32", "tf32")


def use_precision(name: str) -> None:
    """Set how this process multiplies float32 matrices on CUDA; elsewhere it changes nothing."""
    if name not in PRECISIONS:
        raise UnknownName("precision", name, PRECISIONS)
    allow = name == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = allow
    torch.backends.cudnn.allow_tf32 = allow
    torch.backends.cudnn.deterministic = True  # the same run twice gives the same bits
