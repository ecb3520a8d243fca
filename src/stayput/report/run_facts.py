"""What a report is made of, read once: a run may go on while it is reported.

One run that cannot be read must not keep the others from being shown: it becomes an `Unreadable`, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stayput.core.history import Curve, History
from stayput.errors import RunFolderError, StayputError
from stayput.report.traffic import Traffic, traffic_of
from stayput.report.wording import PublishedComparison
from stayput.runs.run_folder import RunFolder
from stayput.runs.spec import RunSpec

Published = Callable[[RunSpec], Sequence[PublishedComparison]]
"""What the paper prints for a run's setting, if it does; the caller's to know."""


@dataclass(frozen=True)
class RunFacts:
    """A run as it was when it was read."""

    name: str
    spec: RunSpec
    history: History
    curve: Curve
    """Of the metric that the target refers to."""
    result: dict[str, Any] | None
    environment: dict[str, Any]
    label_counts: list[list[int]] | None
    traffic: Traffic | None
    """Bytes, where model and algorithm are known."""
    published: Sequence[PublishedComparison]

    @property
    def best(self) -> tuple[float, int] | None:
        """The best value of the metric and the round it was evaluated after; None where there is no finite one."""
        values = np.where(np.isfinite(self.curve.values), self.curve.values, np.nan)
        if np.isnan(values).all():
            return None
        index = int(np.nanargmax(values) if self.curve.higher_is_better else np.nanargmin(values))
        return float(values[index]), int(self.curve.rounds[index])

    @property
    def diverged(self) -> str | None:
        """Why the run ended early, if training diverged."""
        reason = None if self.result is None else self.result.get("diverged")
        return None if reason is None else str(reason)


@dataclass(frozen=True)
class Unreadable:
    """A run's folder that holds something, but not a run that this version can read."""

    name: str
    reason: str


def read_facts(run: RunFolder, published: Published | None = None) -> RunFacts:
    """Everything a report shows of a run."""
    spec, history = run.spec, run.history()
    return RunFacts(
        name=run.name,
        spec=spec,
        history=history,
        curve=history.curve(spec.metric, higher_is_better=spec.higher_is_better()),
        result=run.result,
        environment=run.environment,
        label_counts=run.label_counts,
        traffic=traffic_of(run),
        published=() if published is None else published(spec),
    )


def read_all(paths: Sequence[Path], published: Published | None = None) -> tuple[list[RunFacts], list[Unreadable]]:
    """The runs that can be read, and what is wrong with the others; an error where there is none to show."""
    readable: list[RunFacts] = []
    broken: list[Unreadable] = []
    for path in paths:
        try:
            readable.append(read_facts(RunFolder(path), published))
        except StayputError as error:
            broken.append(Unreadable(path.resolve().name, str(error)))
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:  # JSON, but not a run's
            broken.append(Unreadable(path.resolve().name, f"{path}: not the files of a run ({error!r})"))
    if not readable and broken:
        raise RunFolderError(f"{broken[0].reason} (nothing else to report)")
    return readable, broken
