"""Curves as the page draws them: few points, and those that were added since.

What is sent is what `assets/charts.js` reads (`stayput.report.charts`). Whoever has the points up to a round asks for
those after it, which are sent as they are; once they are many, the whole curve is sent again, thinned anew.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from stayput.board.growing import GrowingHistory
from stayput.report.downsampling import downsampled

MOST_POINTS = 600
_MOST_ADDED = 200


def series_of(history: GrowingHistory, after: int | None = None) -> dict[str, Any]:
    """Every curve of a run: metrics on the test examples, the train loss, seconds a round."""
    rounds = np.array(history.rounds, dtype=np.int64)
    columns: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]] = {
        name: (np.array(at, dtype=np.int64), np.array(values, dtype=np.float64))
        for name, (at, values) in history.evaluated.items()
    }
    trained = rounds > 0
    losses = np.array([math.nan if loss is None else loss for loss in history.train_loss], dtype=np.float64)
    columns["train_loss"] = (rounds[trained], losses[trained])
    columns["seconds"] = (rounds[trained], np.array(history.seconds, dtype=np.float64)[trained])
    added = 0 if after is None else int(np.count_nonzero(rounds > after))
    whole = after is None or added > _MOST_ADDED
    return {
        "whole": whole,
        "last_round": int(rounds[-1]) if rounds.size else None,
        "curves": {name: _points(x, y, None if whole else after) for name, (x, y) in columns.items()},
    }


def _points(x: npt.NDArray[np.int64], y: npt.NDArray[np.float64], after: int | None) -> dict[str, list[Any]]:
    if after is not None:
        x, y = x[x > after], y[x > after]
    else:
        x, y = downsampled(x, y, MOST_POINTS)
    return {"x": x.tolist(), "y": [value if math.isfinite(value) else None for value in y.tolist()]}
