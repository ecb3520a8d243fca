"""The user's own data as `Examples` and `FederatedData`: from arrays, from clients, from torch Datasets.

Arrays, memory maps and CPU tensors are taken as they are, without a copy. Where each client brings arrays of
its own they are joined into one column once; a client is then a stretch of rows. Tables are in `tables`.
Values are not looked at: a NaN among the inputs is found by whoever trains on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from stayput.data.federated_data import Array, Assignment, Examples, FederatedData
from stayput.data.partitions.cuts import offsets_of
from stayput.errors import EmptyClient, InvalidSetting

Column: TypeAlias = Any
"""What becomes a column: a NumPy array, a memory map, a torch CPU tensor, or a list of such or of numbers."""


def from_arrays(x: Column, y: Column, keys: Mapping[str, Column] | None = None) -> Examples:
    """Examples from inputs `x` and targets `y`, row i of each being example i.

    `keys` are further columns by which examples can be told apart, such as {"writer": [...]}; a key may hold
    strings.
    """
    inputs, targets = numbers("x", x), numbers("y", y)
    if not len(inputs):
        raise InvalidSetting("x has 0 rows: must hold at least one example")
    return Examples(inputs, targets, {name: _key(name, column) for name, column in (keys or {}).items()})


def from_clients(clients: Mapping[Any, tuple[Column, Column]]) -> FederatedData:
    """A population from {client id: (x, y)}, the clients in the mapping's order."""
    if not isinstance(clients, Mapping):
        raise InvalidSetting(f"clients={type(clients).__name__}: must map client ids to pairs (x, y)")
    pairs: dict[str, tuple[Array, Array]] = {}
    for client, pair in clients.items():
        if str(client) in pairs:
            raise InvalidSetting(f"client {client!r}: must have an id of its own; another is written {client} too")
        pairs[str(client)] = _client_columns(str(client), pair)
    return _joined(pairs, named=True)


def from_datasets(datasets: Iterable[Dataset[Any]]) -> FederatedData:
    """A population from torch Datasets of pairs (x, y), one for each client; clients have numbers for ids."""
    pairs = {str(client): _dataset_columns(client, dataset) for client, dataset in enumerate(datasets)}
    return _joined(pairs, named=False)


def numbers(name: str, column: Column) -> Array:
    """A column of numbers as an array in the machine's byte order, without a copy where it is one already."""
    array = _array(name, column)
    if array.dtype.kind not in "biuf":
        raise InvalidSetting(
            f"{name} of dtype {array.dtype}: must hold numbers, each row of the same shape "
            f"(turn text or categories into whole numbers first)"
        )
    return array


def _key(name: str, column: Column) -> Array:
    array = _array(f"keys[{name!r}]", column)
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array.flat):
        return array.astype(np.str_)
    if array.dtype.kind not in "biufSUT":
        raise InvalidSetting(f"keys[{name!r}] of dtype {array.dtype}: must hold numbers or strings")
    return array


def _array(name: str, column: Column) -> Array:
    if isinstance(column, list | tuple) and len(column) and all(isinstance(row, torch.Tensor) for row in column):
        column = _stacked(name, column)
    if isinstance(column, torch.Tensor):
        column = _of_tensor(name, column)
    try:
        array = np.asarray(column)
    except ValueError as error:
        raise InvalidSetting(f"{name}: must have rows of one shape ({error})") from error
    if array.ndim == 0:
        raise InvalidSetting(f"{name}={column!r}: must be a column, one row for each example")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _of_tensor(name: str, tensor: torch.Tensor) -> Array:
    """The tensor's own memory."""
    if tensor.device.type != "cpu":
        raise InvalidSetting(f"{name} on device {tensor.device}: must be on the CPU (pass {name}.cpu())")
    try:
        array: Array = tensor.detach().numpy()
    except TypeError as error:
        raise InvalidSetting(
            f"{name} of dtype {tensor.dtype}: must have a dtype that NumPy knows (pass {name}.float())"
        ) from error
    return array


def _stacked(name: str, tensors: list[torch.Tensor] | tuple[torch.Tensor, ...]) -> torch.Tensor:
    try:
        return torch.stack(list(tensors))
    except RuntimeError as error:
        raise InvalidSetting(f"{name}: must have rows of one shape ({error})") from error


def _client_columns(client: str, pair: object) -> tuple[Array, Array]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InvalidSetting(f"client {client}: must hold a pair (x, y), not {type(pair).__name__}")
    inputs, targets = numbers(f"client {client}: x", pair[0]), numbers(f"client {client}: y", pair[1])
    if len(inputs) != len(targets):
        raise InvalidSetting(
            f"client {client}: y has {len(targets)} rows: must have as many as x, {len(inputs)} "
            f"(row i of both is example i)"
        )
    if not len(inputs):
        raise EmptyClient(
            f"client {client} has 0 examples: each must have at least 1, its weight in the average (leave it out)"
        )
    return inputs, targets


def _joined(clients: Mapping[str, tuple[Array, Array]], *, named: bool) -> FederatedData:
    """One column of inputs and one of targets, client after client."""
    if not clients:
        raise InvalidSetting("clients: there are none; must be at least one")
    first = next(iter(clients))
    for client in clients:
        for name, mine, reference in zip("xy", clients[client], clients[first], strict=True):
            if mine.dtype != reference.dtype or mine.shape[1:] != reference.shape[1:]:
                raise InvalidSetting(
                    f"client {client}: {name} has rows of shape {mine.shape[1:]} and dtype {mine.dtype}: "
                    f"must match client {first}'s, {reference.shape[1:]} and {reference.dtype} (one model "
                    "reads them all)"
                )
    sizes = np.array([len(inputs) for inputs, _ in clients.values()], dtype=np.int64)
    inputs, targets = (_concatenated(columns) for columns in zip(*clients.values(), strict=True))
    examples = Examples(inputs, targets)
    order = np.arange(len(examples), dtype=np.int64)
    return FederatedData(examples, Assignment(order, offsets_of(sizes), list(clients) if named else None))


def _concatenated(columns: tuple[Array, ...]) -> Array:
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


def _dataset_columns(client: int, dataset: Dataset[Any]) -> tuple[Array, Array]:
    if not isinstance(dataset, Dataset):
        raise InvalidSetting(f"client {client}: must be a torch Dataset of pairs (x, y), not {type(dataset).__name__}")
    if isinstance(dataset, TensorDataset) and len(dataset.tensors) == 2:
        return _client_columns(str(client), dataset.tensors)
    inputs, targets = [], []
    for item in _items(dataset):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise InvalidSetting(f"client {client}: must yield pairs (x, y), not {type(item).__name__}")
        inputs.append(item[0])
        targets.append(item[1])
    return _client_columns(str(client), (inputs, targets))


def _items(dataset: Dataset[Any]) -> Iterator[Any]:
    """The items, by number where they have numbers: many datasets do not end an iteration by themselves."""
    if isinstance(dataset, IterableDataset):
        return iter(dataset)
    return (dataset[index] for index in range(len(dataset)))  # type: ignore[arg-type] # Dataset has no len of its own
