"""Progress of a run, on stderr: a live bar on a terminal, sparse lines elsewhere, nothing under --quiet."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from stayput.cli.wording import say
from stayput.report.wording import plural, seconds_text, value_text

if TYPE_CHECKING:
    from stayput.core.history import History, RoundReport
    from stayput.runs.spec import RunSpec

SECONDS_BETWEEN_LINES = 10.0


class Pace:
    """How fast rounds go, by the latest twenty of this process: the first ones are slower."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._seconds: deque[float] = deque(maxlen=20)

    def after(self, report: RoundReport) -> str:
        """`2.5 rounds/s, 40.0 s left`; empty before round 1."""
        if report.round_number > 0:
            self._seconds.append(report.seconds + report.evaluation_seconds)
        elapsed = sum(self._seconds)
        if elapsed <= 0:
            return ""
        speed = len(self._seconds) / elapsed
        said = f"{speed:,.0f} rounds/s" if speed >= 10 else f"{speed:.2g} rounds/s"
        left = self._rounds - report.round_number
        return f"{said}, {seconds_text(left / speed)} left" if left else said


OnDownload = Callable[[str, int, int | None], None]
"""Told which step of fetching data is going on, how many bytes of it are done, and of how many."""


def _say_nothing(step: str, done: int, total: int | None) -> None:
    """Nothing."""


class DownloadLines:
    """A line on stderr for each step of fetching data."""

    def __init__(self) -> None:
        self._step = ""

    def __call__(self, step: str, done: int, total: int | None) -> None:  # noqa: ARG002 - steps are enough
        """Say the step, once."""
        if step != self._step:
            self._step = step
            say(f"data: {step}")


class Watcher(Protocol):
    """Whoever watches a run: a context manager whose methods training calls."""

    def on_round(self, report: RoundReport, history: History) -> None:
        """A round has ended."""
        ...

    def on_note(self, note: str) -> None:
        """Something the user should know."""
        ...

    @property
    def on_download(self) -> OnDownload:
        """What is told how fetching data goes."""
        ...

    def __enter__(self) -> Self:
        """Begin to watch."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching."""
        ...


def watcher(spec: RunSpec, folder: Path, *, quiet: bool) -> Watcher:
    """The one that fits where stderr goes."""
    if quiet:
        return Silence()
    if on_a_screen():
        from stayput.cli.progress_bar import Bar

        return Bar(spec, folder)
    return Lines(spec, folder)


def on_a_screen() -> bool:
    """Whether somebody watches: not in a pipe, and not in a CI that makes its log look like a terminal."""
    return sys.stderr.isatty() and not os.environ.get("CI")


class Silence:
    """Shows no progress; notes are still said, they are warnings."""

    def on_round(self, report: RoundReport, history: History) -> None:
        """Say nothing."""

    def on_note(self, note: str) -> None:
        """Say it."""
        say(f"note: {note}")

    on_download: OnDownload = staticmethod(_say_nothing)

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""


class Lines(Silence):
    """Plain lines for log files: after rounds 0, 1, 2, 5, 10, 20, ..., every ten seconds, and at the end."""

    def __init__(self, spec: RunSpec, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._spec, self._folder, self._clock = spec, folder, clock
        self._pace = Pace(spec.rounds)
        self._began = False
        self._said_at = clock()
        self.on_download = DownloadLines()

    def on_round(self, report: RoundReport, history: History) -> None:
        """A line, if one is due."""
        if not self._began:
            self._began = True
            say(heading(self._spec, self._folder))
        pace = self._pace.after(report)
        if report.evaluation and self._due(report.round_number):
            self._said_at = self._clock()
            parts = [f"round {report.round_number} of {self._spec.rounds}", *standing(self._spec, history), pace]
            say("   ".join(filter(None, parts)))

    def _due(self, round_number: int) -> bool:
        waited = self._clock() - self._said_at >= SECONDS_BETWEEN_LINES
        return waited or is_round_figure(round_number) or round_number == self._spec.rounds


def heading(spec: RunSpec, folder: Path) -> str:
    """What is trained, and where it is written to: whoever ends it early needs to know."""
    name = str(spec.algorithm["name"])
    over = spec.partition["over"]["name"] if "over" in spec.partition else spec.partition["name"]
    clients = f"{spec.partition['name']} over {over}" if "over" in spec.partition else str(over)
    aim = "" if spec.target is None else f", target {value_text(spec.metric, spec.target)}"
    return f"run {folder}: {spec.task}, {name}, {clients}, up to {plural(spec.rounds, 'round')}{aim}"


def is_round_figure(value: int) -> bool:
    """0, and 1, 2 or 5 times a power of ten."""
    digits = str(value).rstrip("0")
    return digits in ("", "1", "2", "5")


def standing(spec: RunSpec, history: History) -> list[str]:
    """The metric as it is now, and at its best."""
    curve = history.curve(spec.metric, higher_is_better=spec.higher_is_better())
    if not len(curve.values):
        return []
    now, best = float(curve.values[-1]), float(curve.best_so_far()[-1])
    return [f"{spec.metric} {value_text(spec.metric, now)}", f"best {value_text(spec.metric, best)}"]
