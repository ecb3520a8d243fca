"""What a tracker is: one run, somewhere else, that is told of its rounds and of its end.

To add one: a module here that is named after the package it needs, with a class whose instances are `Tracker`s and
which is made with `RunFacts`; an entry in `TRACKERS`; an extra in pyproject.toml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from stayput.core.history import RoundReport

Status = Literal["finished", "failed", "interrupted"]
"""How a run ended."""

PROJECT = "stayput"
"""What runs are filed under where the user names nothing else."""

EVERY_ROUND = "round/cohort_size"
"""A measure that every round has, so that one can see which rounds have arrived."""


@dataclass(frozen=True)
class RunFacts:
    """What a tracker is told when a run begins or goes on."""

    run_id: str
    """The run's own random name: whoever knows it finds the run again."""
    name: str
    """For people."""
    parameters: Mapping[str, str | int | float | bool]
    """The settings, flat: `algorithm.learning_rate`."""
    folder: Path | None
    """The run's folder, if it has one."""


class Tracker(Protocol):
    """One run in one tracker. Whatever it cannot do it raises; who calls it decides what that means."""

    @property
    def note(self) -> str | None:
        """What the user should know about where the run is, if anything."""
        ...

    def last_round(self) -> int | None:
        """The last round that has arrived there with all its measures, or None before any."""
        ...

    def add_rounds(self, reports: Sequence[RoundReport]) -> None:
        """Rounds that have not arrived yet, in order; when this returns they have."""
        ...

    def finish(self, outcome: Mapping[str, Any], model: Path) -> None:
        """The outcome, and the model as a folder of files."""
        ...

    def close(self, status: Status) -> None:
        """The end, for now: a run that goes on is opened again."""
        ...


def measures(report: RoundReport) -> dict[str, float]:
    """A round's numbers by the names they have in every tracker."""
    facts = {
        EVERY_ROUND: float(report.cohort_size),
        "round/num_examples": float(report.num_examples),
        "round/num_steps": float(report.num_steps),
        "round/seconds": report.seconds,
        "round/evaluation_seconds": report.evaluation_seconds,
        "train/learning_rate": report.learning_rate,
    }
    if report.train_loss is not None:
        facts["train/loss"] = report.train_loss
    return facts | {f"test/{name}": float(value) for name, value in report.evaluation.items()}


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str | int | float | bool]:
    """Nested settings as one level of names: {"algorithm": {"mu": 1}} as {"algorithm.mu": 1}."""
    found: dict[str, str | int | float | bool] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value if isinstance(value, str | int | float | bool) else str(value)
    return found
