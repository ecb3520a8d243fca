"""What a report says of one run: headline numbers, curves, bytes, clients, times, settings. Each is a piece of HTML."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from stayput.core.history import Curve, History, RoundReport
from stayput.report import page
from stayput.report.chart_figure import chart_figure
from stayput.report.charts import Chart, Line, metric_chart, rounds_chart
from stayput.report.client_statistics import client_sizes, histogram, statistics_of
from stayput.report.curves import LabelledCurve, Mark, curve_figure
from stayput.report.figure_files import inline_svg
from stayput.report.partition_picture import partition_figure
from stayput.report.run_facts import RunFacts
from stayput.report.wording import (
    DASH,
    bytes_text,
    count_text,
    plural,
    published_text,
    rounds_text,
    seconds_text,
    value_text,
)
from stayput.runs.spec import LOSS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDE, _NARROW, _PLAIN = (8.6, 4.3), (4.1, 3.6), (6.6, 3.3)
_MOST_ROWS = 200
"""Rows of the table of evaluations; of more, so many are shown, evenly picked."""


@dataclass(frozen=True)
class Picture:
    """A figure of a report: drawn at any size, and as a chart where it is one."""

    name: str
    description: str
    draw: Callable[..., Figure]
    chart: Chart | None = None
    plain: bool = False
    """Whether one drawing does for a desk and for a phone."""

    def html(self, caption: str) -> str:
        """For the page."""
        if self.chart is not None and self.plain:
            still = inline_svg(self.draw(size=_PLAIN), name=self.name, description=self.description)
            return page.picture(still, None, caption, self.chart)
        wide = inline_svg(self.draw(size=_WIDE), name=f"{self.name}-wide", description=self.description)
        narrow = inline_svg(self.draw(size=_NARROW), name=f"{self.name}-narrow", description=self.description)
        return page.picture(wide, narrow, caption, self.chart)


def of_chart(chart: Chart) -> Picture:
    """The picture of a chart that needs no figure of its own kind."""
    return Picture(chart.name, chart.description, partial(chart_figure, chart), chart, plain=True)


def run_pictures(run: RunFacts, prefix: str = "") -> dict[str, Picture]:
    """Every figure of a run's report, by its name; `prefix` keeps those of several runs apart."""
    found = {"metric": metric_picture(run, prefix), "loss": _loss_picture(run, prefix)}
    if run.label_counts:
        draw = partial(partition_figure, run.label_counts)
        found["partition"] = Picture(f"{prefix}partition", "How labels are spread over clients", draw)
        if len(set(client_sizes(run.label_counts).tolist())) > 1:
            found["sizes"] = of_chart(_sizes_chart(run.label_counts, prefix))
    if run.history.last_round:
        found["seconds"] = of_chart(_seconds_chart(run, prefix))
    return found


def run_body(run: RunFacts, pictures: dict[str, Picture]) -> list[str]:
    """The sections of a run, in their order."""
    return [
        page.tiles(headline(run)),
        _metric_section(run, pictures["metric"]),
        page.section(
            "Loss",
            pictures["loss"].html(
                "The train loss is the mean over the minibatches of a round's clients, while they train."
            ),
        ),
        _clients_section(run, pictures),
        _rounds_section(run, pictures),
        page.side_by_side(
            page.section("Settings", page.facts(run.spec.to_json())) + _model_section(run),
            page.section("Timing", page.facts(timing(run.history)))
            + page.section("Computed with", page.facts(run.environment)),
        ),
    ]


def state_of(run: RunFacts) -> str:
    """Whether it has ended, and how."""
    rounds, asked = run.history.last_round, run.spec.rounds
    if run.result is None:
        done = f"{count_text(rounds)} of {plural(asked, 'round')} done" if run.history.reports else "no round done yet"
        return f"Not ended: {done}. It is still running, or was interrupted (stayput resume goes on with it)."
    if run.diverged is not None:
        return f"Ended after {plural(rounds, 'round')}: training diverged ({run.diverged})."
    if rounds < asked:
        return f"Ended at its target after {plural(rounds, 'round')} (of at most {count_text(asked)})."
    return f"Ended after all of its {plural(rounds, 'round')}."


