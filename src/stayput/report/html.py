"""The report of a run: one HTML file to keep, send and print.

Headline numbers beside the paper's, curves, the partition's picture, every setting and what the run was
computed with. It reads the run's folder alone, so it can be written while the run goes on, or years later;
the paper's numbers are the caller's to pass in.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stayput._version import __version__
from stayput.core.history import Curve, History
from stayput.report import page
from stayput.report.curves import LabelledCurve, Mark, curve_figure
from stayput.report.figure_files import inline_svg
from stayput.report.partition_picture import LabelCounts, partition_figure
from stayput.report.wording import (
    DASH,
    PublishedComparison,
    count_text,
    plural,
    printable,
    published_text,
    rounds_text,
    seconds_text,
    value_text,
)
from stayput.runs.durable_files import write_whole
from stayput.runs.run_folder import RunFolder
from stayput.runs.spec import LOSS, RunSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

_WIDE, _NARROW = (8.6, 4.3), (4.1, 3.6)
_MOST_ROWS = 200
"""Rows of the table of evaluations; of more, so many are shown, evenly picked."""


@dataclass(frozen=True)
class _Facts:
    """What a report is made of, read once: a run may go on while it is reported."""

    name: str
    spec: RunSpec
    history: History
    curve: Curve
    result: dict[str, Any] | None
    environment: dict[str, Any]
    label_counts: LabelCounts | None
    published: Sequence[PublishedComparison]


def write_report(
    run: RunFolder, path: Path | str | None = None, *, published: Sequence[PublishedComparison] = ()
) -> Path:
    """Write a run's report and return its path: `report.html` in the run's folder if none is given.

    A run that has not ended is reported as far as it is. `published` holds what the paper prints for the
    run's setting, if it does.
    """
    spec, history = run.spec, run.history()
    known = _Facts(
        name=run.name,
        spec=spec,
        history=history,
        curve=history.curve(spec.metric, higher_is_better=spec.higher_is_better()),
        result=run.result,
        environment=run.environment,
        label_counts=run.label_counts,
        published=published,
    )
    path = run.path / "report.html" if path is None else Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _page(known).encode())
    return path


def _page(known: _Facts) -> str:
    name = printable(known.name) or "run"
    algorithm = printable(str(known.spec.algorithm.get("name", "")))
    partition = printable(str(known.spec.partition.get("name", "")))
    about = f"{printable(known.spec.task)}, {algorithm}, {partition} partition, seed {known.spec.seed}"
    return page.page(
        f"{name} - stayput report",
        [
            page.heading(name, _state(known), about, ended=known.result is not None),
            page.tiles(_headline(known)),
            _metric_section(known),
            _loss_section(known),
            _partition_section(known.label_counts),
            page.side_by_side(
                page.section("Settings", page.facts(known.spec.to_json())) + _model_section(known.result),
                page.section("Timing", page.facts(_timing(known.history)))
                + page.section("Computed with", page.facts(known.environment)),
            ),
            f"<footer>Written by stayput {__version__}</footer>",
        ],
    )


def _state(known: _Facts) -> str:
    rounds, asked = known.history.last_round, known.spec.rounds
    if known.result is None:
        done = (
            f"{count_text(rounds)} of {plural(asked, 'round')} done" if known.history.reports else "no round done yet"
        )
        return f"Not ended: {done}. It is still running, or was interrupted (stayput resume goes on with it)."
    if rounds < asked:
        return f"Ended at its target after {plural(rounds, 'round')} (of at most {count_text(asked)})."
    return f"Ended after all of its {plural(rounds, 'round')}."


def _headline(known: _Facts) -> list[tuple[str, str, str]]:
    """The tiles on top: rounds to each target, the best value, how far it is, how long a round takes."""
    metric, curve = known.spec.metric, known.curve
    shown = metric.replace("_", " ")
    entries = [
        (
            f"Rounds to {value_text(metric, target)} {shown}",
            rounds_text(curve.rounds_to(target)),
            _note(known, target),
        )
        for target in _targets(known)
    ]
    best, at = DASH, "not evaluated yet"
    if np.isfinite(curve.values).any():
        values = np.where(np.isfinite(curve.values), curve.values, np.nan)
        index = int(np.nanargmax(values) if curve.higher_is_better else np.nanargmin(values))
        best, at = value_text(metric, float(values[index])), f"after round {count_text(curve.rounds[index])}"
    timing = _timing(known.history)
    pace = f"median; training {timing['training in all']} in all" if known.history.last_round else "no round yet"
    return [
        *entries,
        (f"Best {shown}", best, at),
        ("Rounds", count_text(known.history.last_round), f"of at most {count_text(known.spec.rounds)}"),
        ("Time per round", timing["median round"], pace),
    ]


def _targets(known: _Facts) -> list[float]:
    """The run's own target, then those of the paper that differ from it."""
    own = [] if known.spec.target is None else [known.spec.target]
    return list(dict.fromkeys([*own, *(cell.target for cell in known.published)]))


