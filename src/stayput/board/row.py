"""One run as a row of the page: what it is, how far it is, and whether anything is happening.

A run that has not ended is "running" while a process holds its lock, and where that cannot be known, while it was
written to lately; otherwise it was interrupted. What cannot be read is a row too, with the reason.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stayput.board.growing import GrowingHistory, last_report, sampled_values
from stayput.core.history import Curve, RoundReport
from stayput.errors import SpecTooNew, StayputError
from stayput.report.settings_text import flat_settings
from stayput.runs.run_folder import RunFolder
from stayput.runs.spec import RunSpec

_LATELY = 30.0
"""Seconds without a sign of life after which a run without a lock is not taken to be running."""
_NONE = (0, 0, 0)
_NOT_A_RUNS = (
    StayputError, OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip
"""What comes of files that are not what a run's are; one of them must not end the page for all the others."""

Stamp = tuple[int, int, int]
"""A file's inode, size and time: another stamp, another content."""


class RunRow:
    """A run of the page, brought up to date by `refresh`."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.data: dict[str, Any] = {}
        self.wants_best = False
        """Whether the best value is to be found in the whole history."""
        self._spec: RunSpec | None = None
        self._result: dict[str, Any] | None = None
        self._wrong: dict[str, str] = {}
        self._reason = ""
        self._newer = False
        self._last: RoundReport | None = None
        self._spark: list[tuple[int, float]] = []
        self._spark_at = 0
        self._best: float | None = None
        self._reached: float | None = None
        self._stamps: dict[str, Stamp] = {}
        self._lock_inode = 0
        self._held = False
        self._paces: deque[float] = deque(maxlen=20)
        self._seen: tuple[float, int] | None = None

    @property
    def began(self) -> bool:
        """Whether it has been a run when it was last looked at."""
        return self._spec is not None or bool(self._wrong)

    @property
    def settled(self) -> bool:
        """Whether it is unlikely to change."""
        return self.data.get("state") not in (None, "running", "preparing")

    def refresh(self, now: float, locked: frozenset[int] | None) -> bool:
        """Bring the row up to date; whether it is another one now."""
        for file, read in (
            ("spec.json", self._read_spec),
            ("result.json", self._read_result),
            ("history.jsonl", self._read_history),
        ):
            if self._changed(file):
                self._try(file, read)
        self._reason = next(iter(self._wrong.values()), "")
        try:
            row = self._row(now, locked)
        except _NOT_A_RUNS as error:
            self._reason = f"{self.path}: not a run's ({error})"
            row = self._head("broken")
        before, self.data = self.data, row
        return before != self.data

    def _try(self, file: str, read: Callable[[], None]) -> None:
        """Read a file, and remember what is wrong with it until it is another one."""
        self._wrong.pop(file, None)
        try:
            read()
        except StayputError as error:
            self._wrong[file], self._newer = str(error), isinstance(error, SpecTooNew)
        except _NOT_A_RUNS as error:
            self._wrong[file], self._newer = f"{self.path / file}: not a run's ({error})", False

    def _read_spec(self) -> None:
        self._spec = RunFolder(self.path).spec if (self.path / "spec.json").is_file() else None

    def _read_result(self) -> None:
        result = RunFolder(self.path).result if self._spec is not None else None
        if result is not None and not isinstance(result, dict):
            raise TypeError("it must be a JSON object")
        self._result = result

    def _read_history(self) -> None:
        spec = self._spec
        if spec is None:
            self._stamps.pop("history.jsonl")  # to be read once it is known what the run is
            return
        inode, size, time_ns = self._stamps["history.jsonl"]
        if not inode:
            self._last, self._spark = None, []
            return
        path = self.path / "history.jsonl"
        before, self._last = self._last, last_report(path, size)
        if self._last is None:
            return
        round_number = self._last.round_number
        if round_number < 40 or abs(round_number - self._spark_at) > round_number // 40:
            self._spark, self._spark_at = _thinned(sampled_values(path, size, spec.metric)), round_number
        went_back = before is not None and before.round_number > round_number
        self._note_pace(time_ns / 1e9, round_number, went_back=went_back)
        self.wants_best = self._result is None  # an outcome says it

    def _note_pace(self, at: float, round_number: int, *, went_back: bool) -> None:
        """Seconds a round, by when rounds came: what a round takes in a sweep is not what it took of its own."""
        if self._seen is not None and not went_back and round_number > self._seen[1]:
            self._paces.append(max(at - self._seen[0], 0.0) / (round_number - self._seen[1]))
        if went_back:
            self._paces.clear()
        self._seen = (at, round_number)

    def take_best(self, history: GrowingHistory) -> bool:
        """Take the best value from a whole history; whether the row is another one now."""
        spec = self._spec
        if spec is None or spec.metric not in history.evaluated:
            return False
        import numpy as np

        rounds, values = history.evaluated[spec.metric]
        curve = Curve(np.array(rounds), np.array(values), spec.higher_is_better())
        best = float(curve.best_so_far()[-1])
        self._best = best if math.isfinite(best) else None
        self._reached = None if spec.target is None else curve.rounds_to(spec.target)
        before, self.data = self.data, {**self.data, "best": self._best, "rounds_to_target": self._reached}
        return before != self.data

    def _changed(self, file: str) -> bool:
        before, self._stamps[file] = self._stamps.get(file, _NONE), _stamp(self.path / file)
        return self._stamps[file] != before

    def _row(self, now: float, locked: frozenset[int] | None) -> dict[str, Any]:
        row = self._head(self._state(now, locked))
        spec = self._spec
        if spec is None or (self._reason and self._last is None):
            return row
        last, result = self._last, self._result or {}
        return {
            **row,
            "task": spec.task,
            "metric": spec.metric,
            "higher": spec.higher_is_better(),
            "target": spec.target,
            "rounds": spec.rounds,
            "round": 0 if last is None else last.round_number,
            "value": self._latest(spec.metric),
            "best": _finite(result.get("best")) if result else self._best,
            "rounds_to_target": _finite(result.get("rounds_to_target")) if result else self._reached,
            "diverged": result.get("diverged"),
            "settings": dict(flat_settings(spec)),
            "spark": [[x for x, _ in self._spark], [_short(value) for _, value in self._spark]],
            "pace": self._pace(),
        }

    def _head(self, state: str) -> dict[str, Any]:
        """What is known of whatever is there."""
        return {
            "id": self.name,
            "name": self.path.name,
            "sweep": self.name.rpartition("/")[0],
            "state": state,
            "reason": self._reason,
            "updated": self._stamps.get("history.jsonl", _NONE)[2] / 1e9 or None,
        }

    def _latest(self, metric: str) -> float | None:
        """The value of the last evaluation that was looked at: not every round is evaluated."""
        if self._last is not None and metric in self._last.evaluation:
            return _finite(self._last.evaluation[metric])
        return _finite(self._spark[-1][1]) if self._spark else None

    def _pace(self) -> float | None:
        if self._paces:
            return statistics.median(self._paces)
        last = self._last
        return None if last is None or last.round_number == 0 else last.seconds + last.evaluation_seconds

    def _state(self, now: float, locked: frozenset[int] | None) -> str:
        if self._reason:
            return "newer" if self._newer else "broken"
        if self._result is not None:
            if self._result.get("diverged"):
                return "diverged"
            return "reached" if self._result.get("rounds_to_target") is not None else "ended"
        if self._written(now, locked):
            return "preparing" if self._spec is None else "running"
        return "interrupted"

    def _written(self, now: float, locked: frozenset[int] | None) -> bool:
        """Whether a process is writing it, as far as can be known."""
        if locked is not None:
            if not self._lock_inode:
                self._lock_inode = _stamp(self.path / "lock")[0]
            if self._lock_inode in locked:
                self._held = True
                return True
            if self._held or self._last is None:
                return False  # the list is one that shows this lock, and shows it no more
        last = max(_stamp(self.path / name)[2] for name in ("history.jsonl", "spec.json", "lock")) / 1e9
        return now - last < max(_LATELY, 3 * (self._pace() or 0))

    def details(self) -> dict[str, Any]:
        """All that the files say, beside the curves."""
        facts: dict[str, Any] = {"row": self.data}
        for name in ("spec", "environment", "result"):
            try:
                facts[name] = json.loads((self.path / f"{name}.json").read_text(encoding="utf-8"))
            except (OSError, ValueError, RecursionError):
                facts[name] = None
        return facts


def _thinned(points: list[tuple[int, float]], most: int = 40) -> list[tuple[int, float]]:
    """Enough for a picture as wide as a word."""
    step = -(-len(points) // most)
    return points if step <= 1 else [*points[::step], points[-1]]


def _stamp(path: Path) -> Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 - of hundreds of files a second: the plain call costs a third
    except OSError:
        return _NONE
    return (status.st_ino, status.st_size, status.st_mtime_ns)


def _short(value: float) -> float | None:
    return round(value, 5) if math.isfinite(value) else None


def _finite(value: object) -> float | None:
    return value if isinstance(value, int | float) and math.isfinite(value) else None
