"""A run's folder, to write: one process at a time, and every finished round safe.

Order of a round: its line goes to the history and to the disk, then, when one is due, the checkpoint. So a
checkpoint of round t always finds the lines of rounds 0..t; lines after the checkpoint that a run goes on from are
dropped and computed again, to the same values.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from stayput.core.history import History, RoundReport
from stayput.core.tensors import Groups
from stayput.errors import InvalidSetting, RunExists, RunFolderError, RunLocked
from stayput.runs.checkpoint import Checkpoint, write_checkpoint
from stayput.runs.durable_files import append_line, told_if_unwritable, write_json, write_whole
from stayput.runs.run_folder import BEST, RunFolder, is_run, plain, report_line
from stayput.runs.spec import RunSpec


class RunWriter:
    """The one writer of a run. Use it in a `with` block: it holds the folder's lock."""

    def __init__(self, path: Path, spec: RunSpec) -> None:
        self.path = path
        self._spec = spec
        self._lock = _locked(path)
        self._run_id = ""
        self._best: Checkpoint | None = None  # the best state that is not on the disk yet
        self._best_rank = -math.inf

    @classmethod
    def create(
        cls,
        path: Path | str,
        spec: RunSpec,
        environment: Mapping[str, Any],
        label_counts: Sequence[Sequence[int]] | None = None,
    ) -> RunWriter:
        """Begin a run in a folder that holds none; how labels are spread can then be drawn without the data."""
        path = Path(path)
        with told_if_unwritable(path):
            (path / "checkpoints").mkdir(parents=True, exist_ok=True)
            writer = cls(path, spec)
        try:
            _refuse_existing(path)
            writer._run_id = secrets.token_hex(8)  # a name, not a choice of the run: nothing computed depends on it
            with told_if_unwritable(path):
                write_json(path / "environment.json", {"run_id": writer._run_id, **environment})
                if label_counts is not None:
                    write_whole(path / "label_counts.json", json.dumps({"clients": label_counts}).encode())
                write_json(path / "spec.json", spec.to_json())  # last: with it, the folder is a run
        except BaseException:
            writer.close()
            raise
        return writer

    @classmethod
    def reopen(
        cls, path: Path | str, spec: RunSpec, environment: Mapping[str, Any]
    ) -> tuple[RunWriter, Checkpoint | None, History, list[str]]:
        """Go on with a run: its writer, latest sound checkpoint, history up to there, and what to tell the user."""
        folder = RunFolder(path)
        writer = cls(folder.path, spec)
        try:
            _refuse_other_run(folder, spec, environment)
            writer._run_id = folder.environment["run_id"]
            checkpoint, damaged = folder.latest_checkpoint()
            reports = folder.history().reports
            kept = () if checkpoint is None else tuple(reports[: checkpoint.round_number + 1])
            _refuse_short_history(folder, checkpoint, kept)
            with told_if_unwritable(folder.path):
                write_whole(folder.path / "history.jsonl", "".join(f"{report_line(r)}\n" for r in kept).encode())
                (folder.path / "result.json").unlink(missing_ok=True)
                write_json(folder.path / "spec.json", spec.to_json())  # rounds and target may be others now
            for report in kept:
                writer._improves(report)
        except BaseException:
            writer.close()
            raise
        notes = [f"{error}; the one before it is used" for error in damaged]
        return writer, checkpoint, History(kept), notes + _other_versions(folder, environment)

    def add_report(self, report: RoundReport, state: Groups) -> None:
        """Write a round's line, and remember the state if it is the best so far."""
        with told_if_unwritable(self.path):
            append_line(self.path / "history.jsonl", report_line(report))
        if self._improves(report):
            self._best = Checkpoint(report.round_number, state, self._run_id)

    def add_checkpoint(self, round_number: int, state: Groups) -> None:
        """Write a checkpoint and the best one if there is a new best; keep the latest few."""
        path = self.path / "checkpoints" / f"round-{round_number:06d}.safetensors"
        with told_if_unwritable(self.path):
            if self._best is not None:
                write_checkpoint(self.path / BEST, self._best)
                self._best = None  # on the disk now
            write_checkpoint(path, Checkpoint(round_number, state, self._run_id))
        for old in list(RunFolder(self.path).checkpoint_paths().values())[self._spec.keep_checkpoints :]:
            old.unlink()

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write the outcome: the run has ended."""
        with told_if_unwritable(self.path):
            write_json(self.path / "result.json", dict(result))

    def close(self) -> None:
        """Let go of the folder."""
        self._lock.close()

    def __enter__(self) -> Self:
        """Hold the folder."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the folder, whatever happened."""
        self.close()

    def _improves(self, report: RoundReport) -> bool:
        value = report.evaluation.get(self._spec.metric, math.nan)
        rank = value if self._spec.higher_is_better() else -value
        if math.isnan(rank) or rank <= self._best_rank:
            return False
        self._best_rank = rank
        return True


def _refuse_existing(path: Path) -> None:
    if is_run(path):
        raise RunExists(
            f"{path}: holds a run already (go on with `stayput resume {path}`, in Python with resume=True, or choose "
            f"another folder)"
        )


def _refuse_short_history(folder: RunFolder, checkpoint: Checkpoint | None, kept: Sequence[RoundReport]) -> None:
    if checkpoint is not None and len(kept) != checkpoint.round_number + 1:
        raise RunFolderError(
            f"{folder.path}/history.jsonl: ends before round {checkpoint.round_number}, of which there is a checkpoint "
            f"(delete the folder's later checkpoints to go on from an earlier round)"
        )


def _refuse_other_run(folder: RunFolder, spec: RunSpec, environment: Mapping[str, Any]) -> None:
    ours, theirs = plain(spec.to_json()), plain(folder.spec.to_json())
    may_change = {"rounds", "target", "stop_at_target", "keep_checkpoints", "checkpoint_every", "track"}
    changed = sorted(name for name in ours if name not in may_change and ours[name] != theirs.get(name))
    if changed:
        name = changed[0]
        raise InvalidSetting(
            f"{name}={ours[name]!r}: the run in {folder.path} has {theirs.get(name)!r} (a run goes on with its own "
            f"settings; begin another in a new folder)"
        )
    fingerprint = folder.environment.get("partition_fingerprint")
    if fingerprint != environment.get("partition_fingerprint"):
        raise InvalidSetting(
            f"the clients' data is not that of the run in {folder.path} (fingerprint of the partition "
            f"{environment.get('partition_fingerprint')!r}, then {fingerprint!r}; a run goes on with its own data)"
        )


def _other_versions(folder: RunFolder, environment: Mapping[str, Any]) -> list[str]:
    before = folder.environment.get("versions", {})
    now = environment.get("versions", {})
    return [
        f"{name} was {before[name]} when the run began and is {now.get(name)} now: its last bits may differ"
        for name in before
        if before[name] != now.get(name)
    ]


def _locked(path: Path) -> IO[bytes]:
    """The lock file of a folder, locked; the system lets go of it when the process ends, however it ends."""
    file = (path / "lock").open("ab")
    try:
        import fcntl
    except ImportError:  # not a POSIX system: two writers are the user's to avoid
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise RunLocked(
            f"{path}: another process is writing this run (wait for it, or end it; the lock goes with the process)"
        ) from error
    return file