def _note(known: _Facts, target: float) -> str:
    reached = known.curve.rounds_to(target)
    note = published_text([cell for cell in known.published if math.isclose(cell.target, target)])
    if reached is None:
        return "; ".join(filter(None, ["not reached", note]))
    return note or "interpolated between evaluations"


def _metric_section(known: _Facts) -> str:
    metric, curve = known.spec.metric, known.curve
    targets = _targets(known)
    target = targets[0] if targets else None
    marks = [
        Mark(float(cell.rounds), cell.target, f"paper, {cell.table}: {rounds_text(cell.rounds)}")
        for cell in known.published
        if cell.rounds is not None
    ]
    draw = partial(curve_figure, [LabelledCurve("best so far", curve)], metric=metric, target=target, marks=marks)
    title = f"{metric.replace('_', ' ')} on the test examples".capitalize()
    caption = (
        "The line is the best value so far, which is what the paper counts rounds with; "
        "the faint line beneath is every evaluation."
    )
    return page.section(title, _picture("metric", draw, title, caption), _evaluations(known))


def _evaluations(known: _Facts) -> str:
    reports = [report for report in known.history.reports if report.evaluation]
    if not reports:
        return ""
    picked = np.unique(np.linspace(0, len(reports) - 1, min(len(reports), _MOST_ROWS)).round().astype(int))
    names = list(dict.fromkeys(name for report in reports for name in report.evaluation))
    header = ["round", *(f"test {name}" for name in names), "train loss", "seconds"]
    rows = [
        [
            count_text(report.round_number),
            *(value_text(name, report.evaluation.get(name)) for name in names),
            value_text(LOSS, report.train_loss),
            f"{report.seconds:.3g}",
        ]
        for report in (reports[index] for index in picked)
    ]
    shown = (
        "Every evaluation" if len(rows) == len(reports) else f"{len(rows)} of {count_text(len(reports))} evaluations"
    )
    return page.details(f"{shown} as a table", header, rows)


def _loss_section(known: _Facts) -> str:
    points = [(r.round_number, r.train_loss) for r in known.history.reports if r.train_loss is not None]
    train = Curve(
        np.array([number for number, _ in points], dtype=np.int64),
        np.array([loss for _, loss in points], dtype=np.float64),
        higher_is_better=False,
    )
    test = known.history.curve(LOSS, higher_is_better=False)
    curves = [LabelledCurve("train loss of the cohort", train)]
    if test.values.size:
        curves.append(LabelledCurve("test loss of the shared model", test))
    draw = partial(curve_figure, curves, metric=LOSS, monotone=False)
    caption = "The train loss is the mean over the minibatches of a round's clients, while they train."
    return page.section("Loss", _picture("loss", draw, "Train and test loss by round", caption))


def _partition_section(label_counts: LabelCounts | None) -> str:
    title = "How labels are spread over clients"
    if not label_counts:
        return page.section(
            title,
            page.paragraph(
                "No label counts were kept with this run: its examples have no labels, or it has too many "
                "clients for a picture."
            ),
        )
    caption = "A column is a client; the stronger the colour, the larger the label's share of its examples."
    return page.section(title, _picture("partition", partial(partition_figure, label_counts), title, caption))


def _picture(name: str, draw: Callable[..., Figure], description: str, caption: str) -> str:
    wide = inline_svg(draw(size=_WIDE), name=f"{name}-wide", description=description)
    narrow = inline_svg(draw(size=_NARROW), name=f"{name}-narrow", description=description)
    return page.picture(wide, narrow, caption)


def _timing(history: History) -> dict[str, str]:
    """Durations in words; round 0 only evaluates, so it does not count as a round."""
    trained = [report for report in history.reports if report.round_number > 0]
    evaluated = [report.evaluation_seconds for report in history.reports if report.evaluation]
    training, steps = sum(report.seconds for report in trained), sum(report.num_steps for report in trained)
    return {
        "median round": seconds_text(statistics.median(r.seconds for r in trained) if trained else None),
        "slowest round": seconds_text(max((report.seconds for report in trained), default=None)),
        "training in all": seconds_text(training if trained else None),
        "median evaluation": seconds_text(statistics.median(evaluated) if evaluated else None),
        "evaluation in all": seconds_text(sum(evaluated) if evaluated else None),
        "local steps": count_text(steps),
        "local steps per second": count_text(steps / training) if training > 0 else DASH,
    }


def _model_section(result: dict[str, Any] | None) -> str:
    if result is None or "model_sha256" not in result:
        return page.section("Model", page.paragraph("No final model yet: the run has not ended."))
    return page.section("Model", page.facts({"model_sha256": result["model_sha256"]}))
