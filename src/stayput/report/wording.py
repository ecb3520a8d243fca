"""How numbers are said to people: the same words in the terminal, in figures and in the HTML report.

Kept in one place so that a run's 97% is never "0.97" on one page and "97.0 %" on another. Imports nothing
but the standard library: the paper's numbers are handed in as `PublishedComparison`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

DASH = "—"
"""Stands for a value there is none of, as in the paper's tables."""


@dataclass(frozen=True, slots=True)
class PublishedComparison:
    """A number of the paper to put beside a run's own."""

    rounds: float | None
    """Rounds to the target; None is the paper's dash: not reached in the rounds it allowed."""
    target: float
    table: str
    """Where it is printed, such as "table 2"."""


def percent(share: float) -> str:
    """0.97 as "97%", 0.9712 as "97.12%"; what is below 1 is never rounded up to "100%"."""
    if not math.isfinite(share):
        return DASH
    text = f"{100 * share:.2f}".rstrip("0").rstrip(".")
    if text == "100" and share < 1:
        return "99.99%"
    return f"{'0' if text == '-0' else text}%"


def value_text(metric: str, value: float | None) -> str:
    """A metric's value: accuracies in percent, anything else with four significant digits."""
    if value is None or math.isnan(value):
        return DASH
    if is_share(metric):
        return percent(value)
    return f"{value:.4g}"


def is_share(metric: str) -> bool:
    """Whether a metric is said in percent: an accuracy is; a metric of the user's own may have any scale."""
    return metric == "accuracy" or metric.endswith("_accuracy")


def rounds_text(rounds: float | None) -> str:
    """43.24 as "43.2", 87.0 as "87", and a dash where the target was not reached."""
    if rounds is None or not math.isfinite(rounds):
        return DASH
    text = f"{rounds:,.1f}"
    return text.removesuffix(".0")


def published_text(published: Sequence[PublishedComparison]) -> str:
    """What the paper prints: "paper: 87 (table 1)"; two cells if its tables differ; "" if it has none."""
    cells = [f"{rounds_text(cell.rounds)} ({cell.table})" for cell in published]
    return f"paper: {', '.join(cells)}" if cells else ""


def rounds_to_target_text(
    metric: str, target: float, rounds: float | None, published: Sequence[PublishedComparison] = ()
) -> str:
    """The headline of a run: "rounds to 97%: 43.2 (paper: 87)", with the paper's numbers for that target."""
    same = [cell for cell in published if math.isclose(cell.target, target)]
    numbers = list(dict.fromkeys(rounds_text(cell.rounds) for cell in same))
    beside = f" (paper: {' or '.join(numbers)})" if numbers else ""
    name = "" if is_share(metric) else f"{metric} "
    return f"rounds to {name}{value_text(metric, target)}: {rounds_text(rounds)}{beside}"


def seconds_text(seconds: float | None) -> str:
    """A duration: "3.1 ms", "0.42 s", "12.3 s", "3 min 12 s", "2 h 5 min"."""
    if seconds is None or not math.isfinite(seconds):
        return DASH
    if seconds < 0.0995:
        return f"{1000 * seconds:.1f} ms"
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60} min"


def count_text(count: float) -> str:
    """60000 as "60,000"."""
    return f"{count:,.0f}"


def bytes_text(count: float) -> str:
    """1662752 as "1.66 MB"; powers of ten, as networks and disks count."""
    units = ("B", "kB", "MB", "GB", "TB", "PB")
    step = 0
    while count >= 999.5 and step < len(units) - 1:
        count, step = count / 1000, step + 1
    digits = 0 if step == 0 or count >= 99.95 else 1 if count >= 9.995 else 2
    return f"{count:.{digits}f} {units[step]}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """1 and "client" as "1 client", 100 as "100 clients"."""
    return f"{count_text(count)} {one if count == 1 else many or one + 's'}"


def printable(text: str, *, limit: int = 200) -> str:
    """A user's text on one line: no control characters, spaces made one, cut where it is absurdly long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
