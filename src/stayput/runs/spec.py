"""A run's spec: everything that was asked for, as plain data, frozen.

Enough to run it again when task, partition and algorithm are named ones. A run that Python code started with its own
model or data says "custom" there, and can go on only from that code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stayput.core.rules import require_count
from stayput.errors import InvalidSetting, SpecTooNew, UnknownName

SPEC_VERSION = 1
"""Raised when a field changes its meaning; a spec of a higher version is refused."""

LOSS = "loss"
"""The loss on the test examples, reported beside the metrics."""

CUSTOM = "custom"
"""The name of what only the user's own code can make again."""

POPULATION = "population"
"""In the place of a partition's name: clients that are stored in a folder, {"name": "population", "folder": ...}."""


@dataclass(frozen=True)
class RunSpec:
    """What was asked for."""

    task: str
    """A named task, or "custom"."""
    partition: Mapping[str, Any]
    """{"name": ..., settings}: how examples are spread over clients."""
    algorithm: Mapping[str, Any]
    """{"name": ..., settings}."""
    rounds: int
    """The last round, if nothing ends the run earlier."""
    seed: int = 0
    """Cohorts, shuffles, dropout and initial weights follow from it."""
    partition_seed: int = 0
    """The partition's own seed, so that runs of different seeds share their clients."""
    target: float | None = None
    """The run's goal, for the first metric of the task."""
    stop_at_target: bool = False
    """End with the round that reaches the target."""
    evaluate_every: int = 1
    """Rounds between two evaluations; the first and the last round are always evaluated."""
    checkpoint_every: int = 10
    """Rounds between two checkpoints."""
    keep_checkpoints: int = 2
    """How many of the latest checkpoints stay, beside the best one."""
    engine: str = "sequential"
    device: str = "cpu"
    threads: int | None = None
    """CPU threads of torch; its own choice if None. Part of the spec, since sums over threads round differently."""
    precision: str = "float32"
    """How a GPU multiplies matrices: "float32" as it says, or "tf32", faster and coarser."""
    metrics: Mapping[str, bool] = field(default_factory=lambda: {"accuracy": True})
    """What is measured on the test examples beside the loss, and whether more of it is better; the first is the one
    that the target and the best checkpoint refer to."""
    track: Sequence[str] = ()
    """Trackers that are told of the run, by name."""
    fleet: Mapping[str, Any] = field(default_factory=dict)
    """The virtual fleet whose clock the run is under; empty without one."""
    spec_version: int = field(default=SPEC_VERSION)

    def __post_init__(self) -> None:
        """Refuse settings that break their rules."""
        require_count("rounds", self.rounds, "how many rounds to train for", least=0)
        require_count("seed", self.seed, "every random choice of a run follows from it", least=0)
        require_count("partition_seed", self.partition_seed, "the partition follows from it", least=0)
        require_count("evaluate_every", self.evaluate_every, "rounds between two evaluations")
        require_count("checkpoint_every", self.checkpoint_every, "rounds between two checkpoints")
        require_count("keep_checkpoints", self.keep_checkpoints, "the latest ones, beside the best")
        if self.threads is not None:
            require_count("threads", self.threads, "CPU threads of torch")
        object.__setattr__(self, "track", tuple(self.track))  # JSON gives lists back
        if len(set(self.track)) != len(self.track):
            raise InvalidSetting(f"track={list(self.track)!r}: must name each tracker once")
        if self.stop_at_target and self.target is None:
            raise InvalidSetting("stop_at_target=True: needs a target to stop at (set target, such as 0.97)")
        # A share can be held to [0, 1]; a metric of the user's own may have any scale.
        if self.metric == "accuracy" and self.target is not None and not 0 < self.target <= 1:
            raise InvalidSetting(f"target={self.target!r}: an accuracy must be in (0, 1] (97% is 0.97)")

    def to_json(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return dataclasses.asdict(self)

    @property
    def metric(self) -> str:
        """The metric that the target and the best checkpoint refer to."""
        return next(iter(self.metrics), LOSS)

    def higher_is_better(self, metric: str | None = None) -> bool:
        """Whether more of a metric (of the target's metric, if none is named) is better."""
        directions = {**self.metrics, LOSS: False}
        metric = self.metric if metric is None else metric
        if metric not in directions:
            raise UnknownName("metric", metric, directions)
        return directions[metric]

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, source: str) -> RunSpec:
        """The inverse of `to_json`; `source` is named in errors."""
        if not isinstance(data, Mapping):
            raise InvalidSetting(f"{source}: must be a JSON object (is it a run's spec?)")
        version = data.get("spec_version")
        if not isinstance(version, int):
            raise InvalidSetting(f"{source}: spec_version={version!r}: must be a whole number (is it a run's spec?)")
        if version > SPEC_VERSION:
            raise SpecTooNew(
                f"{source}: spec_version={version}: this stayput reads versions up to {SPEC_VERSION} "
                f"(upgrade stayput: pip install --upgrade stayput)"
            )
        fields = {entry.name for entry in dataclasses.fields(cls)}
        for name in data:
            if name not in fields:
                raise UnknownName(f"{source}: setting", name, fields)
        for name in ("partition", "algorithm"):
            if name in data and not (isinstance(data[name], Mapping) and isinstance(data[name].get("name"), str)):
                raise InvalidSetting(f"{source}: {name}={data[name]!r}: must be an object with a name")
        if not isinstance(data.get("metrics", {}), Mapping):
            raise InvalidSetting(f"{source}: metrics={data['metrics']!r}: must say of each metric if more is better")
        try:
            return cls(**data)
        except TypeError as error:
            raise InvalidSetting(f"{source}: {error} (is it a run's spec?)") from error
