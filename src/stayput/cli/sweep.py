"""`stayput sweep`: a grid of settings and seeds, trained side by side."""

from __future__ import annotations

import contextlib
import json as json_module
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stayput.cli import flags
from stayput.cli.beside_paper import paper_rounds
from stayput.cli.cluster import connect_if_asked
from stayput.cli.grids import GRIDS
from stayput.cli.interruption import Terminated, exit_code_of
from stayput.cli.run_names import folder_for
from stayput.cli.settings import merged, request
from stayput.cli.settings_file import task_or_file
from stayput.cli.sweep_progress import SweepProgress
from stayput.cli.wording import aligned, answer, note, say
from stayput.errors import InvalidSetting
from stayput.report.wording import published_text, rounds_text, seconds_text, value_text

if TYPE_CHECKING:
    from stayput.experiments.sweep import Sweep

VALUES = "Values to sweep over: 0.01:1.0:13 is a multiplicative grid, 0.05,0.1 a list"
ClientFraction = Annotated[str | None, typer.Option(help="C, one or more values.", rich_help_panel=VALUES)]
LocalEpochs = Annotated[str | None, typer.Option(help="E, one or more values.", rich_help_panel=VALUES)]
BatchSize = Annotated[str | None, typer.Option(help='B, one or more values or "all".', rich_help_panel=VALUES)]
LearningRate = Annotated[str | None, typer.Option(help="η, one or more values.", rich_help_panel=VALUES)]
Decay = Annotated[str | None, typer.Option(help="Decay of η per round, one or more values.", rich_help_panel=VALUES)]
Seed = Annotated[str | None, typer.Option(help="Run seeds, one or more values.", rich_help_panel=VALUES)]
Engine = Annotated[str | None, typer.Option(help="Who computes a round (default auto).", rich_help_panel=flags.COMPUTE)]
Folder = Annotated[
    Path | None, typer.Option(help="Where the members' folders go (default runs/<task>-<number>).", show_default=False)
]
Resume = Annotated[bool | None, typer.Option("--resume", help="Go on with the sweep that is in --folder.")]


def sweep(
    task_or_toml: flags.Task,
    *,
    client_fraction: ClientFraction = None,
    local_epochs: LocalEpochs = None,
    batch_size: BatchSize = None,
    learning_rate: LearningRate = None,
    learning_rate_decay: Decay = None,
    seed: Seed = None,
    algorithm: flags.Algorithm = None,
    partition: flags.Partition = None,
    num_clients: flags.NumClients = None,
    shards_per_client: flags.ShardsPerClient = None,
    alpha: flags.Alpha = None,
    key: flags.Key = None,
    unbalanced: flags.Unbalanced = None,
    spread: flags.Spread = None,
    partition_seed: flags.PartitionSeed = None,
    population: flags.Population = None,
    rounds: flags.Rounds = None,
    target: flags.Target = None,
    stop_at_target: flags.StopAtTarget = None,
    evaluate_every: flags.EvaluateEvery = None,
    checkpoint_every: flags.CheckpointEvery = None,
    keep_checkpoints: flags.KeepCheckpoints = None,
    engine: Engine = None,
    ray_address: flags.RayAddress = None,
    ray_workers: flags.RayWorkers = None,
    device: flags.Device = None,
    threads: flags.Threads = None,
    precision: flags.Precision = None,
    data_dir: flags.DataDir = None,
    folder: Folder = None,
    resume: Resume = None,
    track: flags.Track = None,
    json: flags.Json = None,
    quiet: flags.Quiet = None,
) -> None:
    """Train a grid of settings and seeds side by side, each member a run of its own.

    Every setting of `stayput run` holds for all members; those listed first may have several values. A member that
    reaches the target or diverges ends alone, and the others go on.

    Example: stayput sweep mnist-2nn --learning-rate 0.05:0.5:7 --seed 0,1 --rounds 100 --target 0.97
    """
    given = {name: value for name, value in locals().items() if name not in ("task_or_toml", "resume")}
    over = {name: GRIDS[name](name, given.pop(name)) for name in GRIDS if given[name] is not None}
    firsts = {name: values[0] for name, values in over.items()}
    settings = merged({**given, **firsts, "engine": engine or "auto"}, task_or_file(task_or_toml))
    _train_and_tell(settings, over, resume=bool(resume))


