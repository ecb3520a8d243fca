"""Label proportions from a Dirichlet distribution: non-IID by a dial (Hsu et al. 2019, arXiv:1909.06335).

Not in the paper. It is what most later work on federated learning measures with: `alpha` goes from one label
a client (towards 0) to the same labels for all (towards infinity).

What is promised, and how:
- Sizes are even, so no client can be empty; they differ by at most one. (The variant that splits every label
  over the clients can leave clients empty and is usually drawn again until it does not; this needs no loop.)
- Every client draws label proportions q_k ~ Dir(alpha · L · p), where L is the number of labels and p their
  shares of all examples: on balanced labels that is Dir(alpha, ..., alpha).
- Together the clients must hold exactly the examples there are. So the drawn proportions are scaled, label by
  label and client by client in turn (iterative proportional fitting, a fixed number of times), until they
  nearly add up, and rounded to whole examples, what rounding owes a label being carried to the next client.
  Drawing from what is left instead, as is often done, hands the last clients the labels that nobody wanted.
- Where proportions cannot add up (very small alpha, few clients) the last clients do take what is left.
Which examples of a label a client gets is random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from stayput.core.rules import require_count, require_positive
from stayput.core.seeds import Indices, Purpose, generator, permutation
from stayput.data.federated_data import Assignment, Examples
from stayput.data.partitions.cuts import (
    Stream,
    even_offsets,
    labels_of,
    offsets_of,
    require_an_example_each,
    runs,
)

EVEN_ENOUGH = 1e9
"""Larger alphas are indistinguishable from this one, and would overflow."""

FITTING_STEPS = 100
"""Enough to come within an example of the labels' totals, unless alpha is very small."""

LEAST_SHARE = 1e-9
"""Mixed into every client's proportions: with no share exactly zero, the fitting cannot divide by zero."""

Proportions: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Dirichlet:
    """Every client draws its own label proportions from a Dirichlet distribution; sizes are even."""

    name: ClassVar[str] = "dirichlet"
    summary: ClassVar[str] = "label proportions of each client from Dir(alpha): non-IID by a dial"

    num_clients: int = 100
    """K."""
    alpha: float = 0.5
    """Concentration: 100 is nearly IID, 0.1 leaves most clients with few labels."""

    def __post_init__(self) -> None:
        """Refuse what is not a number of clients or not a concentration."""
        require_count("num_clients", self.num_clients, "K, the clients that hold data")
        require_positive("alpha", self.alpha, "0.1 is far from IID, 100 nearly IID")

    def assign(self, examples: Examples, *, seed: int) -> Assignment:
        """Decide how many examples of each label each client gets, then which."""
        require_an_example_each(self.num_clients, examples)
        _, codes, label_sizes = np.unique(labels_of(examples, self.name), return_inverse=True, return_counts=True)
        offsets = even_offsets(len(examples), self.num_clients)
        shuffled = permutation(seed, Purpose.PARTITION, len(examples), epoch=Stream.WITHIN_LABELS)
        pools = shuffled[np.argsort(codes[shuffled], kind="stable")]  # label after label, each in random order
        shares = label_sizes / len(examples)
        concentration = min(self.alpha, EVEN_ENOUGH) * len(shares) * shares
        drawn = generator(seed, Purpose.PARTITION).dirichlet(concentration, size=self.num_clients)
        counts = _whole_examples(_fitted(drawn, shares), label_sizes, np.diff(offsets))
        # The k-th client's examples of label l begin where those of the clients before it end in pool l.
        taken_before = np.cumsum(counts, axis=0) - counts
        starts = offsets_of(label_sizes)[:-1] + taken_before
        return Assignment(pools[runs(starts.ravel(), counts.ravel())], offsets)


def _fitted(drawn: Proportions, shares: Proportions) -> Proportions:
    """The drawn proportions, scaled so that the clients' mean comes near the labels' shares."""
    fitted = (1 - LEAST_SHARE) * drawn + LEAST_SHARE * shares
    for _ in range(FITTING_STEPS):
        fitted *= shares / fitted.mean(axis=0)
        fitted /= fitted.sum(axis=1, keepdims=True)
    return fitted


def _whole_examples(proportions: Proportions, label_sizes: Indices, client_sizes: Indices) -> Indices:
    """How many examples of each label each client gets, [client, label]."""
    counts = np.zeros(proportions.shape, dtype=np.int64)
    left = label_sizes.astype(np.int64, copy=True)
    owed = np.zeros(len(left))
    for client, size in enumerate(client_sizes.tolist()):
        wanted = size * proportions[client] + owed
        counts[client] = _rounded(wanted, size, left)
        left -= counts[client]
        owed = np.clip(wanted - counts[client], -1, 1)  # a label that has run out must not be owed for ever
    return counts


def _rounded(wanted: Proportions, size: int, left: Indices) -> Indices:
    """Whole numbers near `wanted` that sum to `size`, none above what is left of its label.

    Every pass brings the sum nearer by at least one: clients never ask for more than there is, so some label
    can still give, and a sum that is too large has a label that can take less.
    """
    counts: Indices = np.floor(np.clip(wanted, 0, left)).astype(np.int64)
    while (missing := size - int(counts.sum())) != 0:
        step = 1 if missing > 0 else -1
        movable = np.flatnonzero(counts < left if missing > 0 else counts > 0)
        most_wanting = movable[np.argsort(step * (counts - wanted)[movable], kind="stable")]
        counts[most_wanting[: abs(missing)]] += step
    return counts
