"""Safetensors from strangers, read under limits of our own; and written so that equal tensors give equal bytes.

A safetensors file is the length of a JSON header (8 bytes), the header, and the tensors' bytes. The header is read with
`strict_json`, and the tensors must cover the rest of the file exactly: no gaps, no overlaps, nothing behind. What comes
out are views into the given buffer (which may be a mapped file), so that a file costs no memory beyond itself, and no
byte of it can be more than a number. Must not import torch or a web framework: tensors are NumPy arrays here, bfloat16
as its bits.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from stayput.deploy.schemas import Items, Text, Whole
from stayput.deploy.strict_json import MAX_WHOLE, parse_object, shown
from stayput.errors import MalformedMessage

Buffer = bytes | bytearray | memoryview
Array = npt.NDArray[Any]

DTYPES: Mapping[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),  # NumPy has no bfloat16; `as_float64` knows
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("u1"),  # read as bytes: a 2 must be seen as a 2
}
FLOATING = frozenset({"F64", "F32", "F16", "BF16"})
METADATA = "__metadata__"
_LENGTH = struct.Struct("<Q")
_BLOCK = 1 << 20
"""Elements that are looked at together: bounds the memory of a check to a few MiB whatever the tensor."""


@dataclass(frozen=True, slots=True, order=True)
class TensorSpec:
    """A tensor without its numbers."""

    name: Annotated[str, Text(256)]
    dtype: Annotated[str, Text(8, "|".join(DTYPES), f"one of {', '.join(DTYPES)}")]
    shape: Annotated[tuple[Annotated[int, Whole()], ...], Items(8)]

    @property
    def size(self) -> int:
        """How many numbers."""
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """How many bytes."""
        return self.size * DTYPES[self.dtype].itemsize


@dataclass(frozen=True, slots=True)
class FileLimits:
    """What a file may be at most."""

    max_header: int = 1 << 20
    max_tensors: int = 10_000
    max_name: int = 256
    max_rank: int = 8


@dataclass(frozen=True, slots=True)
class TensorFileHeader:
    """What a file says it holds."""

    specs: tuple[TensorSpec, ...]
    """In the order of their bytes."""
    starts: Mapping[str, int]
    """Where each tensor's bytes start, from the start of the file."""
    metadata: Mapping[str, str] = field(default_factory=dict)


def read_header(start: Buffer, file_size: int, limits: FileLimits = FileLimits()) -> TensorFileHeader:
    """The header of a file of `file_size` bytes, of which `start` holds at least the header."""
    if len(start) < _LENGTH.size or file_size < _LENGTH.size:
        raise MalformedMessage(f"tensor file: {min(len(start), file_size)} bytes: must have the 8 of a header's length")
    (length,) = _LENGTH.unpack_from(start)
    if length > limits.max_header:
        raise MalformedMessage(f"tensor file: a header of {length} bytes: must be at most {limits.max_header}")
    data_start = _LENGTH.size + length
    if data_start > file_size or data_start > len(start):
        raise MalformedMessage(f"tensor file: a header of {length} bytes does not fit into {file_size} bytes")
    parsed = parse_object(
        memoryview(start)[_LENGTH.size : data_start],
        what="tensor file's header",
        max_bytes=limits.max_header,
        max_depth=3,
    )
    metadata = _metadata(parsed.pop(METADATA, {}))
    if len(parsed) > limits.max_tensors:
        raise MalformedMessage(f"tensor file: {len(parsed)} tensors: must be at most {limits.max_tensors}")
    found = sorted((_entry(name, entry, limits) for name, entry in parsed.items()), key=lambda entry: entry[:2])
    position = 0
    for begin, end, spec in found:
        if begin != position:
            what = "a gap or an overlap" if found[0][0] == 0 else "a gap"
            raise MalformedMessage(f"tensor file: {what} before {shown(spec.name)}, at byte {position} of the data")
        position = end
    if data_start + position != file_size:
        raise MalformedMessage(
            f"tensor file: tensors end at byte {data_start + position}: must be the file's end, {file_size}"
        )
    starts = {spec.name: data_start + begin for begin, _, spec in found}
    return TensorFileHeader(tuple(spec for _, _, spec in found), starts, metadata)


