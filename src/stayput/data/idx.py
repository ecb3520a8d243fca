"""The idx file format of the MNIST family: a magic number, the sizes, then the numbers, big-endian.

0x00 0x00 <type> <number of dimensions> <size of each dimension, 4 bytes> ... <numbers>
"""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from stayput.data.federated_data import Array
from stayput.errors import CorruptData

_DTYPES: dict[int, np.dtype[Any]] = {
    0x08: np.dtype("u1"),
    0x09: np.dtype("i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
}
_TYPES = {dtype: code for code, dtype in _DTYPES.items()}
_MAX_DIMENSIONS = 4


def read(path: Path) -> Array:
    """The array in an idx file: mapped into memory, or unpacked there if the name ends in .gz."""
    try:
        if path.suffix == ".gz":
            return parse(unzipped(path.read_bytes(), str(path)), str(path))
        return _mapped(path)
    except OSError as error:
        raise CorruptData(f"{path}: cannot be read ({error})") from error


def parse(content: bytes, name: str) -> Array:
    """The array in the bytes of an idx file, in the machine's byte order; `name` is for errors."""
    dtype, shape, start = _header(content, len(content), name)
    array = np.frombuffer(content, dtype=dtype, offset=start).reshape(shape)
    return array.astype(dtype.newbyteorder("="))


def unzipped(content: bytes, name: str) -> bytes:
    """The content of a gzip file; `name` is for errors."""
    try:
        return gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorruptData(f"{name}: is not a whole gzip file ({error})") from error


def sha256(array: Array) -> str:
    """The SHA-256 of the idx file that holds this array."""
    stored = array.dtype.newbyteorder(">") if array.dtype.itemsize > 1 else array.dtype
    header = bytes([0, 0, _TYPES[stored], array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    digest = hashlib.sha256(header)
    digest.update(np.ascontiguousarray(array, dtype=stored).data)
    return digest.hexdigest()


def _header(content: bytes, size: int, name: str) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """The numbers' type, the shape, and where the numbers begin; `size` is that of the whole file."""
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _DTYPES or content[3] > _MAX_DIMENSIONS:
        raise CorruptData(f"{name}: is not an idx file (must begin with 0, 0, type, dimensions)")
    dtype, start = _DTYPES[content[2]], 4 + 4 * content[3]
    if len(content) < start:
        raise CorruptData(f"{name}: ends after {len(content)} bytes, within its header (bring the whole file)")
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    expected = start + math.prod(shape) * dtype.itemsize
    if size != expected:
        raise CorruptData(f"{name}: has {size} bytes: must have {expected} by its header (bring the whole file)")
    return dtype, shape, start


def _mapped(path: Path) -> Array:
    with path.open("rb") as file:
        dtype, shape, start = _header(file.read(4 + 4 * _MAX_DIMENSIONS), path.stat().st_size, str(path))
    if dtype.itemsize > 1 or 0 in shape:
        return parse(path.read_bytes(), str(path))  # to be turned into the machine's byte order; or nothing to map
    # Copy on write: nothing writes to it, but torch warns of memory it may not write to.
    return np.memmap(path, dtype=dtype, mode="c", offset=start, shape=shape)
