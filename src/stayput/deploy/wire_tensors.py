"""Groups of tensors as the bytes that travel, and back: torch on this side, safetensors on the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from stayput.core.tensors import Groups, flatten, unflatten
from stayput.deploy.tensor_files import TensorFile, TensorSpec, encode_tensors
from stayput.errors import InvalidSetting

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


def specs_of(groups: Groups) -> tuple[TensorSpec, ...]:
    """The tensors without their numbers, in the order of their names."""
    return tuple(_spec(name, tensor) for name, tensor in sorted(flatten(groups).items()))


def to_bytes(groups: Groups) -> bytes:
    """Groups as a tensor file; equal tensors give equal bytes."""
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in flatten(groups).items()}
    return encode_tensors({name: (_spec(name, tensor), _array(tensor)) for name, tensor in flat.items()})


def from_bytes(content: bytes) -> dict[str, dict[str, Tensor]]:
    """The inverse of `to_bytes`; the tensors own their memory."""
    file = TensorFile(content)
    flat = {}
    for name, spec in file.specs.items():
        array = np.array(
            file.view(name)
        )  # a copy: views of a file are read-only, and programs may write over gradients
        tensor = torch.from_numpy(array)
        flat[name] = tensor if tensor.dtype is _DTYPES[spec.dtype] else tensor.view(_DTYPES[spec.dtype])
    return unflatten(flat)


def from_file(path: Path) -> dict[str, dict[str, Tensor]]:
    """Groups in a file."""
    return from_bytes(path.read_bytes())


def _spec(name: str, tensor: Tensor) -> TensorSpec:
    if tensor.dtype not in _NAMES:
        raise InvalidSetting(f"tensor {name} of {tensor.dtype}: must be one of {', '.join(map(str, _NAMES))}")
    return TensorSpec(name, _NAMES[tensor.dtype], tuple(tensor.shape))


def _array(tensor: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.view(torch.uint16)
    elif tensor.dtype is torch.bool:
        tensor = tensor.view(torch.uint8)
    return tensor.numpy()
