"""What partitions share: cutting a sequence into runs, reading labels, and the rule that no client is empty.

Random streams: a partition is decided before round 1, so the epoch number of a stream is free to tell apart
the choices that one partition makes (see `Stream`). Without that a partition and the one inside it would draw
the same numbers.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from stayput.core.seeds import Indices
from stayput.data.federated_data import Array, Assignment, Examples
from stayput.errors import InvalidSetting


class Stream(IntEnum):
    """The choices a partition makes, each on random numbers of its own."""

    ORDER = 0
    """Which examples, or shards, go where."""
    SIZES = 1
    """How many examples each client gets."""
    WITHIN_LABELS = 2
    """Which examples of a label go first."""


def even_offsets(total: int, parts: int) -> Indices:
    """Where each of `parts` runs begins and where the last ends; lengths differ by at most one."""
    return np.arange(parts + 1, dtype=np.int64) * total // parts


def offsets_of(sizes: Indices) -> Indices:
    """Where runs of these lengths begin, laid end to end, and where the last ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)])


def runs(starts: Indices, sizes: Indices) -> Indices:
    """The numbers starts[0], starts[0] + 1, ... (sizes[0] of them), then those from starts[1], and so on."""
    offsets = offsets_of(sizes)
    return np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1], dtype=np.int64)


def labels_of(examples: Examples, partition: str) -> Array:
    """The targets, after a check that each is one label."""
    targets = np.asarray(examples.targets)
    if not examples.has_labels:
        raise InvalidSetting(
            f"partition={partition!r} on targets of shape {targets.shape} and dtype {targets.dtype}: must "
            f"have one whole number an example, its label (use 'iid', 'by_key' or 'unbalanced' for other "
            "targets)"
        )
    return targets


def require_an_example_each(num_clients: int, examples: Examples) -> None:
    """Refuse more clients than examples."""
    if num_clients > len(examples):
        raise InvalidSetting(
            f"num_clients={num_clients}: must be at most the number of examples, {len(examples)} "
            f"(each client needs at least one, its weight in the average)"
        )


def grouped(codes: Indices, names: list[str]) -> Assignment:
    """Row i belongs to client codes[i]; within a client, rows keep their order."""
    order = np.argsort(codes, kind="stable").astype(np.int64, copy=False)
    sizes = np.bincount(codes, minlength=len(names)).astype(np.int64, copy=False)
    return Assignment(order, offsets_of(sizes), names)