def _train_and_tell(settings: dict[str, Any], over: dict[str, list[Any]], *, resume: bool) -> None:
    from stayput.algorithms import ALGORITHMS
    from stayput.core.named_settings import from_plain
    from stayput.experiments.build import build
    from stayput.experiments.sweep import grid, sweep_spec

    asked = request(settings)
    chosen = from_plain("algorithm", ALGORITHMS, asked.spec.algorithm)
    started = time.monotonic()
    if asked.spec.fleet:
        raise InvalidSetting(
            f"availability={asked.spec.fleet['availability']!r}: the members of a sweep share no clock (train them one "
            f"by one with `stayput run`, or leave the virtual fleet out)"
        )
    connect_if_asked(asked)
    with folder_for(asked.spec.task, asked.folder) as folder, _said_how_to_go_on(folder):
        with SweepProgress(asked.spec, len(grid(over, chosen)), folder, quiet=asked.quiet) as progress:
            parts = build(asked.spec, data_dir=asked.data_dir)
            trained = sweep_spec(
                asked.spec,
                parts,
                chosen,
                over=over,
                folder=folder,
                resume=resume,
                on_round=progress.on_round,
                on_note=note,
            )
        seconds = time.monotonic() - started
        figure = _figure(trained, folder)
        if asked.json:
            answer(json_module.dumps(_plain(trained, folder, figure, seconds)))
        else:
            for line in _lines(trained, over, folder, figure, seconds):
                answer(line)


@contextlib.contextmanager
def _said_how_to_go_on(folder: Path) -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, Terminated) as error:
        say(f"interrupted; go on with the same command and --folder {folder} --resume")
        raise typer.Exit(exit_code_of(error)) from None


def _figure(trained: Sweep, folder: Path) -> Path:
    from stayput.experiments.sweep import member_name
    from stayput.report.curves import LabelledCurve, draw_curves

    curves = [LabelledCurve(member_name(member.point), member.run.curve()) for member in trained.members]
    spec = trained.members[0].run.spec
    return draw_curves(curves, folder / "curves.png", metric=spec.metric, target=spec.target)


def _lines(trained: Sweep, over: dict[str, list[Any]], folder: Path, figure: Path, seconds: float) -> list[str]:
    spec = trained.members[0].run.spec
    goal = [] if spec.target is None else [f"rounds to {value_text(spec.metric, spec.target)}"]
    table = [[*over, *goal, f"best {spec.metric}", "rounds", ""]]
    for member in trained.members:
        run, best = member.run, member.run.curve().best_so_far()
        reached = [] if spec.target is None else [rounds_text(run.rounds_to(spec.target))]
        value = value_text(spec.metric, float(best[-1])) if len(best) else "—"
        note = "diverged" if member.diverged else ""
        table.append([*map(str, member.point.values()), *reached, value, str(run.history.last_round), note])
    best_member = trained.best(spec.target)
    named = ", ".join(f"{name}={value}" for name, value in best_member.point.items())
    paper = published_text(paper_rounds(best_member.run.spec, spec.target))
    lines = [*aligned(table, gap="   "), "", f"best     {named}{f'   ({paper})' if paper else ''}"]
    rates = over.get("learning_rate", [])
    if len(rates) > 2 and best_member.point["learning_rate"] in (min(rates), max(rates)):
        lines.append("note     the best learning rate is at the edge of the grid: widen it before believing it")
    return [*lines, f"time     {seconds_text(seconds)}", f"figure   {figure}", f"runs     {folder}"]


def _plain(trained: Sweep, folder: Path, figure: Path, seconds: float) -> dict[str, Any]:
    spec = trained.members[0].run.spec
    members = [
        {
            "run": str(member.run.folder),
            **member.point,
            "rounds": member.run.history.last_round,
            "rounds_to_target": None if spec.target is None else member.run.rounds_to(spec.target),
            "diverged": member.diverged,
            "model_sha256": member.run.model_sha256,
        }
        for member in trained.members
    ]
    best = trained.best(spec.target).run.folder
    return {"folder": str(folder), "best": str(best), "figure": str(figure), "seconds": seconds, "members": members}
