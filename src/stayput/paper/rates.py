"""The multiplicative grid of learning rates: η = 10^(k/6) for whole numbers k (section 3).

The paper's grids have a resolution of 10^(1/3) or 10^(1/6), and the three rates that its text prints lie on the finer
one: 0.1 (k=-6), 0.215 (k=-4) and 1.47 (k=1). All grids are cut from this one lattice, so that cells that were measured
with different grids, on different machines, add up to a wider one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stayput.core.rules import require_count
from stayput.errors import InvalidSetting

STEPS_IN_A_DECADE = 6
WIDENING = 2
"""Rates that are added beyond an edge at which the best one lies."""
LOWEST, HIGHEST = -24, 18
"""No grid is widened beyond 0.0001 and 1,000."""


def rate_of(exponent: int) -> float:
    """η to six digits, as specs and files have it."""
    return float(f"{10 ** (exponent / STEPS_IN_A_DECADE):.6g}")


def grid_around(centre: int, count: int) -> tuple[int, ...]:
    """`count` neighbouring exponents with `centre` in the middle (of an even number, left of it)."""
    require_count("grid", count, "learning rates of a cell")
    if count > HIGHEST - LOWEST + 1:
        raise InvalidSetting(
            f"grid={count}: must be at most {HIGHEST - LOWEST + 1} learning rates, from {rate_of(LOWEST):g} to "
            f"{rate_of(HIGHEST):g} (the paper's is 11 to 13)"
        )
    first = centre - (count - 1) // 2
    return tuple(range(first, first + count))


def beyond_edge(measured: Iterable[int], best: int) -> Sequence[int]:
    """The exponents to add when the best one is the lowest or the highest of those measured; none when it is inside."""
    there = sorted(measured)
    if best == there[0]:
        added = range(best - WIDENING, best)
    elif best == there[-1]:
        added = range(best + 1, best + 1 + WIDENING)
    else:
        return ()
    return [exponent for exponent in added if LOWEST <= exponent <= HIGHEST]
