"""Progress of `stayput reproduce`, on stderr: a line for each cell, and sparse lines while it trains."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from stayput.cli.wording import say
from stayput.report.wording import seconds_text, value_text

if TYPE_CHECKING:
    from stayput.paper.measuring import Standings
    from stayput.paper.planning import Work

SECONDS_BETWEEN_LINES = 10.0


class ReproduceProgress:
    """Says what is trained and how it stands; nothing if quiet."""

    def __init__(self, *, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet, self._clock = quiet, clock
        self._said_at = clock()
        self._step = ""
        self._position = ""
        self._work: Work | None = None

    def begin(self, number: int, total: int, work: Work) -> None:
        """A cell begins; it is named once it trains."""
        self._position, self._work = f"[{number}/{total}]", work

    def on_standings(self, standings: Standings) -> None:
        """All rates have finished a round."""
        if self._quiet:
            return
        if self._work is not None:
            say(f"{self._position} {self._work.label}, up to {standings.cell.rounds} rounds")
            self._work, self._said_at = None, self._clock()
        if self._clock() - self._said_at < SECONDS_BETWEEN_LINES:
            return
        self._said_at = self._clock()
        best = ""
        if standings.best_rate is not None:
            best = f"   best {value_text(standings.cell.metric, standings.best_value)} (η={standings.best_rate:.3g})"
        rates = f"{standings.live} of {standings.rates} rates"
        say(f"    round {standings.round_number}, {rates}{best}   {seconds_text(standings.seconds)}")

    def on_note(self, note: str) -> None:
        """Something to know."""
        if not self._quiet:
            say(f"    {note}")

    def on_download(self, step: str, done: int, total: int | None) -> None:  # noqa: ARG002 - steps are enough
        """A step of fetching or preparing data."""
        if step != self._step:
            self._step = step
            self.on_note(step)

    def close(self) -> None:
        """The end of all cells."""
        self._work = None
