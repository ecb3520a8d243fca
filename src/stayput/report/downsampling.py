"""Long curves as few points that look the same: each stretch keeps its lowest and its highest value.

Pictures have a few hundred columns; a history may have thousands of rounds. Plain thinning would lose a spike or the
one round that was best; keeping the extremes of every stretch loses neither.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Rounds = npt.NDArray[np.int64]


def kept_points(values: Values, most: int) -> npt.NDArray[np.int64]:
    """The places of at most `most` values that are worth drawing, in order, the first and the last among them."""
    if len(values) <= most:
        return np.arange(len(values), dtype=np.int64)
    stretches = max((most - 2) // 2, 1)
    inner = np.linspace(1, len(values) - 1, stretches + 1).astype(np.int64)
    low, high = np.where(np.isfinite(values), values, np.inf), np.where(np.isfinite(values), values, -np.inf)
    kept = {0, len(values) - 1}
    for start, end in pairwise(inner.tolist()):
        if end > start:
            kept |= {start + int(np.argmin(low[start:end])), start + int(np.argmax(high[start:end]))}
    return np.array(sorted(kept), dtype=np.int64)


def downsampled(rounds: Rounds, values: Values, most: int) -> tuple[Rounds, Values]:
    """A curve with at most `most` points."""
    kept = kept_points(values, most)
    return rounds[kept], values[kept]
