import numpy as np
import pytest

from stayput.data import DATA_SETS, mnist
from stayput.data.fetching import Source
from stayput.data.partitions import ByKey
from stayput.errors import CorruptData, DataUnavailable, InvalidSetting


def assert_is(split, digits):
    np.testing.assert_array_equal(split.train.inputs, digits["train_images"])
    np.testing.assert_array_equal(split.train.targets, digits["train_labels"])
    np.testing.assert_array_equal(split.test.inputs, digits["test_images"])
    np.testing.assert_array_equal(split.test.targets, digits["test_labels"])
    assert split.train.inputs.dtype == split.train.targets.dtype == np.uint8


@pytest.fixture
def delivered(small_mnist, digits):
    """A source that delivers the digits; returns how often it was asked."""
    asked = []

    def deliver(folder, progress):
        asked.append(folder)
        progress("unpacking", 1, 2)
        return digits

    small_mnist.append(Source("a source", deliver))
    return asked


def test_it_is_fetched_once_and_then_opened_from_the_cache(delivered, digits, cache):
    told = []
    assert_is(mnist.load(progress=lambda *step: told.append(step)), digits)
    assert told == [("unpacking", 1, 2), ("storing", 0, None)]
    split = mnist.load(fetch=False)
    assert_is(split, digits)
    assert isinstance(split.train.inputs, np.memmap)
    assert len(delivered) == 1
    assert [path.name for path in cache.iterdir()] == ["mnist"]


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("below", ["", "mnist"])
def test_the_users_folder_comes_first(small_mnist, digits, put_digits, tmp_path, cache, monkeypatch, zipped, below):
    put_digits(tmp_path / "mine" / below, zipped=zipped)
    split = mnist.load(tmp_path / "mine")
    assert_is(split, digits)
    assert isinstance(split.train.inputs, np.memmap) != zipped
    monkeypatch.setenv("STAYPUT_DATA", str(tmp_path / "mine"))
    assert_is(mnist.load(), digits)
    location = mnist.locate()
    assert (location.kind, location.path) == ("folder", tmp_path / "mine")
    assert location.num_bytes == sum(p.stat().st_size for p in (tmp_path / "mine" / below).iterdir())
    assert mnist.fetch() == location
    assert not cache.exists()


def test_a_wrong_file_of_the_users_is_an_error_and_not_passed_over(delivered, put_digits, tmp_path):
    folder = put_digits(tmp_path / "mine", zipped=False)
    content = bytearray((folder / "t10k-labels-idx1-ubyte").read_bytes())
    content[-1] ^= 1
    (folder / "t10k-labels-idx1-ubyte").write_bytes(content)
    message = r"t10k-labels-idx1-ubyte: has sha256 \w{64} unzipped: must have \w{64} \(replace it, or take it away"
    for act in (mnist.load, mnist.fetch):
        with pytest.raises(CorruptData, match=message):
            act(folder)
    assert mnist.locate(folder).kind == "folder"
    assert not delivered


def test_a_folder_without_all_files_is_named_among_the_reasons(small_mnist, put_digits, tmp_path, cache):
    folder = put_digits(tmp_path / "mine")
    (folder / "t10k-images-idx3-ubyte.gz").unlink()
    with pytest.raises(DataUnavailable) as failure:
        mnist.load(folder)
    lines = str(failure.value).splitlines()
    assert lines[:3] == [
        "mnist: no source could deliver it; tried:",
        f"  - folder {folder}: lacks t10k-images-idx3-ubyte",
        f"  - cache {cache / 'mnist'}: nothing is stored there",
    ]
    assert lines[-1].startswith(
        "To bring it by hand, put train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-"
    )
    assert lines[-1].endswith("as data_dir or in the environment variable STAYPUT_DATA.")
    assert mnist.locate(folder) is None


def test_nothing_is_fetched_when_told_not_to(delivered):
    with pytest.raises(DataUnavailable, match=r"the network: not asked \(fetch=False\)"):
        mnist.load(fetch=False)
    assert not delivered


