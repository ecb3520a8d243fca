"""Runs by name: finding the one that a user means, and a folder for the next one."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stayput.errors import RunNotFound

if TYPE_CHECKING:
    from stayput.runs.run_folder import RunFolder

RUNS = Path("runs")
"""Where runs go, in the current folder, unless told otherwise."""


def find_run(name: str) -> RunFolder:
    """The run at this path, or of this name in runs/."""
    from stayput.runs.run_folder import RunFolder, is_run

    for path in (Path(name), RUNS / name):
        if is_run(path):
            return RunFolder(path)
    there = sorted(path.name for path in RUNS.glob("*") if is_run(path))
    close = difflib.get_close_matches(name, there, n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    known = f"runs/ holds {_listed(there)}" if there else "runs/ holds none; `stayput run` makes one"
    raise RunNotFound(f"{name}: no run is there, nor in runs/ ({guess}{known})")


def find_runs(names: Sequence[str]) -> list[Path]:
    """The folders of the runs of these names, in order; a folder that holds runs, such as a sweep's, stands for them.

    What is no run but looks like one stays in the list: who reports on many runs says what is wrong with it.
    """
    from stayput.runs.run_folder import is_run, runs_in

    found: list[Path] = []
    for name in names:
        places = [path for path in (Path(name), RUNS / name) if path.is_dir()]
        inner = next((runs for path in places if not is_run(path) and (runs := list(runs_in(path)))), None)
        found += [find_run(name).path] if inner is None else inner
    return list(dict.fromkeys(found))


def _listed(names: list[str], most: int = 8) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


@contextlib.contextmanager
def folder_for(task: str, wanted: Path | None) -> Iterator[Path]:
    """The folder of a new run: the wanted one, or runs/<task>-<number>, gone again if no run came of it."""
    if wanted is not None:
        yield wanted
        return
    path = _next_free(task)
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):  # it holds a run now, and so it stays
            path.rmdir()


def _next_free(task: str) -> Path:
    """Made, not only chosen, so that two runs that begin together do not meet."""
    RUNS.mkdir(exist_ok=True)
    taken = [path.name.removeprefix(f"{task}-") for path in RUNS.glob(f"{task}-*")]
    number = max((int(suffix) for suffix in taken if suffix.isdecimal()), default=0) + 1
    while True:
        path = RUNS / f"{task}-{number}"
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path
