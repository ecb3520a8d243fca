import numpy as np
import pytest

from stayput.data import Assignment, Examples, FederatedData
from stayput.errors import EmptyClient, InvalidSetting


def assignment(order, offsets, ids=None):
    return Assignment(np.array(order), np.array(offsets), ids)


@pytest.fixture
def population():
    examples = Examples(np.arange(10).reshape(5, 2), np.array([0, 1, 1, 2, 0], dtype=np.uint8))
    return FederatedData(examples, assignment([4, 0, 2, 1, 3], [0, 2, 5], ["ann", "bob"]))


def test_a_client_is_a_stretch_of_rows(population):
    assert population.num_clients == 2
    assert population.num_examples == 5
    assert population.rows(0).tolist() == [4, 0]
    assert population.rows(1).tolist() == [2, 1, 3]
    assert population.client_sizes.tolist() == [2, 3]
    assert population.assignment.client_name(1) == "bob"
    assert assignment([0], [0, 1]).client_name(0) == "0"


def test_labels_are_counted_for_each_client(population):
    assert population.label_counts().tolist() == [[2, 0, 0], [0, 2, 1]]


def test_pooled_data_is_one_client_with_the_same_rows(population):
    assert population.pooled().num_clients == 1
    assert population.pooled().rows(0).tolist() == [4, 0, 2, 1, 3]


def test_the_fingerprint_tells_who_holds_which_rows(population):
    same = FederatedData(population.examples, assignment([4, 0, 2, 1, 3], [0, 2, 5]))
    swapped = FederatedData(population.examples, assignment([0, 4, 2, 1, 3], [0, 2, 5]))
    cut_elsewhere = FederatedData(population.examples, assignment([4, 0, 2, 1, 3], [0, 3, 5]))
    assert same.partition_fingerprint == population.partition_fingerprint
    assert swapped.partition_fingerprint != population.partition_fingerprint
    assert cut_elsewhere.partition_fingerprint != population.partition_fingerprint


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(InvalidSetting, match=r"targets has 2 rows: must have as many as inputs, 3 \(row i"):
        Examples(np.zeros(3), np.zeros(2))
    with pytest.raises(InvalidSetting, match=r"keys\['writer'\] has 1 rows"):
        Examples(np.zeros(3), np.zeros(3), {"writer": np.zeros(1)})


@pytest.mark.parametrize("offsets", [[0], [1, 2], [0, 1], [0, 3], [0, 2, 1, 2]])
def test_offsets_that_are_none_are_refused(offsets):
    with pytest.raises(InvalidSetting, match="offsets: must rise from 0 to the number of rows, 2"):
        assignment([0, 1], offsets)


def test_an_empty_client_is_refused_by_name():
    with pytest.raises(EmptyClient, match=r"client bob has 0 examples \(1 such clients\): .* \(use fewer clients"):
        assignment([0, 1], [0, 2, 2], ["ann", "bob"])


def test_each_client_needs_a_name_of_its_own():
    with pytest.raises(InvalidSetting, match="client_ids has 1 names: must have one for each of 2 clients"):
        assignment([0, 1], [0, 1, 2], ["ann"])


@pytest.mark.parametrize("targets", [np.zeros(2), np.zeros((2, 3), dtype=int)])
def test_targets_that_are_no_labels_are_not_counted(targets):
    examples = Examples(np.zeros(2), targets)
    assert not examples.has_labels
    with pytest.raises(InvalidSetting, match="have no labels to count"):
        FederatedData(examples, assignment([0, 1], [0, 2])).label_counts()
