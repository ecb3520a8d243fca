import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from stayput.data import from_arrays, from_clients, from_datasets
from stayput.errors import EmptyClient, InvalidSetting


def test_arrays_are_taken_without_a_copy():
    x, y = np.zeros((3, 2)), np.zeros(3, dtype=np.int64)
    examples = from_arrays(x, y)
    assert np.shares_memory(examples.inputs, x)
    assert np.shares_memory(examples.targets, y)


def test_memory_maps_are_taken_without_reading_them(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    x = np.load(tmp_path / "x.npy", mmap_mode="c")
    assert np.shares_memory(from_arrays(x, [0, 1, 2]).inputs, x)


def test_tensors_are_taken_without_a_copy():
    x = torch.zeros(3, 2, requires_grad=True)
    examples = from_arrays(x, torch.zeros(3, dtype=torch.uint8))
    with torch.no_grad():
        x[1, 1] = 5
    assert examples.inputs[1, 1] == 5
    assert examples.targets.dtype == np.uint8


def test_lists_of_numbers_arrays_or_tensors_are_taken():
    for x in (
        [[1, 2], [3, 4]],
        [np.array([1, 2]), np.array([3, 4])],
        [torch.tensor([1, 2]), torch.tensor([3, 4])],
    ):
        assert from_arrays(x, (0, 1)).inputs.tolist() == [[1, 2], [3, 4]]


def test_foreign_byte_order_is_converted():
    examples = from_arrays(np.array([1, 2], dtype=">i4"), np.array([1.5, 2], dtype=">f4"))
    assert examples.inputs.dtype.isnative
    assert examples.inputs.tolist() == [1, 2]
    assert examples.targets.tolist() == [1.5, 2]


def test_keys_may_be_numbers_or_strings():
    keys = {"a": ["x", "y"], "b": np.array(["x", "y"], dtype=object), "c": [1, 2]}
    examples = from_arrays([1, 2], [1, 2], keys)
    assert [column.dtype.kind for column in examples.keys.values()] == ["U", "U", "i"]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.array([1, "a"], dtype=object), [0, 1], r"x of dtype object: must hold numbers, .* \(turn text"),
        ([0, 1], ["cat", "dog"], r"y of dtype <U3: must hold numbers"),
        ([[1, 2], [3]], [0, 1], r"x: must have rows of one shape"),
        ([torch.zeros(1), torch.zeros(2)], [0, 1], r"x: must have rows of one shape"),
        (5, [0], r"x=5: must be a column, one row for each example"),
        ([], [], r"x has 0 rows: must hold at least one example"),
        ([1, 2], [1], r"targets has 1 rows: must have as many as inputs, 2"),
        (torch.zeros(2, device="meta"), [0, 1], r"x on device meta: must be on the CPU \(pass x.cpu\(\)\)"),
        (torch.zeros(2, dtype=torch.bfloat16), [0, 1], r"x of dtype torch.bfloat16: .* \(pass x.float\(\)\)"),
    ],
)
def test_what_is_no_column_is_refused(x, y, message):
    with pytest.raises(InvalidSetting, match=message):
        from_arrays(x, y)


def test_keys_of_mixed_objects_are_refused():
    with pytest.raises(InvalidSetting, match=r"keys\['a'\] of dtype object: must hold numbers or strings"):
        from_arrays([1, 2], [1, 2], {"a": [None, "x"]})


def test_clients_keep_their_ids_their_order_and_their_rows():
    population = from_clients({"bob": ([[1.0], [2.0]], [1, 2]), 7: (np.array([[3.0]]), [3])})
    assert list(population.assignment.client_ids) == ["bob", "7"]
    assert population.examples.inputs[population.rows(0)].tolist() == [[1.0], [2.0]]
    assert population.examples.targets[population.rows(1)].tolist() == [3]


def test_a_single_client_is_not_copied():
    x = np.zeros((2, 2))
    assert np.shares_memory(from_clients({"a": (x, [0, 1])}).examples.inputs, x)


@pytest.mark.parametrize(
    ("clients", "error", "message"),
    [
        ([1], InvalidSetting, r"clients=list: must map client ids to pairs"),
        ({}, InvalidSetting, r"clients: there are none"),
        ({"a": ([1], [1]), "b": ([], [])}, EmptyClient, r"client b has 0 examples: .* \(leave it out\)"),
        (
            {"a": ([1], [1]), "b": ([1.5], [1])},
            InvalidSetting,
            r"client b: x .* float64: must match client a's, .*int64",
        ),
        ({"a": ([1], [1]), "b": ([1], [[1]])}, InvalidSetting, r"client b: y has rows of shape \(1,\)"),
        ({"a": ([1, 2], [1])}, InvalidSetting, r"client a: y has 1 rows: must have as many as x, 2"),
        ({"a": [1]}, InvalidSetting, r"client a: must hold a pair \(x, y\), not list"),
        ({"a": (["p"], [1])}, InvalidSetting, r"client a: x of dtype <U1: must hold numbers"),
        ({1: ([1], [1]), "1": ([1], [1])}, InvalidSetting, r"client '1': must have an id of its own"),
    ],
)
def test_clients_that_do_not_fit_are_refused_by_name(clients, error, message):
    with pytest.raises(error, match=message):
        from_clients(clients)


class Squares(Dataset):
    """Numbered items that never end by themselves, as many datasets are."""

    def __init__(self, first, count):
        self.first, self.count = first, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        number = self.first + index
        return torch.tensor([float(number), float(number**2)]), number % 2


class Streamed(IterableDataset):
    def __iter__(self):
        return iter([(torch.tensor([1.0, 1.0]), 1), (torch.tensor([2.0, 4.0]), 0)])


def test_datasets_of_any_kind_become_clients():
    tensors = TensorDataset(torch.ones(2, 2), torch.tensor([0, 1]))
    population = from_datasets([Squares(1, 3), tensors, Subset(tensors, [1]), Streamed()])
    assert population.client_sizes.tolist() == [3, 2, 1, 2]
    assert population.assignment.client_ids is None
    assert population.examples.inputs[population.rows(0)].tolist() == [[1, 1], [2, 4], [3, 9]]
    assert population.examples.targets[population.rows(3)].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("datasets", "error", "message"),
    [
        ([[1, 2]], InvalidSetting, r"client 0: must be a torch Dataset of pairs \(x, y\), not list"),
        (
            [Squares(0, 1), TensorDataset(torch.ones(2))],
            InvalidSetting,
            r"client 1: must yield pairs \(x, y\), not tuple",
        ),
        (
            [TensorDataset(torch.ones(1), torch.ones(1), torch.ones(1))],
            InvalidSetting,
            r"client 0: must yield pairs",
        ),
        ([Squares(0, 0)], EmptyClient, r"client 0 has 0 examples"),
        ([], InvalidSetting, r"clients: there are none"),
    ],
)
def test_datasets_that_do_not_fit_are_refused_by_number(datasets, error, message):
    with pytest.raises(error, match=message):
        from_datasets(datasets)
