"""Curves of a metric over the rounds, drawn as in the paper's figure 2.

The line is the curve made monotone (the best value so far), since that is the curve whose crossing with the
target the paper reports; the evaluations themselves lie faintly beneath it. A grey line marks the target, a
dot where each curve crosses it. Reads curves, never trains; must not import engines, experiments or the
paper.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stayput.core.history import Curve
from stayput.report.figure_files import (
    DASHES,
    GRID,
    INK,
    MUTED,
    PANEL,
    SERIES,
    new_axes,
    require_picture,
    save_figure,
    write_label,
)
from stayput.report.value_axis import ValueAxis, value_axis
from stayput.report.wording import is_share, percent, printable, rounds_text, value_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NO_EVALUATIONS = "no evaluations yet"
_IN_THE_AXES = 5
"""Up to so many curves the legend fits into the free corner; more of them get one beside the axes."""
_MOST_DROPS = 8
"""Up to so many curves, a thin line leads from the crossing down to the rounds; more would be a fence."""


@dataclass(frozen=True)
class LabelledCurve:
    """A curve and what it is called in the legend."""

    label: str
    curve: Curve


@dataclass(frozen=True, slots=True)
class Mark:
    """A single point to put into the picture, such as the paper's number of rounds."""

    round_number: float
    value: float
    label: str


def draw_curves(
    curves: Sequence[LabelledCurve],
    path: Path | str,
    *,
    metric: str,
    target: float | None = None,
    title: str | None = None,
) -> Path:
    """Draw curves of one metric into a .png or .svg file and return its path.

    With a target, the legend says after how many rounds each curve crosses it. A curve without evaluations
    is named as such; evaluations that were not finite are left out of the picture.
    """
    require_picture(path)  # before the work
    return save_figure(curve_figure(curves, metric=metric, target=target, title=title), path)


def curve_figure(
    curves: Sequence[LabelledCurve],
    *,
    metric: str,
    target: float | None = None,
    title: str | None = None,
    marks: Sequence[Mark] = (),
    monotone: bool = True,
    size: tuple[float, float] | None = None,
) -> Figure:
    """The figure of `draw_curves`; with `monotone=False` the curves are drawn as they are, for losses."""
    from matplotlib.figure import Figure

    names = [_legend_text(entry, metric, target, monotone=monotone) for entry in curves]
    figure = Figure(figsize=size or _size(names), layout="constrained")
    axes = new_axes(figure)
    axis = value_axis([entry.curve for entry in curves], target)
    rounds = max((int(entry.curve.rounds[-1]) for entry in curves if entry.curve.rounds.size), default=0)
    _scale(axes, axis, metric, max(rounds, 1))
    write_label(axes, x="communication rounds", y=metric.replace("_", " "), title=title)
    if target is not None:
        _draw_target(axes, metric, target)
    faint = 0.35 if len(curves) <= _IN_THE_AXES else 0.15
    handles = [_draw(axes, entry.curve, number, monotone=monotone, faint=faint) for number, entry in enumerate(curves)]
    if target is not None:
        for number, entry in enumerate(curves):
            _draw_crossing(axes, entry.curve, target, number, drop=len(curves) <= _MOST_DROPS)
    if monotone and _has_lower_evaluations(curves):
        handles.append(axes.plot([], [], color=MUTED, alpha=0.45, linewidth=1.0)[0])
        names.append("every evaluation")
    for mark in marks:
        if mark.round_number <= 2 * rounds:  # further out it would squeeze the curve it is compared with
            handles.append(_draw_mark(axes, mark))
            names.append(printable(mark.label, limit=60))
    _draw_legend(figure, axes, handles, names, rising=all(entry.curve.higher_is_better for entry in curves))
    if not any(np.isfinite(entry.curve.values).any() for entry in curves):
        _draw_note(axes, NO_EVALUATIONS)
    return figure


def _legend_text(entry: LabelledCurve, metric: str, target: float | None, *, monotone: bool) -> str:
    label = printable(entry.label, limit=120) or "unnamed"
    if not np.isfinite(entry.curve.values).any():
        label += f": {NO_EVALUATIONS}" if not entry.curve.values.size else ": no finite value"
    elif target is not None and monotone:
        reached = entry.curve.rounds_to(target)
        goal = value_text(metric, target)
        label += f": {goal} not reached" if reached is None else f": {goal} after {rounds_text(reached)}"
    return "\n".join(textwrap.wrap(label, 44))


