"""S_t, the clients of a round: a random set of m = max(C·K, 1) clients (the paper's Algorithm 1)."""

from __future__ import annotations

import math

from stayput.core.rules import require_count, require_fraction
from stayput.core.seeds import Indices, Purpose, distinct_integers


def cohort_size(num_clients: int, client_fraction: float) -> int:
    """m = max(C·K, 1), where C·K is rounded to the nearest whole number (halves up)."""
    require_count("num_clients", num_clients, "a round needs somebody to train")
    require_fraction("client_fraction", client_fraction, "selects one client")
    return min(num_clients, max(math.floor(client_fraction * num_clients + 0.5), 1))


def choose_cohort(num_clients: int, client_fraction: float, *, seed: int, round_number: int) -> Indices:
    """The clients of a round, in ascending order; the same for the same seed and round, on any engine."""
    return draw_clients(cohort_size(num_clients, client_fraction), num_clients, seed=seed, round_number=round_number)


def draw_clients(
    count: int, below: int, *, seed: int, round_number: int, purpose: Purpose = Purpose.COHORT, draw: int = 0
) -> Indices:
    """`count` different clients of range(below), in ascending order; `draw` tells several draws of a round apart."""
    return distinct_integers(seed, purpose, count, below, round_number=round_number, epoch=draw)