class TensorFile:
    """A whole file in a buffer, and its tensors as read-only views into it."""

    def __init__(self, buffer: Buffer, limits: FileLimits = FileLimits()) -> None:
        self._buffer = memoryview(buffer).toreadonly()
        self.header = read_header(self._buffer, len(self._buffer), limits)
        self.specs: Mapping[str, TensorSpec] = {spec.name: spec for spec in self.header.specs}

    def view(self, name: str) -> Array:
        """A tensor, in place. bfloat16 comes as its bits, truth values as bytes."""
        spec = self.specs[name]
        flat = np.frombuffer(self._buffer, DTYPES[spec.dtype], count=spec.size, offset=self.header.starts[name])
        return flat.reshape(spec.shape)

    def blocks(self, name: str) -> Iterator[Array]:
        """A tensor's numbers in float64, a bounded piece at a time."""
        flat, dtype = self.view(name).reshape(-1), self.specs[name].dtype
        for start in range(0, len(flat), _BLOCK):
            yield as_float64(flat[start : start + _BLOCK], dtype)

    def is_finite(self, name: str) -> bool:
        """Whether every element is a number that its dtype means as one."""
        dtype = self.specs[name].dtype
        if dtype == "BOOL":
            return all(bool((block <= 1).all()) for block in self.blocks(name))
        return dtype not in FLOATING or all(bool(np.isfinite(block).all()) for block in self.blocks(name))

    def square_sum(self, name: str) -> float:
        """Σ x², in float64, with one rounding of the sum over blocks; infinite where it is too large."""
        with np.errstate(over="ignore"):
            parts = [float(np.square(block, out=block).sum()) for block in self.blocks(name)]
        return math.fsum(parts) if all(map(math.isfinite, parts)) else math.inf


def as_float64(array: Array, dtype: str) -> npt.NDArray[np.float64]:
    """Numbers of a safetensors dtype as float64, a copy of its own."""
    if dtype == "BF16":
        wide = array.astype(np.uint32)
        wide <<= 16
        array = wide.view(np.float32)
    return array.astype(np.float64)


def encode_tensors(tensors: Mapping[str, tuple[TensorSpec, Array]], metadata: Mapping[str, str] | None = None) -> bytes:
    """A file of tensors. Equal tensors give equal bytes, in whatever order they are given."""
    # Wide elements first, so that every tensor is aligned; then by name.
    order = sorted(tensors.values(), key=lambda item: (-DTYPES[item[0].dtype].itemsize, item[0].name))
    header: dict[str, Any] = {METADATA: dict(sorted(metadata.items()))} if metadata else {}
    parts, position = [], 0
    for spec, array in order:
        content = np.ascontiguousarray(array).view(DTYPES[spec.dtype]).tobytes()
        if len(content) != spec.num_bytes:
            raise ValueError(f"{spec.name}: {len(content)} bytes for {spec}")
        header[spec.name] = {
            "dtype": spec.dtype,
            "shape": list(spec.shape),
            "data_offsets": [position, position + len(content)],
        }
        parts.append(content)
        position += len(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((_LENGTH.pack(len(text)), text, *parts))


def _entry(name: str, entry: object, limits: FileLimits) -> tuple[int, int, TensorSpec]:
    where = f"tensor {shown(name)}"
    if not name or len(name) > limits.max_name or not name.isprintable():
        raise MalformedMessage(f"{where}: a name must have 1 to {limits.max_name} printable characters")
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise MalformedMessage(f"{where}: must have dtype, shape and data_offsets, and nothing else")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise MalformedMessage(f"{where}: dtype={shown(dtype)}: must be one of {', '.join(DTYPES)}")
    if not _wholes(shape) or len(shape) > limits.max_rank:
        raise MalformedMessage(f"{where}: shape must be a list of at most {limits.max_rank} whole numbers")
    if not _wholes(offsets) or len(offsets) != 2:
        raise MalformedMessage(f"{where}: data_offsets must be two whole numbers")
    spec = TensorSpec(name, dtype, tuple(shape))
    if offsets[1] - offsets[0] != spec.num_bytes or offsets[1] > MAX_WHOLE:
        raise MalformedMessage(
            f"{where}: {offsets[1] - offsets[0]} bytes: must be {spec.num_bytes} for its dtype and shape"
        )
    return offsets[0], offsets[1], spec


def _wholes(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in value
    )


def _metadata(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise MalformedMessage(f"tensor file: {METADATA} must map strings to strings")
    return value
