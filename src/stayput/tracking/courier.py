"""Carries one run's rounds to one tracker, on a thread of its own, so that training never waits for a network.

A tracker that cannot be begun is the user's to mend before an hour is spent: that raises. One that fails later is
left alone until the run ends; then it is tried once more, with every round that it has not got.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from stayput.core.history import RoundReport
from stayput.tracking.tracker import Status, Tracker

PATIENCE_SECONDS = 60.0
"""How long the end of a run waits for what is still on its way."""
LAST_SECONDS = 10.0
"""How long a run that was interrupted or failed waits for the same."""


class Courier:
    """One tracker of one run."""

    def __init__(self, name: str, make: Callable[[], Tracker]) -> None:
        self.name = name
        self._make = make
        self._tracker = make()
        self.note = self._tracker.note
        last = self._tracker.last_round()
        self._taken = -1 if last is None else last
        self.failure: Exception | None = None
        self._abandoned = False
        self._queue: SimpleQueue[RoundReport | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._carry, name=f"tracking {name}", daemon=True)
        self._thread.start()

    def put(self, report: RoundReport) -> None:
        """A round has ended. What has arrived already, before a kill, is not sent again."""
        if report.round_number > self._taken and self.failure is None:
            self._taken = report.round_number
            self._queue.put(report)

    def finish(self, history: Sequence[RoundReport], outcome: Mapping[str, Any], model: Path) -> None:
        """See everything arrive, the outcome and the model too; raises what went wrong the second time."""
        self._drain(PATIENCE_SECONDS)
        if self.failure is None:
            try:
                self._tracker.finish(outcome, model)
            except Exception as error:  # noqa: BLE001 - whatever a tracker raises, the run itself is unharmed
                self.failure = error
        if self.failure is not None:
            with contextlib.suppress(Exception):  # it failed already; wandb opens no run that is open
                self._tracker.close("failed")
            self._tracker = self._make()
            last = self._tracker.last_round()
            self._tracker.add_rounds([r for r in history if last is None or r.round_number > last])
            self._tracker.finish(outcome, model)
            self.failure = None

    def close(self, status: Status) -> None:
        """Let go of the tracker; raises what goes wrong."""
        self._drain(LAST_SECONDS)
        self._tracker.close(status)

    def _drain(self, seconds: float) -> None:
        if self._abandoned:
            return
        self._queue.put(None)
        self._thread.join(seconds)
        self._abandoned = self._thread.is_alive()
        if self._abandoned and self.failure is None:
            self.failure = TimeoutError(f"still sending after {seconds:.0f} s")

    def _carry(self) -> None:
        ended = False
        while not ended:
            waiting = [self._queue.get()]
            while not self._queue.empty():
                waiting.append(self._queue.get())
            ended = None in waiting
            reports = [report for report in waiting if report is not None]
            if reports:
                try:
                    self._tracker.add_rounds(reports)
                except Exception as error:  # noqa: BLE001 - whatever a tracker raises, training goes on
                    self.failure = error
                    return
