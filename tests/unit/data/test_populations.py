"""Populations on the disk: what is stored comes back, and what does not fit is refused in a sentence."""

import json

import numpy as np
import pytest

from stayput.data import Assignment, Examples, FederatedData, open_population, save_population
from stayput.data.populations import open_examples
from stayput.data.store import file_sha256, verify_columns
from stayput.errors import CorruptData, DataUnavailable, InvalidSetting
from stayput.testing import toy_clients, toy_examples


@pytest.fixture
def folder(tmp_path):
    save_population(toy_clients((7, 1, 12, 10)), tmp_path / "clients", test=toy_examples(20, seed=1))
    return tmp_path / "clients"


def overwrite(folder, name, column):
    """A column as somebody's script might leave it: with a manifest that agrees with the file."""
    np.save(folder / f"{name}.npy", column)
    manifest = json.loads((folder / "manifest.json").read_text())
    size, shape = (folder / f"{name}.npy").stat().st_size, list(column.shape)
    manifest["columns"][name].update(bytes=size, shape=shape, sha256=file_sha256(folder / f"{name}.npy"))
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_clients_come_back_as_stretches_of_mapped_columns(folder):
    clients, stored = toy_clients((7, 1, 12, 10)), open_population(folder)
    verify_columns(folder)
    assert stored.clients.client_sizes.tolist() == [7, 1, 12, 10]
    assert isinstance(stored.clients.examples.inputs, np.memmap)
    assert stored.clients.assignment.order is None
    for client in range(4):
        mine, theirs = clients.rows(client), stored.clients.rows(client)
        np.testing.assert_array_equal(stored.clients.examples.inputs[theirs], clients.examples.inputs[mine])
        np.testing.assert_array_equal(stored.clients.examples.targets[theirs], clients.examples.targets[mine])
    np.testing.assert_array_equal(stored.clients.label_counts(), clients.label_counts())
    np.testing.assert_array_equal(stored.test.inputs, toy_examples(20, seed=1).inputs)
    assert stored.clients.examples.target_range == (0, 2)


def test_names_of_clients_are_kept(tmp_path):
    examples = Examples(np.arange(5.0), np.array([1.5, 2, 3, 4, 5]))
    named = FederatedData(examples, Assignment(np.array([4, 0, 2, 1, 3]), np.array([0, 2, 5]), ["ann", "böb"]))
    stored = save_population(named, tmp_path / "named")
    assert [stored.clients.assignment.client_name(client) for client in (0, 1)] == ["ann", "böb"]
    assert stored.clients.examples.inputs.tolist() == [4, 0, 2, 1, 3]
    assert stored.test is None
    assert stored.clients.examples.target_range is None


def test_a_pooled_population_is_one_client_with_all_rows(folder):
    pooled = open_population(folder).clients.pooled()
    assert pooled.rows(0).tolist() == list(range(30))


def test_other_processes_open_the_same_examples_and_notice_others(folder):
    stored = open_population(folder)
    for examples in (stored.clients.examples, stored.test):
        np.testing.assert_array_equal(open_examples(examples.stored).inputs, examples.inputs)
    overwrite(folder, "targets", np.zeros(30, dtype=np.int64))
    with pytest.raises(CorruptData, match=r"has sha256 \w{64}: must have \w{64} \(another population lies there\)"):
        open_examples(stored.clients.examples.stored)
    folder.rename(folder.with_name("elsewhere"))
    with pytest.raises(DataUnavailable, match=r"clients: is not here: must be on every machine that trains \(copy"):
        open_examples(stored.clients.examples.stored)


@pytest.mark.parametrize(
    ("offsets", "sentence"),
    [
        ([0, 7, 8, 20, 31], "must rise from 0 to the number of rows, 30, .* end at 31"),
        ([0, 7, 8, 20, 29], "must rise from 0 to the number of rows, 30, .* end at 29"),
        ([1, 7, 8, 20, 30], "must rise from 0 to the number of rows"),
        ([0, 8, 7, 20, 30], "must rise from 0 to the number of rows"),
        ([0, 7, 7, 20, 30], r"client 1 has 0 examples \(1 such clients\): each must have at least 1"),
    ],
)
def test_offsets_that_do_not_match_the_columns_are_refused(folder, offsets, sentence):
    overwrite(folder, "offsets", np.array(offsets))
    with pytest.raises(CorruptData, match=f"clients: is no sound population: .*{sentence}"):
        open_population(folder)


def test_columns_of_different_lengths_are_refused(folder):
    overwrite(folder, "targets", np.zeros(29, dtype=np.int64))
    with pytest.raises(CorruptData, match="targets has 29 rows: must have as many as inputs, 30"):
        open_population(folder)


def test_a_folder_that_holds_something_else_is_refused(folder, tmp_path):
    with pytest.raises(DataUnavailable, match="nothing is stored there"):
        open_population(tmp_path / "nowhere")
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["columns"]["offsets"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CorruptData, match=r"must hold \['inputs', 'offsets', 'targets'\] to be a population"):
        open_population(folder)


def test_a_folder_that_is_there_is_not_written_over(folder):
    with pytest.raises(InvalidSetting, match="is there already"):
        save_population(toy_clients(), folder)


def test_an_interruption_leaves_nothing(tmp_path):
    class Interrupting:
        inputs, targets = toy_examples(30).inputs, toy_examples(30).targets

        def __len__(self):
            return 30

    clients = toy_clients((10, 20))
    broken = Interrupting()
    broken.inputs = None
    with pytest.raises(AttributeError):
        save_population(clients, tmp_path / "clients", test=broken)
    assert list(tmp_path.iterdir()) == []
