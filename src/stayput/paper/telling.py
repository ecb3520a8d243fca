"""Tables as text: the paper's number, ours, the ratio, the rate; for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Sequence

from stayput.paper.exhibits import Table
from stayput.paper.planning import Work
from stayput.paper.results import Results, outcome
from stayput.paper.tabulating import MEASURED, NOT_REACHED, NOT_RUN, Found, Place, places
from stayput.report.wording import DASH, rounds_text, value_text


def place_text(place: Place) -> str:
    """Ours beside the paper's: `92.8 / 92 (×1.01) η=0.147`."""
    return f"{found_text(place.found)} / {rounds_text(place.entry.printed)}{_ratio(place)}{_rate(place.found)}"


def found_text(found: Found) -> str:
    """Our rounds, or why there are none."""
    if found.state == MEASURED:
        return rounds_text(found.rounds)
    if found.state == NOT_RUN:
        return "not run"
    best = "" if found.best_value is None else f" (best {value_text('accuracy', found.best_value)})"
    return f"{DASH}{best}" if found.state == NOT_REACHED else f"not finished{best}"


def speedup_text(speedup: float | None) -> str:
    """As the paper prints it."""
    return "" if speedup is None else f"{speedup:.1f}x"


def _ratio(place: Place) -> str:
    return "" if place.ratio is None else f" (×{place.ratio:.2f})"


def _rate(found: Found) -> str:
    if found.rate is None or found.state == NOT_RUN:
        return ""
    decay = "" if found.decay == 1.0 else f" decay {found.decay:g}"
    edge = "" if found.inside or found.grid == 1 else ", at an edge"
    return f" η={found.rate:.3g}{decay} of {found.grid}{edge}"


def table_lines(table: Table, results: Results) -> list[str]:
    """A table for the terminal."""
    rows = [[*table.labels, *table.columns], *_rows(table, places(table, results))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [f"{table.title}   (ours / the paper's)", *lines]


def _rows(table: Table, found: Sequence[Place]) -> list[list[str]]:
    width = len(table.columns)
    groups = [found[first : first + width] for first in range(0, len(found), width)]
    return [[*group[0].row.labels, *map(place_text, group)] for group in groups]


def markdown(table: Table, results: Results) -> list[str]:
    """A table for the page: for each column the paper's rounds, ours, the ratio, both speedups, the rate."""
    lines: list[str] = []
    found = places(table, results)
    width = len(table.columns)
    for section in table.sections:
        mine = [place for place in found if place.section == section.title]
        for position, column in enumerate(table.columns):
            lines += ["", f"**{section.title}, {column}**", ""]
            head = [
                *table.labels,
                "the paper",
                "ours",
                "ratio",
                "speedup, the paper",
                "speedup, ours",
                "η",
                "rates tried",
            ]
            lines += [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
            lines += [f"| {' | '.join(_cells(place))} |" for place in mine[position::width]]
    return lines


def _cells(place: Place) -> list[str]:
    found = place.found
    run = found.state != NOT_RUN
    edge = "" if found.inside or found.grid <= 1 else ", at an edge"
    rate = "" if found.rate is None or not run else f"{found.rate:.3g}"
    if rate and found.decay != 1.0:
        rate += f" · {found.decay:g}^t"
    return [
        *place.row.labels,
        rounds_text(place.entry.printed),
        found_text(found),
        "" if place.ratio is None else f"{place.ratio:.2f}",
        speedup_text(place.printed_speedup),
        speedup_text(place.speedup),
        rate,
        f"{found.grid}{edge}" if run else "",
    ]


def quick_lines(works: Sequence[Work], results: Results) -> list[str]:
    """What the short version measured, a line for each cell."""
    lines = []
    for work in works:
        if work.cell is None:
            lines.append(f"quick  {work.label}")
            continue
        for seed in results.seeds(work.cell):
            one = outcome(work.cell, results.curves(work.cell, seed))
            best = value_text(work.cell.metric, one.best_value)
            goal = "" if work.cell.target is None else f", {value_text('accuracy', work.cell.target)}: {one.state}"
            lines.append(f"quick  {work.label}: {work.cell.metric} {best}{goal}")
    return lines
