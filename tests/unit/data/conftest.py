"""A digit data set of a few images that stands in for MNIST, and a cache and a folder of the test's own."""

import gzip
import struct

import numpy as np
import pytest

from stayput.data import idx, mnist, mnist_sources


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("STAYPUT_CACHE", str(folder))
    monkeypatch.delenv("STAYPUT_DATA", raising=False)
    return folder


@pytest.fixture
def digits():
    random = np.random.default_rng(0)
    return {
        "train_images": random.integers(0, 256, (12, 28, 28), dtype=np.uint8),
        "train_labels": random.integers(0, 10, 12, dtype=np.uint8),
        "test_images": random.integers(0, 256, (5, 28, 28), dtype=np.uint8),
        "test_labels": random.integers(0, 10, 5, dtype=np.uint8),
    }


@pytest.fixture
def small_mnist(digits, monkeypatch):
    """mnist, with the few digits as what is published; returns its list of sources, for tests to fill."""
    sources = []
    monkeypatch.setattr(mnist, "SHA256", {name: idx.sha256(column) for name, column in digits.items()})
    monkeypatch.setattr(mnist, "sources", lambda: sources)
    return sources


def idx_bytes(array, type_code=8):
    dtype = {8: ">u1", 12: ">i4"}[type_code]
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, type_code, array.ndim, *array.shape)
    return header + array.astype(dtype).tobytes()


@pytest.fixture
def as_idx():
    return idx_bytes


@pytest.fixture
def put_digits(digits):
    """Write the digits into a folder as the original files, zipped or not."""

    def put(folder, *, zipped=True):
        folder.mkdir(parents=True, exist_ok=True)
        for column, name in mnist_sources.FILES.items():
            content = idx_bytes(digits[column])
            path = folder / (f"{name}.gz" if zipped else name)
            path.write_bytes(gzip.compress(content) if zipped else content)
        return folder

    return put


@pytest.fixture
def put_writers(digits):
    """Write QMNIST label files for the digits into a folder; writers are 7, 8, 7, 8, ..."""

    def put(folder, *, part="train", digits_say=None):
        folder.mkdir(parents=True, exist_ok=True)
        labels = digits[f"{part}_labels"] if digits_say is None else digits_say
        table = np.zeros((len(labels) + 3, 8), dtype=np.int32)  # QMNIST's test file is longer than MNIST's too
        table[: len(labels), 0] = labels
        table[:, 2] = 7 + np.arange(len(table)) % 2
        path = folder / f"qmnist-{part}-labels-idx2-int.gz"
        path.write_bytes(gzip.compress(idx_bytes(table, 12)))
        return path

    return put
