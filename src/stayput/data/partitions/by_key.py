"""Natural clients: whoever made the examples holds them, such as writers of digits or roles in plays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stayput.data.federated_data import Assignment, Examples
from stayput.data.partitions.cuts import grouped
from stayput.errors import DataUnavailable, InvalidSetting, UnknownName


@dataclass(frozen=True)
class ByKey:
    """One client for each value of a key, such as a writer; nothing about it is random."""

    name: ClassVar[str] = "by_key"
    summary: ClassVar[str] = "one client for each value of a key, such as the writer of a digit"

    key: str = "writer"
    """The key's name in `Examples.keys`."""

    def __post_init__(self) -> None:
        """Refuse what is not a name."""
        if not self.key:
            raise InvalidSetting(f"key={self.key!r}: must be the name of a key (such as 'writer')")

    def assign(self, examples: Examples, *, seed: int) -> Assignment:  # noqa: ARG002 - natural clients need no seed
        """Clients in the order of the key's sorted values, each with its rows in their order."""
        if self.key not in examples.keys:
            if self.key in examples.absent_keys:
                raise DataUnavailable(f"key={self.key!r}: {examples.absent_keys[self.key]}")
            raise UnknownName("key", self.key, list(examples.keys) or ["none, these examples have no keys"])
        column = np.asarray(examples.keys[self.key])
        if column.ndim != 1:
            raise InvalidSetting(f"key={self.key!r} of shape {column.shape}: must be one value for each example")
        values, codes = np.unique(column, return_inverse=True)
        return grouped(codes, [str(value) for value in values.tolist()])
