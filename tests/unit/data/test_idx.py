import gzip
import hashlib

import numpy as np
import pytest

from stayput.data import idx
from stayput.errors import CorruptData

BYTES = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
NUMBERS = np.array([[1, -2], [3, 70000]], dtype=np.int32)


def test_bytes_are_mapped_and_writable_for_torch(tmp_path, as_idx):
    (tmp_path / "a").write_bytes(as_idx(BYTES))
    array = idx.read(tmp_path / "a")
    assert isinstance(array, np.memmap)
    assert array.flags.writeable
    assert array.tolist() == BYTES.tolist()
    array[0] = 99  # stays in memory
    assert idx.read(tmp_path / "a").tolist() == BYTES.tolist()


@pytest.mark.parametrize(("array", "code"), [(BYTES, 8), (NUMBERS, 12), (np.zeros((0, 3), np.uint8), 8)])
def test_files_are_read_zipped_or_not(tmp_path, as_idx, array, code):
    (tmp_path / "a").write_bytes(as_idx(array, code))
    (tmp_path / "a.gz").write_bytes(gzip.compress(as_idx(array, code)))
    for name in ("a", "a.gz"):
        found = idx.read(tmp_path / name)
        assert found.tolist() == array.tolist()
        assert found.dtype == array.dtype


@pytest.mark.parametrize(("array", "code"), [(BYTES, 8), (NUMBERS, 12)])
def test_the_hash_of_an_array_is_that_of_its_file(as_idx, array, code):
    assert idx.sha256(array) == hashlib.sha256(as_idx(array, code)).hexdigest()
    assert idx.sha256(array[::-1]) == hashlib.sha256(as_idx(array[::-1], code)).hexdigest()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"is not an idx file"),
        (b"\x1f\x8b\x08\x00zipped", r"is not an idx file"),
        (b"\0\0\x77\x01\0\0\0\x01a", r"is not an idx file"),
        (b"\0\0\x08\x09", r"is not an idx file"),
        (b"\0\0\x08\x02\0\0\0\x01", r"ends after 8 bytes, within its header \(bring the whole file\)"),
        (b"\0\0\x08\x01\0\0\0\x05abc", r"has 11 bytes: must have 13 by its header \(bring the whole file\)"),
        (b"\0\0\x08\x01\0\0\0\x01abc", r"has 11 bytes: must have 9 by its header"),
    ],
)
def test_what_is_no_whole_idx_file_is_refused_by_name(tmp_path, content, message):
    (tmp_path / "odd").write_bytes(content)
    with pytest.raises(CorruptData, match=f"odd: {message}"):
        idx.read(tmp_path / "odd")
    with pytest.raises(CorruptData, match=f"odd: {message}"):
        idx.parse(content, "odd")


@pytest.mark.parametrize("damage", [lambda c: c[:-5], lambda c: b"no gzip", lambda c: c[:12] + b"\xff\xff" + c[14:]])
def test_a_broken_gzip_file_is_refused_by_name(tmp_path, as_idx, damage):
    (tmp_path / "a.gz").write_bytes(damage(gzip.compress(as_idx(BYTES))))
    with pytest.raises(CorruptData, match=r"a.gz: is not a whole gzip file"):
        idx.read(tmp_path / "a.gz")


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path):
    with pytest.raises(CorruptData, match=r"gone: cannot be read"):
        idx.read(tmp_path / "gone")
