"""`sweep`: a grid of settings and seeds, trained side by side on one engine.

Each member is a run of its own: the history it would have alone (cohorts and shuffles follow from its own seed), a
folder of its own, an end of its own. The lanes engine trains all members' clients as one tensor program; when a
member reaches its target or diverges, the others go on in its place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from stayput.core.algorithm import AlgorithmSettings
from stayput.core.history import History, RoundReport
from stayput.core.named_settings import to_plain
from stayput.data.federated_data import FederatedData
from stayput.errors import InvalidSetting, UnknownName
from stayput.experiments.preparing import (
    OnNote,
    Parts,
    TestData,
    as_examples,
    custom_spec,
    finished,
    opened,
    prepared,
    refuse_wrong_kinds,
    warn,
)
from stayput.experiments.run import Run
from stayput.experiments.run_in_progress import train_together
from stayput.runs.spec import RunSpec
from stayput.tasks.task import Task

SEED = "seed"
Point = Mapping[str, Any]
"""A member's place in the grid: the settings that vary, and their values."""

OnSweepRound = Callable[[int, RoundReport, History], None]
"""Called after every round of every member, with the member's number, for progress."""


@dataclass(frozen=True)
class Member:
    """One run of a sweep."""

    point: Point
    run: Run
    diverged: str | None
    """Why it ended early, if it diverged."""


@dataclass(frozen=True)
class Sweep:
    """A finished sweep."""

    members: Sequence[Member]

    @property
    def runs(self) -> list[Run]:
        """Every member's run, in the order of the grid."""
        return [member.run for member in self.members]

    def best(self, target: float | None = None) -> Member:
        """The member that reached the target in the fewest rounds; failing that, the one with the best value."""

        def rank(member: Member) -> tuple[float, float]:
            curve = member.run.curve()
            reached = None if target is None else curve.rounds_to(target)
            value = float(curve.best_so_far()[-1]) if len(curve.values) else float("-inf")
            return (float("inf") if reached is None else reached, -value if curve.higher_is_better else value)

        return min(self.members, key=rank)


def sweep(
    task: Task,
    clients: FederatedData,
    algorithm: AlgorithmSettings,
    *,
    over: Mapping[str, Sequence[Any]],
    rounds: int,
    test: TestData = None,
    seed: int = 0,
    target: float | None = None,
    stop_at_target: bool = False,
    evaluate_every: int = 1,
    engine: str = "lanes",
    device: str = "cpu",
    precision: str = "float32",
    folder: Path | str | None = None,
    resume: bool = False,
    on_round: OnSweepRound | None = None,
    track: Sequence[str] = (),
) -> Sweep:
    """Train every combination of the values in `over`: settings of the algorithm, and "seed".

    `track` names trackers that are told of every member, as in `train`.

    >>> grid = {"learning_rate": [0.05, 0.1, 0.2], "seed": [0, 1]}
    """
    refuse_wrong_kinds(task, clients, algorithm)
    base = custom_spec(
        task,
        algorithm,
        rounds=rounds,
        seed=seed,
        target=target,
        stop_at_target=stop_at_target,
        evaluate_every=evaluate_every,
        engine=engine,
        device=device,
        precision=precision,
        track=track,
    )
    parts = Parts(task, clients, algorithm.algorithm(), as_examples(test))
    return sweep_spec(base, parts, algorithm, over=over, folder=folder, resume=resume, on_round=on_round, on_note=warn)


def sweep_spec(
    base: RunSpec,
    parts: Parts,
    algorithm: AlgorithmSettings,
    *,
    over: Mapping[str, Sequence[Any]],
    folder: Path | str | None = None,
    resume: bool = False,
    on_round: OnSweepRound | None = None,
    on_note: OnNote = lambda note: None,  # noqa: ARG005 - says nothing unless asked to
) -> Sweep:
    """`sweep`, for a spec whose parts are built already."""
    points = grid(over, algorithm)
    settings = [_with(algorithm, point) for point in points]
    parts, engine = prepared(base, parts)
    folders = [None if folder is None else Path(folder) / member_name(point) for point in points]
    with ExitStack() as stack:
        runs = []
        for number, (point, chosen, path) in enumerate(zip(points, settings, folders, strict=True)):
            spec = replace(base, algorithm=to_plain(chosen), seed=point.get(SEED, base.seed))

            def heard(report: RoundReport, history: History, number: int = number) -> None:
                if on_round is not None:
                    on_round(number, report, history)

            member = replace(parts, algorithm=chosen.algorithm())
            runs.append(
                opened(
                    spec,
                    member,
                    engine,
                    folder=path,
                    resume=resume,
                    on_round=heard,
                    on_note=on_note,
                    stack=stack,
                    name=member_name(point) if folder is None else f"{Path(folder).name}/{member_name(point)}",
                )
            )
        train_together(engine, runs, diverging_ends_all=False)
        return Sweep(
            tuple(
                Member(point, finished(run, engine, path), None if run.diverged is None else str(run.diverged))
                for point, run, path in zip(points, runs, folders, strict=True)
            )
        )


def grid(over: Mapping[str, Sequence[Any]], algorithm: AlgorithmSettings) -> list[Point]:
    """Every combination of the values, after a check that each name is a setting and has values."""
    fields = {field.name for field in dataclasses.fields(algorithm)}  # type: ignore[arg-type] # settings are dataclasses
    for name, values in over.items():
        if name not in fields | {SEED}:
            raise UnknownName(f"setting of {algorithm.name} to sweep over", name, fields | {SEED})
        if not len(values) or len(set(map(str, values))) != len(values):
            raise InvalidSetting(f"{name}={list(values)!r}: must be one or more different values to sweep over")
    return [dict(zip(over, combination, strict=True)) for combination in product(*over.values())]


def member_name(point: Point) -> str:
    """The name of a member's folder, such as `learning_rate=0.1,seed=0`."""
    entries = [
        f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}" for name, value in point.items()
    ]
    return ",".join(entries) or "only"


def _with(algorithm: AlgorithmSettings, point: Point) -> Any:  # noqa: ANN401 - the same kind of settings
    return replace(algorithm, **{name: value for name, value in point.items() if name != SEED})  # type: ignore[type-var]
