"""What is in a folder of runs, kept up to date without reading it all again.

A row of the page needs little of a run: its spec, its outcome, the last line of its history and a few lines from
between. So 500 runs of 2,000 rounds are listed from about a hundred kilobytes of each at most, not from all of it;
whole histories are read when somebody looks at them, and those of runs that go on a little at a time. What has ended is
looked at less often than what is going on. Nothing is written, and no lock is asked for.

Each row has the number of the change it last changed in, so that a page is sent what changed since it last heard.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stayput.board.growing import GrowingHistory
from stayput.board.locks import locked_inodes
from stayput.board.row import RunRow
from stayput.board.series import series_of
from stayput.errors import StayputError
from stayput.runs.run_folder import is_run

_DEEPEST = 3
_SETTLED_EVERY = 10
"""Of what has ended or stands still, one tenth is looked at each time."""
_CATCH_UP_SECONDS = 0.04


class RunsIndex:
    """The runs in a folder, as rows for the page. Its methods may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.change = 0
        self._rows: dict[str, RunRow] = {}
        self._changed_in: dict[str, int] = {}
        self._removed: dict[str, int] = {}
        self._folders: dict[Path, tuple[int, list[Path]]] = {}
        self._histories: dict[str, GrowingHistory] = {}
        self._turn = 0
        self._lock = threading.Lock()

    def refresh(self, now: float | None = None) -> int:
        """Look for what has changed, and return the number of the latest change."""
        now = time.time() if now is None else now
        with self._lock:
            self._turn += 1
            locked = locked_inodes()
            first = not self._rows
            for place, path in enumerate(self._find()):
                name = path.relative_to(self.folder).as_posix()
                row = self._rows.get(name)
                if row is None:
                    row = self._rows[name] = RunRow(path, name)
                elif row.settled and not first and (place + self._turn) % _SETTLED_EVERY:
                    continue
                if row.refresh(now, locked):
                    self._mark(name)
            self._catch_up()
            return self.change

    def rows(self, since: int = 0) -> list[dict[str, Any]]:
        """The rows that changed after that change; all of them by default."""
        with self._lock:
            return [self._rows[name].data for name, change in self._changed_in.items() if change > since]

    def removed(self, since: int = 0) -> list[str]:
        """Runs that are gone."""
        with self._lock:
            return [name for name, change in self._removed.items() if change > since]

    def details(self, name: str) -> dict[str, Any] | None:
        """All that a run's files say, beside its curves; None if there is no such run."""
        with self._lock:
            row = self._rows.get(name)
            return None if row is None else row.details()

    def series(self, name: str, after: int | None = None) -> dict[str, Any] | None:
        """A run's curves; None if there is no such run. A history with a broken line is shown up to there."""
        with self._lock:
            if name not in self._rows:
                return None
            history = self._histories.setdefault(name, GrowingHistory(self._rows[name].path / "history.jsonl"))
            broken = ""
            try:
                history.read_on()
            except StayputError as error:
                broken = str(error)
            return {**series_of(history, after), "broken": broken}

    def _mark(self, name: str) -> None:
        self.change += 1
        self._changed_in[name] = self.change
        self._removed.pop(name, None)

    def _find(self) -> list[Path]:
        """The folders of runs, and of what may become one."""
        found = self._inside(self.folder, _DEEPEST)
        there = {path.relative_to(self.folder).as_posix() for path in found}
        for name in set(self._rows) - there:
            self.change += 1
            self._removed[name] = self.change
            for table in (self._rows, self._changed_in, self._histories):
                table.pop(name, None)
        return found

    def _inside(self, folder: Path, deepest: int) -> list[Path]:
        runs = []
        for path in self._subfolders(folder):
            name = path.relative_to(self.folder).as_posix()
            known = name in self._rows and self._rows[name].began
            if known or is_run(path) or (path / "lock").exists():  # with a lock alone, it is being prepared
                runs.append(path)
            elif deepest > 1:
                runs += self._inside(path, deepest - 1)
        return runs

    def _subfolders(self, folder: Path) -> Sequence[Path]:
        """A folder's folders; listed again only when the folder has changed."""
        try:
            changed = folder.stat().st_mtime_ns
            known = self._folders.get(folder)
            # A folder that changed just now may change again within the same tick of the clock.
            if known is not None and known[0] == changed and time.time_ns() - changed > 2_000_000_000:
                return known[1]
            inner = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        except OSError:
            self._folders.pop(folder, None)
            return []  # it is not there (yet), or not ours to read
        self._folders[folder] = (changed, inner)
        return inner

    def _catch_up(self) -> None:
        """Find the best values of runs without an outcome, for a few milliseconds at a time."""
        until = time.monotonic() + _CATCH_UP_SECONDS
        for name, row in self._rows.items():
            if row.wants_best:
                history = self._histories.setdefault(name, GrowingHistory(row.path / "history.jsonl"))
                try:
                    history.read_on()
                except StayputError:
                    continue  # the row says so itself when it comes to that line
                finally:
                    row.wants_best = False
                if row.take_best(history):
                    self._mark(name)
                if time.monotonic() > until:
                    return
