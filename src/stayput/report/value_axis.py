"""Which values a curve's picture shows, in a figure and in the terminal alike.

Accuracies end close to 1, where a hundredth decides about a target, and begin near 0, where nothing is to
be seen. So the axis of a share begins where the worst of the curves' ends and the target still stand at
three quarters of the height or above, as in the paper's figure 2, and where no more than a quarter of a typical
curve is below it. Losses that span decades get a logarithmic axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stayput.core.history import Curve

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ValueAxis:
    """The values shown, from the lower edge to the upper one."""

    low: float
    high: float
    log: bool = False

    def position(self, values: Values) -> Values:
        """Where values stand: 0 at the lower edge, 1 at the upper; NaN where there is nothing to show."""
        low, high, shown = self.low, self.high, np.asarray(values, dtype=np.float64)
        if self.log:
            low, high, shown = np.log(low), np.log(high), np.log(np.where(shown > 0, shown, np.nan))
        return (shown - low) / (high - low)


def value_axis(curves: Sequence[Curve], target: float | None = None) -> ValueAxis:
    """The axis for some curves of one metric, and their target."""
    values = [curve.values[np.isfinite(curve.values)] for curve in curves]
    shown = np.concatenate([*values, np.array([] if target is None else [target], dtype=np.float64)])
    if not shown.size:
        return ValueAxis(0.0, 1.0)
    low, high = float(shown.min()), float(shown.max())
    if low >= 0 and high <= 1 and all(curve.higher_is_better for curve in curves):
        best = [np.maximum.accumulate(finite) for finite in values if finite.size]
        focus = min([*(float(entry[-1]) for entry in best), *([] if target is None else [target])])
        quarter = float(np.median([np.quantile(entry, 0.25) for entry in best])) if best else low
        return _share_axis(low, high, min(1 - 4 * (1 - focus), quarter))
    if low > 0 and high / low > 50:
        return ValueAxis(low / 1.25, high * 1.25, log=True)
    pad = 0.06 * (high - low) or max(0.05 * abs(high), 0.05)
    below_zero = low < 0 or low > 0.5 * high
    return ValueAxis(low - pad if below_zero else 0.0, high + pad)


def _share_axis(low: float, high: float, start: float) -> ValueAxis:
    """The axis of a share in [0, 1], which need not begin below `start`, and spans a hundredth at least."""
    bottom = max(low, min(start, 0.99))
    pad = 0.06 * (high - bottom) or 0.03
    top = high + pad
    if top > 0.97:
        top = 1 + 0.02 * (1 - bottom)  # a little room, so that a line at 1 is not cut in half
    return ValueAxis(max(bottom - pad, 0.0) if bottom == low else bottom, top)
