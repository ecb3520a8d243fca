"""Charts that answer when they are pointed at, drawn by uPlot in the reader's browser.

A chart is data here: what `assets/charts.js` reads. In a report it stands beside the same figure as SVG, which is what
paper, and a reader without scripts, gets. The library is bundled (`assets/vendored.json` says which version, under
which licence), so that nothing is fetched.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from stayput.core.history import Curve
from stayput.report.downsampling import downsampled
from stayput.report.value_axis import value_axis
from stayput.report.wording import is_share, value_text

Unit = Literal["number", "percent", "seconds", "bytes", "count"]
MOST_POINTS = 800
"""Of a line: as many as a wide screen has columns for."""
_MOST_IN_ALL = 24_000
"""Points of all lines of a chart together; many runs share them."""


@dataclass(frozen=True)
class Line:
    """One line, or a row of dots, of a chart."""

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    colour: int = 0
    """Which of the page's series colours."""
    faint: bool = False
    dashed: bool = False
    dots: bool = False
    """Dots without a line between them."""
    bars: bool = False


@dataclass(frozen=True)
class Chart:
    """What is drawn, as `assets/charts.js` reads it."""

    name: str
    """The chart's id in its page."""
    description: str
    """For those who hear it, and the chart's accessible name."""
    x_label: str
    y_label: str
    lines: Sequence[Line]
    x_unit: Unit = "count"
    y_unit: Unit = "number"
    x_log: bool = False
    y_log: bool = False
    low: float | None = None
    high: float | None = None
    target: float | None = None
    target_label: str | None = None
    categories: Sequence[str] | None = field(default=None)
    """What stands at x = 0, 1, 2, ... where these are no numbers."""

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; what is not a finite number is null."""
        data = asdict(self)
        for line in data["lines"]:
            line["y"] = [None if value is None or not math.isfinite(value) else value for value in line["y"]]
        return data


def metric_chart(
    name: str,
    description: str,
    metric: str,
    curves: Sequence[tuple[str, Curve]],
    *,
    target: float | None = None,
    monotone: bool = True,
    marks: Iterable[tuple[str, float, float]] = (),
) -> Chart:
    """Curves of a metric; with `monotone` each is drawn at its best so far, the evaluations faintly beneath."""
    axis = value_axis([curve for _, curve in curves], target)
    most = max(60, min(MOST_POINTS, _MOST_IN_ALL // max(len(curves), 1)))
    lines: list[Line] = []
    for number, (label, curve) in enumerate(curves):
        if monotone and len(curves) == 1 and np.any(np.isfinite(curve.values)):
            lines.append(Line("every evaluation", *_points(curve, curve.values, most), colour=number, faint=True))
        values = curve.best_so_far() if monotone else curve.values
        lines.append(Line(label, *_points(curve, values, most), colour=number))
    lines += [Line(label, [x], [y], colour=len(curves), dots=True) for label, x, y in marks]
    return Chart(
        name,
        description,
        "round",
        metric.replace("_", " "),
        lines,
        y_unit="percent" if is_share(metric) else "number",
        y_log=axis.log,
        low=axis.low,
        high=axis.high,
        target=target,
        target_label=None if target is None else f"target {value_text(metric, target)}",
    )


def rounds_chart(
    name: str, description: str, y_label: str, unit: Unit, lines: Sequence[tuple[str, Sequence[int], Sequence[float]]]
) -> Chart:
    """Something measured in every round, such as seconds."""
    drawn = []
    for number, (label, rounds, values) in enumerate(lines):
        x, y = downsampled(np.asarray(rounds, dtype=np.int64), np.asarray(values, dtype=np.float64), MOST_POINTS)
        drawn.append(Line(label, x.tolist(), y.tolist(), colour=number))
    return Chart(name, description, "round", y_label, drawn, y_unit=unit, low=0.0)


def _points(curve: Curve, values: np.typing.NDArray[np.float64], most: int) -> tuple[list[float], list[float | None]]:
    x, y = downsampled(curve.rounds, values, most)
    return x.tolist(), y.tolist()


def embedded_json(data: object) -> str:
    """JSON that may stand in a script element: nothing in it can end the element or begin another."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def asset(name: str) -> str:
    """The text of a bundled file."""
    return files("stayput.report").joinpath("assets", name).read_text(encoding="utf-8")


def notice() -> str:
    """What the library's licence asks to go with every copy of it."""
    about = json.loads(asset("vendored.json"))
    return f"{about['name']} {about['version']}, {about['licence']} licence, {about['copyright']}"
