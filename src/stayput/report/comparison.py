"""What a report says of several runs: their curves together, what sets them apart, and, for a sweep, its response.

The response is the outcome as a function of the setting that was swept, in the paper's case the learning rate: rounds
to the target, and the best value. One at the edge of a grid says that the grid was too narrow, so that is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from stayput.report import page
from stayput.report.charts import Chart, Line, metric_chart
from stayput.report.curves import LabelledCurve, curve_figure
from stayput.report.run_facts import RunFacts
from stayput.report.run_sections import Picture, of_chart, totals
from stayput.report.settings_text import OF_COMPUTE, common_target, differing, told
from stayput.report.wording import (
    DASH,
    bytes_text,
    count_text,
    is_share,
    plural,
    rounds_text,
    seconds_text,
    value_text,
)
from stayput.runs.spec import RunSpec

MOST_LINES = 60
"""Of more runs than this the best are drawn: a picture of more is a carpet."""


class Comparison:
    """Several runs beside each other, by the metric of the first."""

    def __init__(self, runs: Sequence[RunFacts]) -> None:
        self.runs = runs
        self.metric = runs[0].spec.metric
        specs: list[RunSpec] = [run.spec for run in runs]
        self.settings: Mapping[str, Sequence[str]] = differing(specs)
        self.target = common_target(specs, self.metric)
        self.curves = [run.history.curve(self.metric, higher_is_better=runs[0].spec.higher_is_better()) for run in runs]
        self.labels = [_label(run, told(self.settings, place)) for place, run in enumerate(runs)]
        self.ranking = sorted(range(len(runs)), key=self._rank)

    @property
    def best(self) -> int:
        """The place of the run that reached the target in the fewest rounds; failing that, of the best value."""
        return self.ranking[0]

    def reached(self, place: int) -> float | None:
        """A run's rounds to the target."""
        return None if self.target is None else self.curves[place].rounds_to(self.target)

    def best_value(self, place: int) -> float | None:
        """A run's best value of the metric."""
        best = self.curves[place].best_so_far()
        return float(best[-1]) if best.size and math.isfinite(best[-1]) else None

    def _rank(self, place: int) -> tuple[float, float]:
        reached = self.reached(place)
        return (math.inf if reached is None else reached, self._value_rank(place))

    def _value_rank(self, place: int) -> float:
        """The lower, the better."""
        value = self.best_value(place)
        return math.inf if value is None else -value if self.curves[place].higher_is_better else value

    def pictures(self) -> dict[str, Picture]:
        """The figures of a report on several runs, by name."""
        found = {"curves": self._curves()}
        swept = self.swept()
        if swept is not None:
            if self.target is not None and any(self.reached(place) is not None for place in range(len(self.runs))):
                found["response-rounds"] = of_chart(self._response(swept, to_target=True))
            found["response-best"] = of_chart(self._response(swept, to_target=False))
        return found

    def _curves(self) -> Picture:
        drawn = self.ranking[:MOST_LINES] if len(self.runs) > MOST_LINES else range(len(self.runs))
        curves = [LabelledCurve(self.labels[place], self.curves[place]) for place in drawn]
        title = f"{self.metric.replace('_', ' ')} on the test examples".capitalize()
        draw = partial(curve_figure, curves, metric=self.metric, target=self.target)
        best = self.best_value(self.best)
        said = (
            f"{title} of {plural(len(curves), 'run')}; best {value_text(self.metric, best)}: {self.labels[self.best]}"
        )
        pairs = [(entry.label, entry.curve) for entry in curves]
        return Picture("curves", title, draw, metric_chart("curves", said, self.metric, pairs, target=self.target))

    def swept(self) -> str | None:
        """The numeric setting with the most values among those that differ; the learning rate before others."""
        numeric = {
            name: len(set(values))
            for name, values in self.settings.items()
            if name not in (*OF_COMPUTE, "seed", "partition_seed") and all(_is_number(value) for value in values)
        }
        many = {name: count for name, count in numeric.items() if count >= 3}
        if "learning_rate" in many:
            return "learning_rate"
        return max(many, key=lambda name: many[name]) if many else None

    def _response(self, swept: str, *, to_target: bool) -> Chart:
        values = [float(value) for value in self.settings[swept]]
        others = [name for name in self.settings if name not in (swept, *OF_COMPUTE)]
        groups: dict[str, list[int]] = {}
        for place in range(len(self.runs)):
            name = ", ".join(f"{other}={self.settings[other][place]}" for other in others) or self.metric
            groups.setdefault(name, []).append(place)
        lines = []
        for colour, (name, places) in enumerate(groups.items()):
            ordered = sorted(places, key=lambda place: values[place])
            y = [self.reached(place) if to_target else self.best_value(place) for place in ordered]
            lines.append(Line(name, [values[place] for place in ordered], y, colour=colour))
        what = f"rounds to {value_text(self.metric, self.target)}" if to_target else f"best {self.metric}"
        shown = swept.replace("_", " ")
        log = min(values) > 0 and max(values) / min(values) >= 4
        share = is_share(self.metric) and not to_target
        return Chart(
            f"response-{'rounds' if to_target else 'best'}", f"{what.capitalize()} by {shown}: {self.verdict(swept)}",
            shown, what.replace("_", " "), lines, x_unit="number", y_unit="percent" if share else "number", x_log=log,
            low=0.0 if to_target else None,
        )  # fmt: skip

    def verdict(self, swept: str) -> str:
        """The best value of what was swept, and whether it is at the edge of the grid."""
        values = np.array([float(value) for value in self.settings[swept]])
        best = values[self.best]
        said = f"best at {best:g}"
        if best in (values.min(), values.max()):
            said += ", at the edge of the grid: widen it before believing it"
        return said

    def body(self, pictures: Mapping[str, Picture]) -> list[str]:
        """The sections of the comparison."""
        caption = "Each line is a run's best value so far."
        if len(self.runs) > MOST_LINES:
            caption += f" The best {MOST_LINES} of {count_text(len(self.runs))} runs are drawn."
        parts = [
            page.tiles(self._tiles()),
            page.section(pictures["curves"].description, pictures["curves"].html(caption)),
        ]
        swept = self.swept()
        if swept is not None:
            shown = swept.replace("_", " ")
            shown_as = {"response-rounds": "Rounds to the target", "response-best": f"Best {self.metric}"}
            responses = [
                pictures[name].html(f"{said}, by {shown}.") for name, said in shown_as.items() if name in pictures
            ]
            parts.append(page.section(f"Response to the {shown}", page.paragraph(self._sentence(swept)), *responses))
        parts.append(page.section("Runs", self._table()))
        return parts

    def _sentence(self, swept: str) -> str:
        said = self.verdict(swept)
        return f"{said[0].upper()}{said[1:]} ({self.labels[self.best]})."

    def _tiles(self) -> list[tuple[str, str, str]]:
        best, metric = self.best, self.metric.replace("_", " ")
        tiles = []
        if self.target is not None:
            goal = value_text(self.metric, self.target)
            count = sum(self.reached(place) is not None for place in range(len(self.runs)))
            reached = f"{count_text(count)} of {plural(len(self.runs), 'run')} reached it"
            tiles.append((f"Fewest rounds to {goal}", rounds_text(self.reached(best)), reached))
        top = min(range(len(self.runs)), key=self._value_rank)
        tiles.append((f"Best {metric}", value_text(self.metric, self.best_value(top)), self.labels[top]))
        rounds = sum(run.history.last_round for run in self.runs)
        seconds = sum(report.seconds + report.evaluation_seconds for run in self.runs for report in run.history.reports)
        tiles.append(("Rounds", count_text(rounds), f"of {plural(len(self.runs), 'run')}, {seconds_text(seconds)}"))
        up = sum(totals(run)[1] for run in self.runs)
        if up:
            tiles.append(("Bytes up", bytes_text(up), f"and {bytes_text(sum(totals(r)[0] for r in self.runs))} down"))
        return tiles

    def _table(self) -> str:
        paper = [self._paper(run) for run in self.runs]
        goal = [] if self.target is None else [f"rounds to {value_text(self.metric, self.target)}"]
        goal += ["the paper"] * any(paper)
        header = ["run", *self.settings, *goal, f"best {self.metric}", "rounds", "bytes up", "state"]
        rows = []
        for place, run in enumerate(self.runs):
            row = [run.name, *(values[place] for values in self.settings.values())]
            if self.target is not None:
                row.append(rounds_text(self.reached(place)))
            row += [paper[place]] * any(paper)
            up = bytes_text(totals(run)[1]) if run.traffic is not None else DASH
            best = value_text(self.metric, self.best_value(place))
            rows.append([*row, best, count_text(run.history.last_round), up, _state(run)])
        return page.table(header, rows, best=[self.best])

    def _paper(self, run: RunFacts) -> str:
        cells = [cell for cell in run.published if self.target is not None and math.isclose(cell.target, self.target)]
        return " or ".join(rounds_text(cell.rounds) for cell in cells)


def _label(run: RunFacts, differences: Sequence[str]) -> str:
    """A sweep's members are named after what differs, other runs are not."""
    beyond = [entry for entry in differences if entry not in run.name]
    return ", ".join([run.name, *beyond])


def _state(run: RunFacts) -> str:
    if run.diverged is not None:
        return "diverged"
    return "not ended" if run.result is None else "ended"


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False
