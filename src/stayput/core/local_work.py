"""What a client is asked to do in a round: how many passes over its data, in which minibatches, at which rate.

The split into minibatches, decided here once for every engine:

- each pass ("epoch") over a client's data is a fresh shuffle, from the stream (seed, round, client, epoch);
- it is cut into batches of B; the last, smaller batch is used, not dropped;
- B="all" is one batch, in stored order: a shuffle could only change how the sum rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stayput.core.rules import BatchSize
from stayput.core.seeds import Indices, Purpose, permutation


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """The local computation of one round, the same for every client of the cohort."""

    learning_rate: float
    """η in this round."""
    batch_size: BatchSize
    """B in this round."""
    local_epochs: int = 1
    """E in this round."""
    minibatches: range | None = None
    """If set, train on these minibatches of an endless, reshuffled sequence instead of on E passes: what pooled
    SGD does, whose round is a number of steps that does not end where its pass over the data ends."""

    def batch_length(self, num_examples: int) -> int:
        """The size of a full minibatch for a client with that many examples."""
        return num_examples if self.batch_size == "all" else min(int(self.batch_size), num_examples)

    def steps_per_epoch(self, num_examples: int) -> int:
        """Local steps of one pass, the last, smaller batch counted."""
        return math.ceil(num_examples / self.batch_length(num_examples))

    def num_steps(self, num_examples: int) -> int:
        """u_k, the local steps of a client in this round."""
        if self.minibatches is not None:
            return len(self.minibatches)
        return self.local_epochs * self.steps_per_epoch(num_examples)


def passes(plan: LocalPlan, num_examples: int, *, seed: int, round_number: int, client: int) -> Iterator[Indices]:
    """A client's examples in the order it trains on them, one array per pass (or stretch of a pass).

    Each array is to be cut from its start into batches of `plan.batch_length(num_examples)`.
    """
    if plan.minibatches is None:
        for epoch in range(plan.local_epochs):
            yield _order(plan, num_examples, seed, round_number, client, epoch)
        return
    per_epoch, length = plan.steps_per_epoch(num_examples), plan.batch_length(num_examples)
    step, stop = plan.minibatches.start, plan.minibatches.stop
    while step < stop:
        epoch, first = divmod(step, per_epoch)
        last = min(per_epoch, first + stop - step)
        yield _order(plan, num_examples, seed, 0, client, epoch)[first * length : last * length]
        step += last - first


def _order(plan: LocalPlan, num_examples: int, seed: int, round_number: int, client: int, epoch: int) -> Indices:
    if plan.batch_length(num_examples) == num_examples:
        return np.arange(num_examples, dtype=np.int64)
    return permutation(seed, Purpose.SHUFFLE, num_examples, round_number=round_number, client=client, epoch=epoch)
