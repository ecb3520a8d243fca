"""The paper's pathological non-IID partition: most clients hold examples of two digits only (section 3).

"We first sort the data by digit label, divide it into 200 shards of size 300, and assign each of 100 clients
2 shards."
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stayput.core.rules import require_count
from stayput.core.seeds import Purpose, permutation
from stayput.data.federated_data import Assignment, Examples
from stayput.data.partitions.cuts import Stream, even_offsets, labels_of, offsets_of, runs
from stayput.errors import InvalidSetting


@dataclass(frozen=True)
class Shards:
    """Examples are sorted by label and cut into equal shards; every client gets a few shards at random.

    A shard spans more than one label only where a label's examples end inside it. Where K·s does not divide
    n, shards differ in size by at most one.
    """

    name: ClassVar[str] = "shards"
    summary: ClassVar[str] = "sorted by label, cut into shards, a few random shards each: the paper's non-IID"

    num_clients: int = 100
    """K."""
    shards_per_client: int = 2
    """s; the fewer, the fewer labels a client knows."""

    def __post_init__(self) -> None:
        """Refuse what are not counts."""
        require_count("num_clients", self.num_clients, "K, the clients that hold data")
        require_count("shards_per_client", self.shards_per_client, "the paper's is 2")

    def assign(self, examples: Examples, *, seed: int) -> Assignment:
        """Sort by label (examples of a label keep their order), cut, and deal the shards out."""
        num_shards = self.num_clients * self.shards_per_client
        if num_shards > len(examples):
            raise InvalidSetting(
                f"num_clients={self.num_clients} with shards_per_client={self.shards_per_client}: must make "
                f"at most as many shards as there are examples, {len(examples)} (they make {num_shards}; "
                "lower either)"
            )
        by_label = np.argsort(labels_of(examples, self.name), kind="stable").astype(np.int64, copy=False)
        shard_offsets = even_offsets(len(examples), num_shards)
        dealt = permutation(seed, Purpose.PARTITION, num_shards, epoch=Stream.ORDER)
        sizes = np.diff(shard_offsets)[dealt]
        order = by_label[runs(shard_offsets[dealt], sizes)]
        return Assignment(order, offsets_of(sizes.reshape(self.num_clients, -1).sum(axis=1)))
