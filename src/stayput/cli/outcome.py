"""What a run came to: the last lines of `stayput run` and `stayput resume`, or their one line of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stayput.cli.wording import aligned
from stayput.errors import TargetMissed
from stayput.report.wording import (
    PublishedComparison,
    published_text,
    rounds_text,
    seconds_text,
    value_text,
)
from stayput.runs.spec import RunSpec


@dataclass(frozen=True)
class Outcome:
    """A finished run, as the command line tells it."""

    folder: Path
    spec: RunSpec
    result: Mapping[str, Any]
    """What its result.json holds."""
    paper: Sequence[PublishedComparison] = ()
    """The paper's rounds for the same setting and target."""
    figures: Sequence[Path] = ()
    report: Path | None = None
    seconds: float = 0.0
    """Wall-clock time of the command, with everything."""

    @property
    def reached(self) -> bool:
        """Whether the target was, if there was one."""
        return self.result["rounds_to_target"] is not None

    def lines(self) -> list[str]:
        """For people."""
        result, metric = self.result, self.spec.metric
        rows: list[Sequence[str]] = []
        if self.spec.target is not None:
            goal = value_text(metric, self.spec.target)
            rows.append((f"rounds to {metric} {goal}", self._rounds_beside_paper()))
        rows.append((f"best {metric}", value_text(metric, result["best"])))
        rows.append((f"final {metric}", value_text(metric, result["final"])))
        rows.append(("rounds", f"{result['rounds']}, {self._time()}"))
        if self.result.get("simulated"):
            rows.append(("simulated", _simulated(self.result["simulated"])))
        rows += [("figure", str(figure)) for figure in self.figures]
        if self.report is not None:
            rows.append(("report", str(self.report)))
        rows.append(("run", str(self.folder)))
        return aligned(rows, gap="   ")

    def _rounds_beside_paper(self) -> str:
        mine = rounds_text(self.result["rounds_to_target"]) if self.reached else "not reached"
        return f"{mine}   ({published_text(self.paper)})" if self.paper else mine

    def _time(self) -> str:
        """The run's time, over all processes that worked on it."""
        training, evaluation = self.result["train_seconds"], self.result["evaluation_seconds"]
        return f"{seconds_text(training)} of training and {seconds_text(evaluation)} of evaluation"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        spec = self.spec
        return {
            "run": str(self.folder),
            "task": spec.task,
            "algorithm": dict(spec.algorithm),
            "partition": dict(spec.partition),
            "seed": spec.seed,
            "partition_seed": spec.partition_seed,
            "metric": spec.metric,
            "rounds": self.result["rounds"],
            "target": spec.target,
            "rounds_to_target": self.result["rounds_to_target"],
            "best": self.result["best"],
            "final": self.result["final"],
            "paper": [{"rounds": cell.rounds, "target": cell.target, "table": cell.table} for cell in self.paper],
            "model_sha256": self.result["model_sha256"],
            "figures": [str(figure) for figure in self.figures],
            "report": None if self.report is None else str(self.report),
            **({"simulated": self.result["simulated"]} if self.result.get("simulated") else {}),
            "train_seconds": self.result["train_seconds"],
            "evaluation_seconds": self.result["evaluation_seconds"],
            "seconds": self.seconds,
        }

    def require_target(self) -> None:
        """Raise `TargetMissed` if the target was not reached."""
        if not self.reached:
            raise TargetMissed(
                f"target={self.spec.target}: missed, the best {self.spec.metric} in {self.result['rounds']} "
                f"rounds is {value_text(self.spec.metric, self.result['best'])} (train on with: stayput resume "
                f"{self.folder} --rounds N)"
            )


def _simulated(seen: Mapping[str, float]) -> str:
    """What a virtual clock and the lines of its clients have seen."""
    hours, down, up = seen["seconds"] / 3600, seen["bytes_down"] / 1e6, seen["bytes_up"] / 1e6
    return (
        f"{hours:,.2f} hours, {down:,.1f} MB down and {up:,.1f} MB up, {seen['dropouts']:.0f} of {seen['asked']:.0f} "
        f"tasks came to nothing"
    )


def json_line(data: object) -> str:
    """One line of JSON; what is not a finite number becomes null, since JSON has no NaN."""
    return json.dumps(_finite(data), allow_nan=False, ensure_ascii=False)


def _finite(data: object) -> object:
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, Mapping):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data
