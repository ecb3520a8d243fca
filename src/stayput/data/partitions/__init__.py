"""Rules that spread examples over clients, one file each, and the table of them by name.

A partition gives every example to exactly one client, leaves no client empty, and decides the same for the
same seed; `tests/contracts/test_partitions.py` holds all of them to that. To add one: a frozen dataclass with
`name`, `summary` and `assign` in a file of its own, and a line in `PARTITIONS`.

Must not import tasks, engines or runs.
"""

from __future__ import annotations

from stayput.data.federated_data import Partition
from stayput.data.partitions.by_key import ByKey
from stayput.data.partitions.dirichlet import Dirichlet
from stayput.data.partitions.iid import Iid
from stayput.data.partitions.shards import Shards
from stayput.data.partitions.unbalanced import Unbalanced

PARTITIONS: dict[str, type[Partition]] = {
    Iid.name: Iid,
    Shards.name: Shards,
    Dirichlet.name: Dirichlet,
    ByKey.name: ByKey,
    Unbalanced.name: Unbalanced,
}
"""Every partition by its name."""

__all__ = ["PARTITIONS", "ByKey", "Dirichlet", "Iid", "Partition", "Shards", "Unbalanced"]