def headline(run: RunFacts) -> list[tuple[str, str, str]]:
    """The tiles on top: rounds to each target, the best value, how far it is, how long a round takes, bytes."""
    metric, curve = run.spec.metric, run.curve
    shown = metric.replace("_", " ")
    entries = [
        (f"Rounds to {value_text(metric, target)} {shown}", rounds_text(curve.rounds_to(target)), _note(run, target))
        for target in targets(run)
    ]
    best, at = DASH, "not evaluated yet"
    if run.best is not None:
        best, at = value_text(metric, run.best[0]), f"after round {count_text(run.best[1])}"
    times = timing(run.history)
    pace = f"median; training {times['training in all']} in all" if run.history.last_round else "no round yet"
    entries += [
        (f"Best {shown}", best, at),
        ("Rounds", count_text(run.history.last_round), f"of at most {count_text(run.spec.rounds)}"),
        ("Time per round", times["median round"], pace),
    ]
    if run.traffic is not None and run.history.last_round:
        down, up = totals(run)
        entries.append(("Bytes up", bytes_text(up), f"and {bytes_text(down)} down, in all rounds"))
    return entries


def totals(run: RunFacts) -> tuple[int, int]:
    """Bytes down and up, over all rounds; 0 where they are not known."""
    clients = sum(report.cohort_size for report in trained(run.history))
    return (0, 0) if run.traffic is None else (run.traffic.down * clients, run.traffic.up * clients)


def trained(history: History) -> list[RoundReport]:
    """The reports of rounds that trained; round 0 only evaluates."""
    return [report for report in history.reports if report.round_number > 0]


def targets(run: RunFacts) -> list[float]:
    """The run's own target, then those of the paper that differ from it."""
    own = [] if run.spec.target is None else [run.spec.target]
    return list(dict.fromkeys([*own, *(cell.target for cell in run.published)]))


def _note(run: RunFacts, target: float) -> str:
    reached = run.curve.rounds_to(target)
    note = published_text([cell for cell in run.published if math.isclose(cell.target, target)])
    if reached is None:
        return "; ".join(filter(None, ["not reached", note]))
    return note or "interpolated between evaluations"


def metric_picture(run: RunFacts, prefix: str = "") -> Picture:
    """The curve of the run's metric, with its target and the paper's rounds."""
    metric, curve = run.spec.metric, run.curve
    target = next(iter(targets(run)), None)
    marks = [
        Mark(float(cell.rounds), cell.target, f"paper, {cell.table}: {rounds_text(cell.rounds)}")
        for cell in run.published
        if cell.rounds is not None
    ]
    title = f"{metric.replace('_', ' ')} on the test examples".capitalize()
    draw = partial(curve_figure, [LabelledCurve("best so far", curve)], metric=metric, target=target, marks=marks)
    chart = metric_chart(
        f"{prefix}metric",
        f"{title}, by round: {_curve_words(run)}",
        metric,
        [("best so far", curve)],
        target=target,
        marks=[(mark.label, mark.round_number, mark.value) for mark in marks if _near(mark, curve)],
    )
    return Picture(f"{prefix}metric", title, draw, chart)


def _near(mark: Mark, curve: Curve) -> bool:
    """Further out it would squeeze the curve it is compared with."""
    return bool(curve.rounds.size) and mark.round_number <= 2 * int(curve.rounds[-1])


def _curve_words(run: RunFacts) -> str:
    if run.best is None:
        return "no evaluations yet"
    said = value_text(run.spec.metric, run.best[0])
    return f"best {said} after round {count_text(run.best[1])} of {count_text(run.history.last_round)}"


def _metric_section(run: RunFacts, picture: Picture) -> str:
    caption = (
        "The line is the best value so far, which is what the paper counts rounds with; "
        "the faint line beneath is every evaluation."
    )
    return page.section(picture.description, picture.html(caption), _evaluations(run))


def _evaluations(run: RunFacts) -> str:
    reports = [report for report in run.history.reports if report.evaluation]
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


def _loss_picture(run: RunFacts, prefix: str) -> Picture:
    points = [(r.round_number, r.train_loss) for r in run.history.reports if r.train_loss is not None]
    train = Curve(
        np.array([number for number, _ in points], dtype=np.int64),
        np.array([loss for _, loss in points], dtype=np.float64),
        higher_is_better=False,
    )
    test = run.history.curve(LOSS, higher_is_better=False)
    curves = [LabelledCurve("train loss of the cohort", train)]
    if test.values.size:
        curves.append(LabelledCurve("test loss of the shared model", test))
    title = "Train and test loss by round"
    chart = metric_chart(f"{prefix}loss", title, LOSS, [(c.label, c.curve) for c in curves], monotone=False)
    return Picture(f"{prefix}loss", title, partial(curve_figure, curves, metric=LOSS, monotone=False), chart)


