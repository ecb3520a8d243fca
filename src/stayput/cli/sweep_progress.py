"""One bar for a whole sweep: rounds/s, client-steps/s, the best value so far, the time that is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from stayput.cli.progress import on_a_screen
from stayput.cli.wording import say
from stayput.report.wording import plural, seconds_text, value_text

if TYPE_CHECKING:
    from stayput.core.history import History, RoundReport
    from stayput.runs.spec import RunSpec

SECONDS_BETWEEN_LINES = 5.0


class SweepProgress:
    """Watches all members: a live bar on a terminal, sparse lines elsewhere, nothing if quiet."""

    def __init__(
        self,
        spec: RunSpec,
        members: int,
        folder: Path,
        *,
        quiet: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec, self._members, self._folder, self._quiet, self._clock = spec, members, folder, quiet, clock
        self._began_at: float | None = None
        self._said_at = clock()
        self._rounds = self._steps = 0
        self._at = [0] * members
        self._best: float | None = None
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        """Say what is trained, and show the bar where there is a terminal."""
        if not self._quiet:
            say(
                f"sweep {self._folder}: {plural(self._members, 'run')} of {self._spec.task}, up to "
                f"{plural(self._spec.rounds, 'round')} each, engine {self._spec.engine} on {self._spec.device}"
            )
            if on_a_screen():
                self._show_bar()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.stop()

    def on_round(self, member: int, report: RoundReport, history: History) -> None:  # noqa: ARG002 - reports suffice
        """A member has finished a round."""
        if self._began_at is None or report.round_number == 0:
            self._began_at = self._clock()
        self._rounds += report.round_number > 0
        self._steps += report.num_steps
        self._at[member] = report.round_number
        value = report.evaluation.get(self._spec.metric)
        better = max if self._spec.higher_is_better() else min
        if value is not None and value == value:  # noqa: PLR0124 - a NaN is the best of nothing
            self._best = value if self._best is None else better(self._best, value)
        if self._bar is not None:
            self._bar.update(self._task, completed=sum(self._at), standing=self.standing())
        elif not self._quiet and member == 0 and self._clock() - self._said_at >= SECONDS_BETWEEN_LINES:
            self._said_at = self._clock()
            say(f"{sum(self._at):,} of {self._members * self._spec.rounds:,} rounds   {self.standing()}")

    def standing(self) -> str:
        """How fast it goes, how good it is, how long it may take."""
        elapsed = max(self._clock() - (self._began_at or self._clock()), 1e-9)
        left = self._members * self._spec.rounds - sum(self._at)
        parts = [f"{self._rounds / elapsed:,.1f} rounds/s", f"{self._steps / elapsed:,.0f} client-steps/s"]
        if self._best is not None:
            parts.append(f"best {value_text(self._spec.metric, self._best)}")
        if self._rounds and left:
            parts.append(f"at most {seconds_text(left * elapsed / self._rounds)} left")
        return "   ".join(parts)

    def _show_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._bar = Progress(BarColumn(), TextColumn("{task.fields[standing]}"), console=Console(stderr=True))
        self._task = self._bar.add_task("sweep", total=self._members * self._spec.rounds or 1, standing="preparing")
        self._bar.start()
