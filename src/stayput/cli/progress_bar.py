"""The live bar of a run on a terminal; rich is imported only when there is one to draw on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from stayput.cli.progress import Pace, heading, standing
from stayput.core.history import History, RoundReport
from stayput.report.terminal_curve import sparklines
from stayput.runs.spec import RunSpec

SECONDS_BETWEEN_LOOKS = 0.25
"""As often as the screen is drawn."""


def small_curve(spec: RunSpec, history: History, width: int = 12) -> str:
    """The metric so far, made monotone, as a line of bars."""
    curve = history.curve(spec.metric, higher_is_better=spec.higher_is_better())
    return sparklines([curve], width=width)[0] if len(curve.values) > 1 else ""


class Bar:
    """Round t of T, the metric now and at its best, pace, and the time that is left."""

    def __init__(
        self,
        spec: RunSpec,
        folder: Path,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec, self._folder, self._clock = spec, folder, clock
        self._drawn_at = -SECONDS_BETWEEN_LOOKS
        self._console = console or Console(stderr=True)
        self._pace = Pace(spec.rounds)
        self._began = False
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("[cyan]{task.fields[curve]}"),
            TextColumn("{task.fields[standing]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            refresh_per_second=4,
        )
        self._bar = self._progress.add_task("preparing", total=spec.rounds or 1, standing="", curve="", left="")

    def on_round(self, report: RoundReport, history: History) -> None:
        """Move the bar."""
        done = report.round_number
        fields: dict[str, Any] = {"left": self._pace.after(report)}
        due = self._clock() >= self._drawn_at + SECONDS_BETWEEN_LOOKS or done == self._spec.rounds
        if not self._began:
            self._began = True
            self._print(heading(self._spec, self._folder))
            fields["total"] = self._spec.rounds or 1  # until now the bar was that of a download
        if report.evaluation and due:  # a picture of the whole history, which grows: not for every quick round
            self._drawn_at = self._clock()
            fields["standing"] = "  ".join(standing(self._spec, history))
            fields["curve"] = small_curve(self._spec, history)
        self._progress.update(self._bar, completed=done, description=f"round {done} of {self._spec.rounds}", **fields)

    def on_note(self, note: str) -> None:
        """Print it above the bar."""
        self._print(f"note: {note}")

    def _print(self, line: str) -> None:
        self._console.print(escape(line), highlight=False, soft_wrap=True)

    def on_download(self, step: str, done: int, total: int | None) -> None:
        """Show it on the bar, which the rounds have no use for yet."""
        megabytes = f"{done / 1e6:.1f} MB" if done else ""
        self._progress.update(self._bar, description=step, completed=done, total=total, standing=megabytes)

    def __enter__(self) -> Self:
        """Show the bar."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bar as it is."""
        self._progress.stop()
