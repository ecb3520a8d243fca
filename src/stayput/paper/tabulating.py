"""Tables with the paper's numbers and ours: rounds, the ratio, speedups over the same baseline, the rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Any

from stayput.paper.exhibits import Entry, Row, Section, Table
from stayput.paper.rates import rate_of
from stayput.paper.results import Outcome, Results, is_settled, outcome

MEASURED, NOT_REACHED, UNFINISHED, NOT_RUN = "measured", "not reached", "unfinished", "not run"


@dataclass(frozen=True)
class Found:
    """What was measured for one place of a table."""

    state: str
    rounds: float | None = None
    """The median over seeds of the best rate's rounds."""
    by_seed: tuple[float | None, ...] = ()
    rate: float | None = None
    """η of the seed in the middle."""
    decay: float = 1.0
    grid: int = 0
    """How many rates were tried."""
    inside: bool = False
    best_value: float | None = None


def found(entry: Entry, results: Results) -> Found:
    """The best of an entry's cells."""
    each = [_of_cell(entry, position, results) for position in range(len(entry.cells))]
    order = {MEASURED: 0, UNFINISHED: 1, NOT_REACHED: 2, NOT_RUN: 3}
    return min(each, key=lambda one: (order[one.state], one.rounds or 0.0, -(one.best_value or 0.0)))


def _of_cell(entry: Entry, position: int, results: Results) -> Found:
    cell = entry.cells[position]
    outcomes = []
    for seed in results.seeds(cell):
        curves = results.curves(cell, seed)
        one = outcome(cell, curves, entry.target)
        # A cell that ended at a later target has said all there is to say of an earlier one, and the other way round.
        if one.state == NOT_REACHED and any(not is_settled(curve, cell) for curve in curves.values()):
            one = Outcome(UNFINISHED, None, one.exponent, one.exponents, one.best_value, one.inside)
        outcomes.append(one)
    if not outcomes:
        return Found(NOT_RUN)
    reached = [one for one in outcomes if one.rounds is not None]
    decay = float(cell.algorithm.get("learning_rate_decay", 1.0))
    by_seed = tuple(None if one.rounds is None else one.rounds * entry.paper_rounds_a_round for one in outcomes)
    if 2 * len(reached) <= len(outcomes):
        one = max(outcomes, key=lambda each: each.best_value or 0.0)
        state = UNFINISHED if any(each.state == UNFINISHED for each in outcomes) else NOT_REACHED
        rate = None if one.exponent is None else rate_of(one.exponent)
        return Found(state, None, by_seed, rate, decay, len(one.exponents), one.inside, one.best_value)
    rounds = median(inf if rounds is None else rounds for rounds in by_seed)  # that did not reach it is no fast one
    middle = min(reached, key=lambda one: abs((one.rounds or 0.0) * entry.paper_rounds_a_round - rounds))
    return Found(
        MEASURED, rounds, by_seed, rate_of(middle.exponent or 0), decay, len(middle.exponents), middle.inside,
        middle.best_value,
    )  # fmt: skip


@dataclass(frozen=True)
class Place:
    """One place of a table, the paper's and ours."""

    section: str
    row: Row
    column: str
    entry: Entry
    found: Found
    printed_speedup: float | None
    speedup: float | None

    @property
    def ratio(self) -> float | None:
        """Our rounds over the paper's."""
        if self.found.rounds is None or self.entry.printed is None:
            return None
        return self.found.rounds / self.entry.printed

    def to_json(self, table: Table) -> dict[str, Any]:
        """As plain data."""
        return {
            "table": table.name,
            "section": self.section,
            **dict(zip(table.labels, self.row.labels, strict=True)),
            "column": self.column,
            "target": self.entry.target,
            "paper": self.entry.printed,
            "state": self.found.state,
            "rounds": self.found.rounds,
            "by_seed": list(self.found.by_seed),
            "ratio": self.ratio,
            "learning_rate": self.found.rate,
            "rates_tried": self.found.grid,
            "best_is_inside_the_grid": self.found.inside,
            "best_value": self.found.best_value,
            "paper_speedup": self.printed_speedup,
            "speedup": self.speedup,
        }


def places(table: Table, results: Results) -> list[Place]:
    """Every place of a table, row by row."""
    return [place for section in table.sections for place in _of_section(table, section, results)]


def _of_section(table: Table, section: Section, results: Results) -> Iterator[Place]:
    baseline = section.rows[0]
    base = [found(entry, results).rounds for entry in baseline.entries]
    for row in section.rows:
        for position, (column, entry) in enumerate(zip(table.columns, row.entries, strict=True)):
            ours = found(entry, results)
            printed = speedup(baseline.entries[position].printed, entry.printed)
            yield Place(section.title, row, column, entry, ours, printed, speedup(base[position], ours.rounds))


def speedup(baseline: float | None, rounds: float | None) -> float | None:
    """How many times fewer rounds than the baseline's."""
    return None if baseline is None or rounds is None or rounds == 0 else baseline / rounds


def share_within(table_places: Sequence[Place], limit: float) -> tuple[int, int]:
    """Of the places where both numbers are there, how many have a ratio up to `limit`, and how many there are."""
    ratios = [place.ratio for place in table_places if place.ratio is not None]
    return sum(ratio <= limit for ratio in ratios), len(ratios)
