"""One run's history.jsonl, read on from where it was read to.

A history of thousands of rounds is read once; after that only what was added is. A file that became shorter, or
another file by the same name (a run that goes on writes its history anew), is read from its beginning. A last line
without a line end is being written, or was cut off by a kill: it is left for later.
"""

from __future__ import annotations

import os
from array import array
from pathlib import Path

from stayput.core.history import RoundReport
from stayput.runs.run_folder import report_of

SAMPLES = 40
"""Places at which a long history is looked into for a small picture of it."""
_CHUNK = 1200
"""Bytes read at each: a few lines, one of them whole."""
_SMALL = 48_000
"""A history of fewer bytes is read as a whole."""


class GrowingHistory:
    """The columns of a history, as far as it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._clear()
        self._inode = 0

    def _clear(self) -> None:
        self._offset = self._lines = 0
        self.rounds, self.seconds = array("q"), array("d")
        self.train_loss: list[float | None] = []
        self.evaluated: dict[str, tuple[array[int], array[float]]] = {}

    def read_on(self) -> bool:
        """Read what was added; whether there was anything. Raises `RunFolderError` at a line that is no report."""
        try:
            file = self.path.open("rb")
        except OSError:
            return False  # no round yet
        with file:
            status = os.fstat(file.fileno())
            if status.st_ino != self._inode or status.st_size < self._offset:
                self._clear()
                self._inode = status.st_ino
            if status.st_size == self._offset:
                return False
            file.seek(self._offset)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        for line in whole.split(b"\n")[:-1]:
            self._add(report_of(line, self.path, self._lines + 1))
            self._lines += 1
            self._offset += len(line) + 1
        return bool(whole)

    def _add(self, report: RoundReport) -> None:
        self.rounds.append(report.round_number)
        self.seconds.append(report.seconds + report.evaluation_seconds)
        self.train_loss.append(report.train_loss)
        for name, value in report.evaluation.items():
            rounds, values = self.evaluated.setdefault(name, (array("q"), array("d")))
            rounds.append(report.round_number)
            values.append(value)


def last_report(path: Path, size: int) -> RoundReport | None:
    """The last whole line of a history; None if there is none. Reads a few kilobytes, however long it is."""
    with path.open("rb") as file:
        reach = 4096
        while True:
            start = max(0, size - reach)
            file.seek(start)
            content = file.read(size - start)
            lines = content[: content.rfind(b"\n") + 1].split(b"\n")[:-1]
            if start > 0:
                lines = lines[1:]  # the first may begin in the middle
            if lines:
                return report_of(lines[-1], path, -1)
            if start == 0:
                return None
            reach *= 8


def sampled_values(path: Path, size: int, metric: str) -> list[tuple[int, float]]:
    """The metric after some of the rounds, for a small picture: reads a few kilobytes, however long the history is."""
    with path.open("rb") as file:
        if size <= _SMALL:
            chunks = [b"\n" + file.read(size)]
        else:
            chunks = [b"\n" + file.read(_CHUNK)]
            for place in range(1, SAMPLES):
                file.seek(size * place // SAMPLES - _CHUNK // 2)
                chunks.append(file.read(_CHUNK))
            file.seek(size - 2 * _CHUNK)
            chunks.append(file.read(2 * _CHUNK))
    found: dict[int, float] = {}
    for chunk in chunks:
        for line in chunk.split(b"\n")[1:-1]:
            report = report_of(line, path, -1)
            if metric in report.evaluation:
                found[report.round_number] = report.evaluation[metric]
                if size > _SMALL and chunk is not chunks[-1]:
                    break  # one of each place
    return sorted(found.items())
