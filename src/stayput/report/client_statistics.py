"""Clients in numbers: how much each holds, how many labels, how often each was asked to train.

Who trained in which round follows from the run's seed (`core/cohort.py`), so it need not have been written down.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stayput.core.cohort import choose_cohort
from stayput.core.history import History
from stayput.report.partition_picture import LabelCounts, checked_counts
from stayput.report.wording import count_text
from stayput.runs.spec import RunSpec

Numbers = npt.NDArray[np.int64]
_MOST_DRAWS = 5_000_000
"""Cohorts of more clients in all are not drawn again for a table."""


@dataclass(frozen=True)
class Histogram:
    """How many clients are in each of some ranges of a number."""

    edges: Numbers
    clients: Numbers

    @property
    def labels(self) -> list[str]:
        """`600`, or `540 to 569`: the whole numbers of each range."""
        pairs = zip(self.edges[:-1], self.edges[1:] - 1, strict=True)
        return [count_text(low) if low == high else f"{count_text(low)} to {count_text(high)}" for low, high in pairs]


def client_sizes(label_counts: LabelCounts) -> Numbers:
    """n_k of every client."""
    sizes: Numbers = checked_counts(label_counts).sum(axis=1)
    return sizes


def histogram(values: Numbers, *, most: int = 20) -> Histogram:
    """Ranges of equal width, with whole edges; the last range ends where the largest value is in it."""
    low, high = int(values.min()), int(values.max())
    width = max(1, -(-(high - low + 1) // most))
    edges = np.arange(low, high + width + 1, width, dtype=np.int64)
    return Histogram(edges, np.histogram(values, bins=edges)[0].astype(np.int64))


def times_chosen(spec: RunSpec, num_clients: int, history: History) -> Numbers | None:
    """In how many rounds each client trained; None where all do, or where it cannot be drawn again."""
    fraction = spec.algorithm.get("client_fraction")
    rounds = [report for report in history.reports if report.round_number > 0]
    if not isinstance(fraction, int | float) or not rounds or sum(r.cohort_size for r in rounds) > _MOST_DRAWS:
        return None
    times = np.zeros(num_clients, dtype=np.int64)
    for report in rounds:
        cohort = choose_cohort(num_clients, fraction, seed=spec.seed, round_number=report.round_number)
        if len(cohort) != report.cohort_size:
            return None  # these cohorts were chosen by another rule
        times[cohort] += 1
    return times


def statistics_of(
    spec: RunSpec, environment: dict[str, Any], history: History, label_counts: LabelCounts | None
) -> dict[str, str]:
    """The table of a report: clients, what they hold, how often they trained."""
    table: dict[str, str] = {}
    if "num_clients" in environment:
        table["clients"] = count_text(environment["num_clients"])
    if "num_examples" in environment:
        table["examples"] = count_text(environment["num_examples"])
    sizes = Counter(report.cohort_size for report in history.reports if report.round_number > 0)
    if sizes:
        low, high = min(sizes), max(sizes)
        table["clients in a round"] = count_text(low) if low == high else f"{count_text(low)} to {count_text(high)}"
    if label_counts:
        counts = checked_counts(label_counts)
        table["examples of a client"] = _spread(counts.sum(axis=1))
        table["labels of a client"] = _spread((counts > 0).sum(axis=1))
    if isinstance(environment.get("num_clients"), int):
        times = times_chosen(spec, environment["num_clients"], history)
        if times is not None:
            table["rounds that a client trained in"] = _spread(times)
            table["clients that never trained"] = count_text(int((times == 0).sum()))
    return table


def _spread(values: Numbers) -> str:
    """`600`, or `312 to 1,204, median 598`."""
    low, high = int(values.min()), int(values.max())
    if low == high:
        return count_text(low)
    return f"{count_text(low)} to {count_text(high)}, median {count_text(float(np.median(values)))}"
