"""A curve in a terminal, as plain text: braille dots, a dashed target line and a dot where it is reached.

No colour and no control codes: it reads the same in a terminal, a log and a pipe.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stayput.core.history import Curve
from stayput.report.value_axis import ValueAxis, Values, value_axis
from stayput.report.wording import count_text, rounds_text, value_text

_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""The bits of a braille character's dots: four rows, two columns."""
_BARS = "▁▂▃▄▅▆▇█"
_TARGET, _CROSSING = "╌", "●"
_LEAST_WIDTH, _LEAST_HEIGHT = 24, 3


def curve_in_terminal(
    curve: Curve, *, metric: str, target: float | None = None, width: int = 72, height: int = 10
) -> str:
    """The curve made monotone as `height` + 2 lines of at most `width` characters."""
    if not np.isfinite(curve.values).any():
        return "no evaluations yet" if not curve.values.size else "no evaluation had a finite value"
    height = max(height, _LEAST_HEIGHT)
    axis = value_axis([curve], target)
    names = _value_names(axis, metric, target, height)
    gutter = max(map(len, names.values()))
    columns = max(width, _LEAST_WIDTH) - gutter - 2
    last = max(int(curve.rounds[-1]), 1)
    rows = _braille(_plot(curve, axis, last, columns, height))
    if target is not None:
        _add_target(rows, curve, axis, target, last)
    lines = [f"{names.get(number, ''):>{gutter}} ┤{row.rstrip()}" for number, row in enumerate(map("".join, rows))]
    return "\n".join([*lines, f"{'':>{gutter}} └{'─' * columns}", _round_names(gutter + 2, columns, last)])


def sparklines(curves: Sequence[Curve], *, target: float | None = None, width: int = 24) -> list[str]:
    """A line of bars for each curve made monotone, all to the same scale; for tables that compare runs.

    A curve that ends before the longest one does leaves the rest of its line empty.
    """
    axis = value_axis(curves, target)
    last = max((int(curve.rounds[-1]) for curve in curves if curve.rounds.size), default=0)
    lines = []
    for curve in curves:
        heights = axis.position(_at(curve, np.linspace(0, max(last, 1), width)))
        bars = [" " if np.isnan(h) else _BARS[int(np.clip(h * 8, 0, 7))] for h in heights]
        lines.append("".join(bars))
    return lines


def _at(curve: Curve, rounds: Values) -> Values:
    """The monotone curve at some rounds, interpolated as the paper does; NaN where it is not defined."""
    best = Curve(curve.rounds, np.where(np.isfinite(curve.values), curve.values, np.nan), curve.higher_is_better)
    values = best.best_so_far()
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(rounds), np.nan)
    return np.interp(rounds, curve.rounds[known], values[known], left=np.nan, right=np.nan)


def _plot(curve: Curve, axis: ValueAxis, last: int, columns: int, height: int) -> npt.NDArray[np.bool_]:
    """The dots of the curve, four rows and two columns of them to a character."""
    dots = np.zeros((4 * height, 2 * columns), dtype=np.bool_)
    heights = axis.position(_at(curve, np.linspace(0, last, 2 * columns)))
    if np.isnan(heights).all():  # a single evaluation between two columns of dots
        known = np.flatnonzero(np.isfinite(curve.values))[0]
        column = round(float(curve.rounds[known]) / last * (2 * columns - 1))
        heights[column] = axis.position(curve.values[known : known + 1])[0]
    before: int | None = None
    for column, share in enumerate(heights):
        if np.isnan(share):
            before = None
            continue
        row = round((1 - float(np.clip(share, -1, 2))) * (4 * height - 1))
        top, bottom = sorted(
            (row, row if before is None else before + (1 if row > before else -1 if row < before else 0))
        )
        dots[max(top, 0) : max(bottom + 1, 0), column] = True
        before = row
    return dots


def _braille(dots: npt.NDArray[np.bool_]) -> list[list[str]]:
    rows, columns = dots.shape[0] // 4, dots.shape[1] // 2
    codes = (dots.reshape(rows, 4, columns, 2) * _DOTS[None, :, None, :]).sum(axis=(1, 3))
    return [[chr(0x2800 + int(code)) if code else " " for code in row] for row in codes]


def _row_of(axis: ValueAxis, value: float, height: int) -> int:
    share = float(axis.position(np.array([value]))[0])
    return int(np.clip(round((1 - share) * (4 * height - 1)) // 4, 0, height - 1))


def _value_names(axis: ValueAxis, metric: str, target: float | None, height: int) -> dict[int, str]:
    """What stands left of which row: the edges, and the target, which goes before an edge beside it."""
    high = min(axis.high, 1.0) if 1 < axis.high < 1.1 and axis.low >= 0 and metric.endswith("accuracy") else axis.high
    names = {0: value_text(metric, _short(high)), height - 1: value_text(metric, _short(axis.low))}
    if target is not None:
        row = _row_of(axis, target, height)
        names = {number: name for number, name in names.items() if abs(number - row) > 0}
        names[row] = f"target {value_text(metric, target)}"
    return names


def _short(value: float) -> float:
    """Three significant digits are enough at the edge of a picture."""
    return float(f"{value:.3g}")


def _add_target(rows: list[list[str]], curve: Curve, axis: ValueAxis, target: float, last: int) -> None:
    row = rows[_row_of(axis, target, len(rows))]
    row[:] = [_TARGET if cell == " " else cell for cell in row]
    reached = curve.rounds_to(target)
    if reached is not None and np.isfinite(reached):
        row[round(reached / last * (len(row) - 1))] = _CROSSING


def _round_names(indent: int, columns: int, last: int) -> str:
    text = f"round {count_text(last)}"
    return f"{'':>{indent}}0{text:>{columns - 1}}"


def crossing_text(curve: Curve, *, metric: str, target: float) -> str:
    """A line to go under a curve: where it reaches the target, or how near it came."""
    reached = curve.rounds_to(target)
    if reached is not None:
        return f"{_CROSSING} reaches {value_text(metric, target)} after {rounds_text(reached)} rounds"
    best = curve.best_so_far()
    near = f"; best so far {value_text(metric, float(best[-1]))}" if best.size and np.isfinite(best[-1]) else ""
    return f"has not reached {value_text(metric, target)}{near}"
