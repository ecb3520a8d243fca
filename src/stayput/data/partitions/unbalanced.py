"""Clients of very different sizes, over any other partition.

Not in the paper's MNIST experiments; its Shakespeare and social-network clients are unbalanced by nature.

How it is made, exactly. The other partition assigns the examples; they are laid end to end, client after
client, and cut anew into as many clients:
- Client k draws a weight w_k by the logarithm: log w_k is `spread` times a standard normal (`log_normal`) or
  a standard exponential number (`power_law`: a Pareto distribution of weights, P(w > t) = t^(-1/spread)). In
  both, `spread` is the standard deviation of log w_k; 0 makes all sizes equal.
- Every client gets one example, and the other n - K are divided in proportion to the weights, rounded by
  largest remainders (ties go to the lower client number). So sizes sum to n exactly.
The cut keeps neighbours together: over `Shards`, a small client still holds one label or two, a large one
several. Over `ByKey`, the new clients are no longer the natural ones and are named by number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import NormalDist
from typing import ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from stayput.core.rules import require_positive
from stayput.core.seeds import Indices, Purpose, raw_words
from stayput.data.federated_data import Assignment, Examples, Partition
from stayput.data.partitions.cuts import Stream, offsets_of
from stayput.data.partitions.iid import Iid
from stayput.errors import InvalidSetting, UnknownName

Sizes = Literal["log_normal", "power_law"]
"""The distributions that client sizes can follow."""


@dataclass(frozen=True)
class Unbalanced:
    """Another partition's examples, cut anew into clients whose sizes follow a log-normal or a power law."""

    name: ClassVar[str] = "unbalanced"
    summary: ClassVar[str] = "over another partition: sizes cut anew from a log-normal or a power law"

    over: Partition = field(default_factory=Iid)
    """The partition whose examples are cut anew; it sets the number of clients."""
    sizes: Sizes = "log_normal"
    """The distribution of sizes."""
    spread: float = 1.0
    """Standard deviation of the logarithm of the weights; 0 makes sizes equal."""

    def __post_init__(self) -> None:
        """Refuse what cannot be cut, and distributions that are not known."""
        if isinstance(self.over, Unbalanced) or not callable(getattr(self.over, "assign", None)):
            raise InvalidSetting(f"over={self.over!r}: must be another partition (such as Shards(num_clients=100))")
        if self.sizes not in get_args(Sizes):
            raise UnknownName("sizes", self.sizes, get_args(Sizes))
        if self.spread != 0:
            require_positive("spread", self.spread, "or 0 for equal sizes")

    def assign(self, examples: Examples, *, seed: int) -> Assignment:
        """Cut the other partition's sequence of examples at sizes drawn from the distribution."""
        inner = self.over.assign(examples, seed=seed)
        return Assignment(inner.order, offsets_of(self._draw_sizes(inner.num_rows, inner.num_clients, seed)))

    def _draw_sizes(self, num_examples: int, num_clients: int, seed: int) -> Indices:
        log_weights = self.spread * _standard_draws(self.sizes, num_clients, seed)
        weights = np.exp(log_weights - log_weights.max())  # the largest is 1, so nothing overflows
        quotas = (num_examples - num_clients) * (weights / weights.sum())
        sizes: Indices = np.floor(quotas).astype(np.int64)
        by_remainder = np.argsort(sizes - quotas, kind="stable")
        sizes[by_remainder[: num_examples - num_clients - int(sizes.sum())]] += 1
        return sizes + 1


def _standard_draws(sizes: Sizes, count: int, seed: int) -> npt.NDArray[np.float64]:
    """Standard normal or exponential numbers: the distribution's inverse at uniform numbers in (0, 1)."""
    words = raw_words(seed, Purpose.PARTITION, count, epoch=Stream.SIZES)
    uniform = ((words >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52
    if sizes == "power_law":
        return -np.log(uniform)
    inverse = NormalDist().inv_cdf
    return np.array([inverse(u) for u in uniform.tolist()], dtype=np.float64)