def _clients_section(run: RunFacts, pictures: dict[str, Picture]) -> str:
    table = page.facts(statistics_of(run.spec, run.environment, run.history, run.label_counts))
    if "partition" not in pictures:
        return page.section("Clients", page.paragraph(_NO_LABELS), table)
    spread = pictures["partition"].html(
        "How labels are spread over clients: a column is a client; the stronger the colour, the larger the label's "
        "share of its examples."
    )
    if "sizes" not in pictures:
        return page.section("Clients", spread, table)
    sizes = pictures["sizes"].html("How many clients hold how many examples.")
    return page.section("Clients", spread, sizes, table)


_NO_LABELS = (
    "No label counts were kept with this run: its examples have no labels, or it has too many clients for a picture."
)


def _sizes_chart(label_counts: list[list[int]], prefix: str) -> Chart:
    found = histogram(client_sizes(label_counts))
    bars = Line("clients", list(range(len(found.clients))), found.clients.tolist(), colour=0, bars=True)
    return Chart(
        f"{prefix}sizes", "Histogram of the examples that clients hold", "examples of a client", "clients", [bars],
        y_unit="count", low=0.0, categories=found.labels,
    )  # fmt: skip


def _seconds_chart(run: RunFacts, prefix: str) -> Chart:
    reports = trained(run.history)
    lines: list[tuple[str, list[int], list[float]]] = [
        ("training and averaging", [r.round_number for r in reports], [r.seconds for r in reports])
    ]
    evaluated = [r for r in reports if r.evaluation]
    if evaluated:
        seconds = [r.evaluation_seconds for r in evaluated]
        lines.append(("evaluation", [r.round_number for r in evaluated], seconds))
    times = timing(run.history)
    title = f"Seconds that each round took: median {times['median round']}, slowest {times['slowest round']}"
    return rounds_chart(f"{prefix}seconds", title, "seconds", "seconds", lines)


def _rounds_section(run: RunFacts, pictures: dict[str, Picture]) -> str:
    parts = [pictures["seconds"].html("How long each round took.")] if "seconds" in pictures else []
    traffic = run.traffic
    if traffic is None:
        parts.append(page.paragraph(_NO_BYTES))
        return page.section("Rounds: time and bytes", *parts)
    down, up = totals(run)
    rows = {
        "one client receives": bytes_text(traffic.down),
        "one client sends": bytes_text(traffic.up),
        "down, all rounds": bytes_text(down),
        "up, all rounds": bytes_text(up),
    }
    target = run.spec.target
    reached = None if target is None else run.curve.rounds_to(target)
    if reached is not None:
        until = [report for report in trained(run.history) if report.round_number <= math.ceil(reached)]
        rows["up, to the target"] = bytes_text(sum(traffic.up_in(report) for report in until))
    note = "From the model's size and the cohorts: tensors as they are, without compression or a protocol's own bytes."
    return page.section("Rounds: time and bytes", *parts, page.facts(rows), page.note(note))


_NO_BYTES = "Bytes are not known: there is no checkpoint yet, the algorithm is not one by name, or nothing is sent."


def timing(history: History) -> dict[str, str]:
    """Durations in words; round 0 only evaluates, so it does not count as a round."""
    reports = trained(history)
    evaluated = [report.evaluation_seconds for report in history.reports if report.evaluation]
    training, steps = sum(report.seconds for report in reports), sum(report.num_steps for report in reports)
    return {
        "median round": seconds_text(statistics.median(r.seconds for r in reports) if reports else None),
        "slowest round": seconds_text(max((report.seconds for report in reports), default=None)),
        "training in all": seconds_text(training if reports else None),
        "median evaluation": seconds_text(statistics.median(evaluated) if evaluated else None),
        "evaluation in all": seconds_text(sum(evaluated) if evaluated else None),
        "local steps": count_text(steps),
        "local steps per second": count_text(steps / training) if training > 0 else DASH,
    }


def _model_section(run: RunFacts) -> str:
    rows = {}
    if run.traffic is not None:
        rows["parameters"] = count_text(run.traffic.parameters)
        rows["size"] = bytes_text(run.traffic.model_bytes)
    if run.result is None or "model_sha256" not in run.result:
        return page.section(
            "Model", *([page.facts(rows)] if rows else []), page.paragraph("No final model yet: the run has not ended.")
        )
    return page.section("Model", page.facts({**rows, "model_sha256": run.result["model_sha256"]}))
