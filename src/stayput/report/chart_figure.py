"""A chart as a figure: the data of `charts` for paper, for PNG and SVG files, for readers without scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stayput.report.charts import Chart, Line, Unit
from stayput.report.figure_files import DASHES, GRID, INK, MUTED, PANEL, SERIES, new_axes, write_label
from stayput.report.wording import bytes_text, percent, printable, seconds_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_NAMED = 12
"""More lines than this are not named: their table is."""


def chart_figure(chart: Chart, *, size: tuple[float, float] = (7.2, 3.6)) -> Figure:
    """The figure of a chart."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = new_axes(figure)
    for line in chart.lines:
        _draw(axes, line)
    _scale(axes, chart)
    write_label(axes, x=chart.x_label, y=chart.y_label)
    if chart.target is not None:
        axes.axhline(chart.target, color=MUTED, linewidth=1.1, linestyle=(0, (4, 3)))
    if 1 < len(chart.lines) <= _MOST_NAMED:
        legend = axes.legend(
            [printable(line.label, limit=60) for line in chart.lines], fontsize=8.5, labelcolor=INK, edgecolor=GRID,
            facecolor=PANEL, framealpha=0.85,
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure


def _draw(axes: Axes, line: Line) -> None:
    colour, dash = SERIES[line.colour % len(SERIES)], DASHES[(line.colour // len(SERIES)) % len(DASHES)]
    y = np.array([np.nan if value is None else value for value in line.y], dtype=np.float64)
    if line.bars:
        axes.bar(line.x, y, width=0.8, color=colour, alpha=0.7, linewidth=0)
    elif line.dots:
        axes.plot(line.x, y, "o", color=colour, markersize=6)
    else:
        marker = "o" if len(line.x) <= 24 and not line.faint else ""
        width, alpha = (0.9, 0.4) if line.faint else (1.9, 1.0)
        axes.plot(line.x, y, color=colour, linestyle=dash, marker=marker, markersize=4, linewidth=width, alpha=alpha)


def _scale(axes: Axes, chart: Chart) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if chart.x_log:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(FuncFormatter(lambda _value, _: ""))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    elif chart.categories is not None:
        names = list(chart.categories)
        step = max(1, len(names) // 6)
        axes.set_xticks(range(0, len(names), step), [printable(name, limit=24) for name in names[::step]])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, steps=[1, 2, 2.5, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if chart.y_log:
        axes.set_yscale("log")
    if chart.low is not None:
        axes.set_ylim(bottom=chart.low)
    if chart.high is not None:
        axes.set_ylim(top=chart.high)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: unit_text(chart.y_unit, value)))


def unit_text(unit: Unit, value: float) -> str:
    """A value on an axis, as `assets/charts.js` says it."""
    if unit == "percent":
        return percent(value)
    if unit == "seconds":
        return seconds_text(value) if value else "0"
    if unit == "bytes":
        return bytes_text(value)
    return f"{value:,.0f}" if unit == "count" else f"{value:g}"