def _size(names: Sequence[str]) -> tuple[float, float]:
    """Inches: wider and higher where the legend needs it, so that the axes keep their size."""
    if len(names) <= _IN_THE_AXES:
        return 7.2, 4.5
    longest = max(len(line) for name in names for line in name.split("\n"))
    lines = sum(1 + name.count("\n") for name in names)
    return 7.2 + 0.6 + 0.075 * longest, max(4.5, 0.9 + 0.2 * lines)


def _scale(axes: Axes, axis: ValueAxis, metric: str, rounds: int) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xlim(0, rounds * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if axis.log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda _value, _: ""))
    axes.set_ylim(axis.low, axis.high)
    if is_share(metric) and not axis.log:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))


def _style(number: int) -> tuple[str, Any]:
    return SERIES[number % len(SERIES)], DASHES[(number // len(SERIES)) % len(DASHES)]


def _draw(axes: Axes, curve: Curve, number: int, *, monotone: bool, faint: float) -> Artist:
    colour, dash = _style(number)
    values = np.where(np.isfinite(curve.values), curve.values, np.nan)
    if monotone:
        axes.plot(curve.rounds, values, color=colour, alpha=faint, linewidth=0.9, zorder=2)
        best = Curve(curve.rounds, values, curve.higher_is_better).best_so_far()
    else:
        best = values
    marker = "o" if 0 < np.count_nonzero(np.isfinite(best)) <= 12 else ""
    line = axes.plot(
        curve.rounds,
        best,
        color=colour,
        linestyle=dash,
        linewidth=1.9,
        marker=marker,
        markersize=3.5,
        zorder=3,
    )
    return line[0]


def _has_lower_evaluations(curves: Sequence[LabelledCurve]) -> bool:
    """Whether any curve has an evaluation off its monotone line, to be explained in the legend."""
    return any(
        bool(np.any(np.isfinite(entry.curve.values) & (entry.curve.values != entry.curve.best_so_far())))
        for entry in curves
    )


def _draw_target(axes: Axes, metric: str, target: float) -> None:
    axes.axhline(target, color=MUTED, linewidth=1.1, linestyle=(0, (4, 3)), zorder=2.5)
    axes.annotate(
        f"target {value_text(metric, target)}",
        xy=(1, target),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=8.5,
        color=MUTED,
        zorder=5,
    )


def _draw_crossing(axes: Axes, curve: Curve, target: float, number: int, *, drop: bool) -> None:
    reached = curve.rounds_to(target)
    if reached is None or not np.isfinite(reached):
        return
    colour, _ = _style(number)
    if drop:
        axes.vlines(reached, axes.get_ylim()[0], target, color=colour, linewidth=0.8, linestyle=":", alpha=0.7)
    marker = axes.plot(
        [reached],
        [target],
        "o",
        color=colour,
        markersize=6,
        markeredgecolor=PANEL,
        markeredgewidth=1.2,
        zorder=4,
    )
    marker[0].set_gid(f"crossing-{number}")


def _draw_mark(axes: Axes, mark: Mark) -> Artist:
    axes.set_xlim(0, max(axes.get_xlim()[1], mark.round_number * 1.04))
    point = axes.plot(
        [mark.round_number], [mark.value], "D", color=PANEL, markeredgecolor=INK, markersize=6, zorder=4.5
    )
    point[0].set_linestyle("none")
    return point[0]


def _draw_legend(figure: Figure, axes: Axes, handles: Sequence[Artist], names: Sequence[str], *, rising: bool) -> None:
    if not handles:
        return
    look = {"fontsize": 8.5, "labelcolor": INK, "facecolor": PANEL, "edgecolor": GRID, "framealpha": 0.85}
    if len(names) <= _IN_THE_AXES + 2:
        legend = axes.legend(handles, names, loc="lower right" if rising else "upper right", **look)
    else:
        legend = figure.legend(handles, names, loc="outside right upper", **{**look, "frameon": False})
    for text in legend.get_texts():
        text.set_parse_math(False)


def _draw_note(axes: Axes, note: str) -> None:
    axes.text(0.5, 0.32, note, transform=axes.transAxes, ha="center", va="center", color=MUTED, fontsize=12)
