"""The paper's figures, drawn from measured curves, in the house's look; reads results, never trains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stayput.core.history import Curve
from stayput.paper.exhibits import Figure as PaperFigure
from stayput.paper.exhibits import Line, Panel
from stayput.paper.figure1 import Interpolation
from stayput.paper.results import Results, outcome
from stayput.report.figure_files import DASHES, INK, MUTED, SERIES, save_figure, style_axes, write_label
from stayput.report.value_axis import value_axis
from stayput.report.wording import is_share, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.6, 3.4


def line_curve(line: Line, results: Results, *, monotone: bool) -> Curve | None:
    """What a line shows: the best rate at each round, made monotone; or the best rate's curve as it is."""
    seeds = results.seeds(line.cell)
    if not seeds:
        return None
    curves = results.curves(line.cell, seeds[0])
    best = outcome(line.cell, curves).exponent
    if best is None:
        return None
    if not monotone or line.cell.rates is not None:
        return curves[best].curve
    return envelope([measured.curve for measured in curves.values()])


def envelope(curves: list[Curve]) -> Curve:
    """At each round, the best value that any rate has had so far ("selected individually for each x-axis value")."""
    longest = max(curves, key=lambda curve: len(curve.rounds))
    better = np.fmax if longest.higher_is_better else np.fmin
    best = longest.best_so_far().copy()
    for curve in curves:
        if not len(curve.values):
            continue
        monotone = curve.best_so_far()
        held = np.concatenate([monotone, np.full(len(best) - len(monotone), monotone[-1])])
        best = better(best, held)
    return Curve(longest.rounds, best, longest.higher_is_better)


def draw(figure: PaperFigure, results: Results, path: Path) -> Path | None:
    """Draw a figure into a file; None if nothing of it was measured."""
    panels = [(panel, drawn) for panel in figure.panels if (drawn := _measured_lines(panel, results, figure))]
    if not panels:
        return None
    from matplotlib.figure import Figure as Canvas

    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    canvas = Canvas(figsize=(WIDTH * columns, HEIGHT * rows), layout="constrained")
    for position, (panel, drawn) in enumerate(panels, start=1):
        axes = canvas.add_subplot(rows, columns, position)
        style_axes(axes)
        _draw_panel(axes, panel, drawn, figure)
    return save_figure(canvas, path)


def _measured_lines(panel: Panel, results: Results, figure: PaperFigure) -> list[tuple[int, Line, Curve]]:
    """The lines that there is something of, each with its place, which is its colour."""
    found = []
    for place, line in enumerate(panel.lines):
        curve = line_curve(line, results, monotone=figure.monotone)
        if curve is not None:
            found.append((place, line, curve))
    return found


def _draw_panel(axes: Axes, panel: Panel, drawn: list[tuple[int, Line, Curve]], figure: PaperFigure) -> None:
    from matplotlib.ticker import FuncFormatter

    metric = drawn[0][1].cell.metric
    for place, line, curve in drawn:
        axes.plot(
            curve.rounds * line.work_a_round, curve.values, color=SERIES[place % len(SERIES)],
            linestyle=DASHES[(place // len(SERIES)) % len(DASHES)], linewidth=1.5, label=line.label,
        )  # fmt: skip
    if panel.log:
        axes.set_yscale("log")
    else:
        axis = value_axis([curve for _, _, curve in drawn], panel.target)
        axes.set_ylim(axis.low, axis.high)
        if is_share(metric):
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(round(value, 4))))
    if panel.target is not None:
        axes.axhline(panel.target, color=MUTED, linewidth=1.1, linestyle=(0, (4, 3)))
    name = "test accuracy" if metric == "accuracy" else "training loss"
    write_label(axes, x=figure.x_label, y=name, title=panel.title)
    axes.legend(fontsize=7.5, labelcolor=INK, frameon=False)


def draw_interpolation(found: Interpolation, path: Path) -> Path:
    """Figure 1."""
    from matplotlib.figure import Figure as Canvas

    canvas: Figure = Canvas(figsize=(2 * WIDTH, HEIGHT), layout="constrained")
    sides = (("different initial weights", found.different), ("shared initial weights", found.shared))
    for position, (title, losses) in enumerate(sides, start=1):
        axes = canvas.add_subplot(1, 2, position)
        style_axes(axes)
        axes.plot(found.thetas, losses, color=SERIES[position - 1], linewidth=1.7)
        axes.axhline(found.best_parent(losses), color=MUTED, linewidth=1.1, linestyle=(0, (4, 3)))
        for theta in (0.0, 1.0):
            axes.axvline(theta, color=MUTED, linewidth=0.8)
        write_label(axes, x="mixing weight θ", y="training loss", title=title)
    return save_figure(canvas, path)
