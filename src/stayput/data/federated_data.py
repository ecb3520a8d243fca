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
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from stayput.core.seeds import Indices
from stayput.errors import EmptyClient, InvalidSetting

Array = npt.NDArray[Any]

_LABELS_AT_ONCE = 1 << 20
"""Labels that are counted at a time: their columns may be larger than memory."""


@dataclass(frozen=True)
class Stored:
    """Examples on the disk."""

    folder: Path
    part: str
    """Which of the examples that are stored there."""
    sha256: str
    """Of the folder's manifest, which has the hashes of all columns: another folder of that name is noticed."""


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
    target_range: tuple[int, int] | None = None
    """The smallest and the largest target, where these are whole numbers and somebody has looked at all of them: then
    nobody else need."""
    stored: Stored | None = None
    """Where the columns are on the disk as they are here, if they are: other processes can map them too."""

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

    order: Indices | None
    """Rows, client after client; None where they lie like that already, and an order would only fill memory."""
    offsets: Indices
    """Where in `order` each client begins, and last where the last one ends: K + 1 numbers."""
    client_ids: Sequence[str] | None = None
    """The clients' names; their numbers if None."""

    def __post_init__(self) -> None:
        """Refuse offsets that are none, and clients without examples."""
        sizes = np.diff(self.offsets)
        if not len(sizes) or self.offsets[0] != 0 or sizes.min() < 0:
            raise self._misfit("the number of rows" if self.order is None else len(self.order))
        if self.order is not None:
            self.refuse_other_rows_than(len(self.order))
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

    @property
    def num_rows(self) -> int:
        """The rows of all clients."""
        return int(self.offsets[-1])

    def between(self, first: int, last: int) -> Indices:
        """A stretch of the rows, client after client."""
        return np.arange(first, last, dtype=np.int64) if self.order is None else self.order[first:last]

    def refuse_other_rows_than(self, num_rows: int) -> None:
        """Refuse offsets that do not end with the rows there are."""
        if self.num_rows != num_rows:
            raise self._misfit(num_rows)

    def _misfit(self, num_rows: int | str) -> InvalidSetting:
        return InvalidSetting(
            f"offsets: must rise from 0 to the number of rows, {num_rows}, with one more entry than clients (they are "
            f"{len(self.offsets)} and end at {self.offsets[-1]})"
        )

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

    def __post_init__(self) -> None:
        """Refuse offsets that do not match the columns."""
        if self.assignment.order is None:
            self.assignment.refuse_other_rows_than(len(self.examples))

    @property
    def num_clients(self) -> int:
        """K."""
        return self.assignment.num_clients

    @property
    def num_examples(self) -> int:
        """n, over all clients."""
        return self.assignment.num_rows

    @cached_property
    def client_sizes(self) -> Indices:
        """n_k of every client."""
        return np.diff(self.assignment.offsets)

    def rows(self, client: int) -> Indices:
        """The rows of the examples that a client holds."""
        offsets = self.assignment.offsets
        return self.assignment.between(int(offsets[client]), int(offsets[client + 1]))

    def pooled(self) -> FederatedData:
        """The same examples, all held by one client: for baselines that are not federated."""
        together = np.array([0, self.num_examples], dtype=np.int64)
        return FederatedData(self.examples, Assignment(self.assignment.order, together))

    def label_counts(self) -> npt.NDArray[np.int64]:
        """How many examples of each label each client holds, [client, label]; see `Examples.has_labels`."""
        targets = np.asarray(self.examples.targets)
        if not self.examples.has_labels:
            raise InvalidSetting(f"targets of shape {targets.shape} and dtype {targets.dtype}: have no labels to count")
        _, most = self.examples.target_range or (0, int(targets.max()))
        counts = np.zeros((self.num_clients, most + 1), dtype=np.int64)
        for first in range(0, self.num_examples, _LABELS_AT_ONCE):
            last = min(first + _LABELS_AT_ONCE, self.num_examples)
            clients = np.searchsorted(self.assignment.offsets, np.arange(first, last), side="right") - 1
            np.add.at(counts, (clients, targets[self.assignment.between(first, last)]), 1)
        return counts

    @cached_property
    def partition_fingerprint(self) -> str:
        """SHA-256 over who holds which rows: a run that goes on must find the same."""
        digest = hashlib.sha256(np.ascontiguousarray(self.assignment.offsets, dtype="<i8").tobytes())
        if self.assignment.order is not None:
            digest.update(np.ascontiguousarray(self.assignment.order, dtype="<i8").tobytes())
        return digest.hexdigest()
