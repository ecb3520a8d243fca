"""A run's folder, to read: spec, history, outcome and checkpoints.

Tolerant where a kill may have struck (a half-written last line of the history is not there), strict elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stayput.core.history import Curve, History, RoundReport
from stayput.errors import CorruptCheckpoint, RunFolderError, RunNotFound
from stayput.runs.spec import RunSpec

if TYPE_CHECKING:  # torch comes with it, and whoever only looks at curves has no use for that
    from stayput.runs.checkpoint import Checkpoint

BEST = "checkpoints/best.safetensors"


class RunFolder:
    """One run's folder. Reads only; `RunWriter` writes."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        if not (self.path / "spec.json").is_file():
            raise RunNotFound(f"{self.path}: holds no run (no spec.json; `stayput run` makes one, default in runs/)")

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.path.resolve().name

    @property
    def spec(self) -> RunSpec:
        """What was asked for."""
        return RunSpec.from_json(self._json("spec.json"), source=str(self.path / "spec.json"))

    @property
    def environment(self) -> dict[str, Any]:
        """What it was computed with; also the run's id and the partition's fingerprint."""
        facts: dict[str, Any] = self._json("environment.json")
        return facts

    @property
    def result(self) -> dict[str, Any] | None:
        """The outcome, or None while the run has not ended."""
        if not (self.path / "result.json").is_file():
            return None
        outcome: dict[str, Any] = self._json("result.json")
        return outcome

    @property
    def label_counts(self) -> list[list[int]] | None:
        """How many examples of each label each client holds, or None where examples have no labels."""
        if not (self.path / "label_counts.json").is_file():
            return None
        counts: list[list[int]] = self._json("label_counts.json")["clients"]
        return counts

    def history(self) -> History:
        """The rounds so far."""
        path = self.path / "history.jsonl"
        try:
            lines = path.read_text(encoding="utf-8").split("\n") if path.is_file() else [""]
        except (OSError, UnicodeDecodeError) as error:
            raise RunFolderError(f"{path}: cannot be read ({error})") from error
        # What follows the last line end was cut off by a kill.
        return History(tuple(report_of(line, path, number + 1) for number, line in enumerate(lines[:-1])))

    def curve(self, metric: str | None = None) -> Curve:
        """A metric's curve; the spec's metric if none is named."""
        spec = self.spec
        metric = spec.metric if metric is None else metric
        return self.history().curve(metric, higher_is_better=spec.higher_is_better(metric))

    def best_checkpoint(self) -> Checkpoint | None:
        """The state with the best evaluation up to the latest checkpoint, or None before there is one."""
        from stayput.runs.checkpoint import read_checkpoint

        path = self.path / BEST
        return read_checkpoint(path, run_id=self.environment["run_id"]) if path.is_file() else None

    def checkpoint_paths(self) -> dict[int, Path]:
        """The checkpoints there are, by round, the latest first. Their names are trusted, their content is not."""
        paths = (self.path / "checkpoints").glob("round-*.safetensors")
        numbered = {int(path.stem.removeprefix("round-")): path for path in paths}
        return dict(sorted(numbered.items(), reverse=True))

    def latest_checkpoint(self) -> tuple[Checkpoint | None, list[CorruptCheckpoint]]:
        """The latest checkpoint that is sound, and what was found wrong with later ones."""
        from stayput.runs.checkpoint import read_checkpoint

        damaged: list[CorruptCheckpoint] = []
        run_id = self.environment["run_id"]
        for path in self.checkpoint_paths().values():
            try:
                return read_checkpoint(path, run_id=run_id), damaged
            except CorruptCheckpoint as error:
                damaged.append(error)
        return None, damaged

    def _json(self, name: str) -> Any:  # noqa: ANN401 - whatever JSON can hold
        path = self.path / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise RunFolderError(f"{path}: cannot be read as JSON ({error})") from error


def report_line(report: RoundReport) -> str:
    """A round's report as a line of history.jsonl."""
    data = asdict(report)
    data["evaluation"], data["simulated"] = dict(data["evaluation"]), dict(data["simulated"])
    return json.dumps(data)


def report_of(line: str | bytes, path: Path, number: int) -> RoundReport:
    """A line of history.jsonl as a round's report; `path` and the line's number are named in errors."""
    try:
        report = RoundReport(**json.loads(line))
        _require_numbers(report)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise RunFolderError(f"{path}, line {number}: not a round's report ({error})") from error
    return report


def _require_numbers(report: RoundReport) -> None:
    """What a report counts and measures must be numbers: whoever draws it does not ask again."""
    counts: list[Any] = [report.round_number, report.cohort_size, report.num_examples, report.num_steps]
    for count in counts:
        if not isinstance(count, int) or not 0 <= count < 2**63:
            raise TypeError(f"{count!r} is no count")
    measured: list[Any] = [report.learning_rate, report.seconds, report.evaluation_seconds]
    measured += [*report.evaluation.values(), *([] if report.train_loss is None else [report.train_loss])]
    for number in measured:
        if not isinstance(number, int | float):
            raise TypeError(f"{number!r} is no number")


def is_run(path: Path) -> bool:
    """Whether a folder holds a run."""
    return (path / "spec.json").is_file()


def runs_in(folder: Path, *, deepest: int = 3) -> Iterator[Path]:
    """The folders of runs in a folder, such as a sweep's, by name; runs within runs are not looked for."""
    try:
        inner = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        return  # it is gone, or not ours to read: nothing to show from there
    for path in inner:
        if is_run(path):
            yield path
        elif deepest > 1:
            yield from runs_in(path, deepest=deepest - 1)


def plain(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping as JSON would give it back, so that two of them can be compared."""
    return json.loads(json.dumps(mapping))  # type: ignore[no-any-return]
