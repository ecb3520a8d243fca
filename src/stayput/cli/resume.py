"""`stayput resume`: go on with a run, to the model it would have had without the interruption."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from stayput.cli import flags
from stayput.cli.closing import tell
from stayput.cli.interruption import resumable
from stayput.cli.progress import watcher
from stayput.cli.run_names import find_run
from stayput.cli.settings import Request, trackers
from stayput.errors import InvalidSetting
from stayput.runs.spec import RunSpec

if TYPE_CHECKING:
    from stayput.runs.run_folder import RunFolder

Rounds = Annotated[int | None, typer.Option(help="The last round, to train on beyond the run's own.")]
Target = Annotated[float | None, typer.Option(help="Another accuracy to reach.")]
StopAtTarget = Annotated[
    bool | None,
    typer.Option(
        "--stop-at-target/--keep-going",
        help="What to do once the target is reached (default: as the run was begun).",
    ),
]


def resume(
    run: flags.RunName,
    *,
    rounds: Rounds = None,
    target: Target = None,
    stop_at_target: StopAtTarget = None,
    data_dir: flags.DataDir = None,
    track: flags.Track = None,
    report: flags.Report = None,
    require_target: flags.RequireTarget = None,
    json: flags.Json = None,
    quiet: flags.Quiet = None,
) -> None:
    """Go on with a run from its latest checkpoint.

    The final model has the same bits as that of a run that was never interrupted. A run that has ended is
    trained on with --rounds, and beyond its target with --keep-going.
    """
    folder = find_run(run)
    spec = changed(folder, rounds=rounds, target=target, stop_at_target=stop_at_target, track=track)
    asked = Request(
        spec,
        folder=folder.path,
        data_dir=data_dir,
        report=report is not False,
        require_target=bool(require_target),
        json=bool(json),
        quiet=bool(quiet),
    )
    go_on(asked, folder)


def changed(
    folder: RunFolder,
    *,
    rounds: int | None,
    target: float | None,
    stop_at_target: bool | None,
    track: list[str] | None = None,
) -> RunSpec:
    """The run's spec with what may be changed: when it ends, and who is told."""
    spec = folder.spec
    done = max(folder.checkpoint_paths(), default=0)
    if rounds is not None and rounds < done:
        raise InvalidSetting(
            f"rounds={rounds}: the run in {folder.path} has {done} already (give a larger number; a run can only go on)"
        )
    return replace(
        spec,
        rounds=spec.rounds if rounds is None else rounds,
        target=spec.target if target is None else target,
        stop_at_target=_stops(spec, target) if stop_at_target is None else stop_at_target,
        track=spec.track if not track else trackers(track),
    )


def _stops(spec: RunSpec, target: float | None) -> bool:
    """As the run does; where it had no target and is given one, that is where it stops, as in `stayput run`."""
    return spec.stop_at_target or (spec.target is None and target is not None)


def go_on(asked: Request, folder: RunFolder) -> None:
    """Train to the end and print the outcome."""
    from stayput.experiments.build import build
    from stayput.experiments.training import train_spec
    from stayput.virtual_fleet.training import train_under_clock

    started = time.monotonic()
    before = folder.history().last_round
    with resumable(folder.path):
        with watcher(asked.spec, folder.path, quiet=asked.quiet) as watching:
            parts = build(asked.spec, data_dir=asked.data_dir, on_download=watching.on_download)
            train = train_under_clock if asked.spec.fleet else train_spec
            trained = train(
                asked.spec,
                parts,
                folder=folder.path,
                resume=True,
                on_round=watching.on_round,
                on_note=watching.on_note,
            )
            if trained.history.last_round == before > 0 and folder.result is not None:
                watching.on_note(nothing_to_do(asked.spec, before))
        tell(folder.path, asked, started)


def nothing_to_do(spec: RunSpec, rounds: int) -> str:
    """Why a run did not go on."""
    if rounds >= spec.rounds:
        return f"the run has all of its {rounds} rounds already (train on with --rounds N)"
    return f"the run reached its target in round {rounds} already (train on with --keep-going)"
