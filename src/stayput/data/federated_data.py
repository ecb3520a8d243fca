"""Examples, and how they are spread over clients, without a copy per client.

`Examples` are columns: row i of every column is example i. `FederatedData` adds an order of the rows and
where in it each client's rows begin, so a client is two numbers, however many clients there are. Columns may
be memory maps; only the rows of a batch are ever read into memory together.

    client k holds rows  order[offsets[k] : offsets[k + 1]]
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from stayput.core.seeds import Indices
from stayput.errors import EmptyClient, InvalidSetting

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Examples:
    """Labelled examples: what a model is given, and what it should say."""

    inputs: Array
    """x, one row an example."""
    targets: Array
    """y, one row an example."""
    keys: Mapping[str, Array] = field(default_factory=dict)
    """Further columns by which examples can be told apart, such as who wrote them; see `partitions.ByKey`."""
    absent_keys: Mapping[str, str] = field(default_factory=dict)
    """Keys these examples could have, each with what to do to get it, for the error when one is asked for."""

    def __post_init__(self) -> None:
        """Refuse columns that do not match."""
        columns = {"targets": self.targets, **{f"keys[{name!r}]": key for name, key in self.keys.items()}}
        for name, column in columns.items():
            if len(column) != len(self.inputs):
                raise InvalidSetting(
                    f"{name} has {len(column)} rows: must have as many as inputs, {len(self.inputs)} "
                    f"(row i of every column is example i)"
                )

    def __len__(self) -> int:
        """n, the number of examples."""
        return len(self.inputs)

    @property
    def has_labels(self) -> bool:
        """Whether each target is one whole number, the number of a class."""
        targets = np.asarray(self.targets)
        return targets.ndim == 1 and targets.dtype.kind in "biu"

    def partition(self, partition: Partition, *, seed: int = 0) -> FederatedData:
        """Spread the examples over clients."""
        return FederatedData(self, partition.assign(self, seed=seed))


@dataclass(frozen=True)
class Assignment:
    """Which rows each client holds."""

    order: Indices
    """Rows, client after client."""
    offsets: Indices
    """Where in `order` each client begins, and last where the last one ends: K + 1 numbers."""
    client_ids: Sequence[str] | None = None
    """The clients' names; their numbers if None."""

    def __post_init__(self) -> None:
        """Refuse offsets that are none, and clients without examples."""
        sizes = np.diff(self.offsets)
        if not len(sizes) or self.offsets[0] != 0 or self.offsets[-1] != len(self.order) or sizes.min() < 0:
            raise InvalidSetting(
                f"offsets: must rise from 0 to the number of rows, {len(self.order)}, with one more entry than clients"
            )
        if self.client_ids is not None and len(self.client_ids) != len(sizes):
            raise InvalidSetting(
                f"client_ids has {len(self.client_ids)} names: must have one for each of {len(sizes)} clients"
            )
        if not sizes.all():
            empty = np.flatnonzero(sizes == 0)
            raise EmptyClient(
                f"client {self.client_name(int(empty[0]))} has 0 examples ({len(empty)} such clients): each "
                f"must have at least 1, its weight in the average (use fewer clients, or leave these out)"
            )

    @property
    def num_clients(self) -> int:
        """K."""
        return len(self.offsets) - 1

    def client_name(self, client: int) -> str:
        """A client's name."""
        return str(client) if self.client_ids is None else str(self.client_ids[client])


class Partition(Protocol):
    """A rule that spreads examples over clients: every example to exactly one, the same for the same seed."""

    @property
    def name(self) -> str:
        """The name in `stayput partitions` and in a run's spec."""
        ...

    def assign(self, examples: Examples, *, seed: int) -> Assignment:
        """Decide which rows each client holds."""
        ...


@dataclass(frozen=True)
class FederatedData:
    """A population of clients and the examples they hold."""

    examples: Examples
    assignment: Assignment

    @property
    def num_clients(self) -> int:
        """K."""
        return self.assignment.num_clients

    @property
    def num_examples(self) -> int:
        """n, over all clients."""
        return int(self.assignment.offsets[-1])

    @cached_property
    def client_sizes(self) -> Indices:
        """n_k of every client."""
        return np.diff(self.assignment.offsets)

    def rows(self, client: int) -> Indices:
        """The rows of the examples that a client holds."""
        offsets = self.assignment.offsets
        return self.assignment.order[offsets[client] : offsets[client + 1]]

    def pooled(self) -> FederatedData:
        """The same examples, all held by one client: for baselines that are not federated."""
        order = self.assignment.order
        return FederatedData(self.examples, Assignment(order, np.array([0, len(order)], dtype=np.int64)))

    def label_counts(self) -> npt.NDArray[np.int64]:
        """How many examples of each label each client holds, [client, label]; see `Examples.has_labels`."""
        targets = np.asarray(self.examples.targets)
        if not self.examples.has_labels:
            raise InvalidSetting(f"targets of shape {targets.shape} and dtype {targets.dtype}: have no labels to count")
        labels = targets[self.assignment.order].astype(np.int64)
        clients = np.repeat(np.arange(self.num_clients), self.client_sizes)
        num_labels = int(labels.max()) + 1
        counts = np.bincount(clients * num_labels + labels, minlength=self.num_clients * num_labels)
        return counts.reshape(self.num_clients, num_labels)

    @cached_property
    def partition_fingerprint(self) -> str:
        """SHA-256 over who holds which rows: a run that goes on must find the same."""
        digest = hashlib.sha256(np.ascontiguousarray(self.assignment.offsets, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(self.assignment.order, dtype="<i8").tobytes())
        return digest.hexdigest()