def test_a_source_with_other_bytes_is_not_believed(small_mnist, digits):
    other = {**digits, "train_images": digits["train_images"] ^ 1}
    small_mnist.append(Source("a liar", lambda folder, progress: other))
    with pytest.raises(DataUnavailable, match=r"a liar: train-images-idx3-ubyte: has sha256 \w{64}: must have \w{64}"):
        mnist.load()
    assert mnist.locate() is None


def test_a_folder_that_is_not_there_is_refused(small_mnist):
    with pytest.raises(InvalidSetting, match="data_dir='/no/such': must be an existing folder"):
        mnist.load("/no/such")


def test_a_cut_cache_is_fetched_again(delivered, digits, cache):
    mnist.load()
    (cache / "mnist" / "train_images.npy").write_bytes(b"half")
    assert mnist.locate() is None
    with pytest.raises(DataUnavailable, match=r"cache .*train_images.npy: has 4 bytes: must have"):
        mnist.load(fetch=False)
    assert_is(mnist.load(), digits)
    assert len(delivered) == 2


def test_verify_finds_a_flipped_bit_and_fetch_mends_it(delivered, digits, cache):
    location = mnist.fetch()
    assert (location.kind, location.path, location.keys) == ("cache", cache / "mnist", ())
    mnist.verify(location)
    content = bytearray((cache / "mnist" / "test_labels.npy").read_bytes())
    content[-1] ^= 1
    (cache / "mnist" / "test_labels.npy").write_bytes(content)
    with pytest.raises(CorruptData, match=r"test_labels.npy: has sha256"):
        mnist.verify(location)
    assert mnist.fetch() == location
    mnist.verify(location)
    assert len(delivered) == 2
    mnist.fetch()
    assert len(delivered) == 2


def test_verify_does_not_believe_a_manifest_that_was_forged(delivered, digits, monkeypatch):
    location = mnist.fetch()
    monkeypatch.setitem(mnist.SHA256, "test_labels", "0" * 64)
    with pytest.raises(CorruptData, match=r"t10k-labels-idx1-ubyte: has sha256 \w{64}: must have 0{64}"):
        mnist.verify(location)


def test_a_cache_of_other_columns_is_not_taken_for_mnist(delivered, digits, cache, monkeypatch):
    mnist.load()
    monkeypatch.setattr(mnist, "FILES", {**mnist.FILES, "more": "more"})
    with pytest.raises(DataUnavailable, match=r"holds \['test_images', .*\]: must hold \['more'"):
        mnist.load(fetch=False)


@pytest.mark.parametrize("below", ["", "qmnist", "mnist"])
@pytest.mark.parametrize("where", ["folder", "cache"])
def test_writers_are_found_and_become_clients(delivered, put_writers, cache, tmp_path, below, where):
    root = cache if where == "cache" else tmp_path / "mine"
    put_writers(root / below)
    put_writers(root / below, part="test")
    data_dir = None if where == "cache" else root
    split = mnist.load(data_dir)
    assert split.train.keys["writer"].tolist() == [7, 8] * 6
    assert split.test.keys["writer"].tolist() == [7, 8, 7, 8, 7]
    clients = split.train.partition(ByKey(key="writer"))
    assert list(clients.assignment.client_ids) == ["7", "8"]
    assert mnist.locate(data_dir).keys == ("writer",)


def test_without_writers_whoever_asks_is_told_where_they_are(delivered, cache):
    split = mnist.load()
    for part, examples in (("train", split.train), ("test", split.test)):
        with pytest.raises(
            DataUnavailable, match=rf"key='writer': needs QMNIST's qmnist-{part}-labels.*github.com"
        ) as e:
            examples.partition(ByKey(key="writer"))
        assert str(cache / "qmnist") in str(e.value)


def test_the_table_of_data_sets_does_the_same(delivered, digits):
    known = DATA_SETS["mnist"]
    assert known.locate(None) is None
    location = known.fetch(None, None)
    known.verify(location)
    assert known.locate(None) == location
    assert_is(known.load(fetch=False), digits)
    assert all((known.name == "mnist", known.summary, known.licence, known.download_bytes > 0))
