"""`stayput show`: one run, in the terminal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stayput.cli import flags
from stayput.cli.beside_paper import paper_rounds
from stayput.cli.outcome import json_line
from stayput.cli.run_names import find_run
from stayput.cli.wording import aligned, answer
from stayput.report.settings_text import short
from stayput.report.wording import published_text, rounds_text, seconds_text, value_text

if TYPE_CHECKING:
    from stayput.core.history import Curve
    from stayput.runs.run_folder import RunFolder
    from stayput.runs.spec import RunSpec

Partition = Annotated[
    bool,
    typer.Option("--partition", help="Draw how labels are spread over clients, and write partition.png."),
]
Targets = Annotated[
    list[float] | None,
    typer.Option(help="Count rounds to this value (default: the run's target); may be repeated."),
]


def show(
    run: flags.RunName,
    target: Targets = None,
    metric: flags.Metric = None,
    partition: Partition = False,
    json: flags.AsJson = False,
) -> None:
    """Show a run: its settings, its curve, the rounds to its target beside the paper's, its clients."""
    folder = find_run(run)
    spec = folder.spec
    curve = folder.curve(metric)  # refuses a metric there is not
    name = spec.metric if metric is None else metric
    targets = target or ([] if spec.target is None or name != spec.metric else [spec.target])
    if json:
        answer(json_line(_as_data(folder, name, curve, targets)))
        return
    for line in [*_heading(folder), "", *_settings(spec), "", *_curve(curve, name, targets)]:
        answer(line)
    for line in _rounds_to(spec, name, curve, targets):
        answer(line)
    if partition:
        _show_partition(folder)


def _heading(folder: RunFolder) -> list[str]:
    """Where it is and how far."""
    spec, result, history = folder.spec, folder.result, folder.history()
    environment = folder.environment
    seconds = seconds_text(sum(report.seconds + report.evaluation_seconds for report in history.reports))
    if result is not None:
        state = f"ended after round {history.last_round} of {spec.rounds}, {seconds}"
    else:
        state = f"not ended, at round {history.last_round} of {spec.rounds} (go on: stayput resume {folder.path})"
    clients = f"{environment.get('num_clients', '?'):,} clients, {environment.get('num_examples', '?'):,} examples"
    return [f"{folder.path}: {spec.task}, {state}", f"{clients}, {_where(environment)}"]


def _where(environment: Mapping[str, Any]) -> str:
    machine, versions = environment.get("machine", {}), environment.get("versions", {})
    device = machine.get("accelerator") or machine.get("processor", "unknown")
    return f"computed with torch {versions.get('torch', '?')} on {device}"


def _settings(spec: RunSpec) -> list[str]:
    """What was asked for."""
    groups = {
        "algorithm": spec.algorithm,
        "partition": {**spec.partition, "seed": spec.partition_seed},
        "run": {
            "seed": spec.seed,
            "engine": spec.engine,
            "device": spec.device,
            "threads": spec.threads or "torch's choice",
            "precision": spec.precision,
        },
    }
    return aligned([(name, "  ".join(_entries(group))) for name, group in groups.items()])


def _entries(group: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in group.items():
        if isinstance(value, Mapping) and "name" in value:
            yield f"{prefix}{name}={value['name']}"
            yield from _entries({key: inner for key, inner in value.items() if key != "name"}, f"{prefix}{name}.")
        elif name == "name":
            yield str(value)
        else:
            yield f"{prefix}{name}={short(value)}"


def _curve(curve: Curve, metric: str, targets: list[float]) -> list[str]:
    from stayput.report.terminal_curve import curve_in_terminal

    width = min(shutil.get_terminal_size((80, 24)).columns, 100)
    drawn = curve_in_terminal(curve, metric=metric, target=targets[0] if targets else None, width=width)
    return [metric, *drawn.split("\n")]


def _rounds_to(spec: RunSpec, metric: str, curve: Curve, targets: list[float]) -> list[str]:
    rows = []
    for target in targets:
        paper = published_text(paper_rounds(spec, target)) if metric == spec.metric else ""
        reached = curve.rounds_to(target)
        mine = "not reached" if reached is None else rounds_text(reached)
        rows.append((f"rounds to {metric} {value_text(metric, target)}", mine, paper and f"({paper})"))
    if len(curve.values):
        rows.append((f"best {metric}", value_text(metric, float(curve.best_so_far()[-1])), ""))
        rows.append((f"latest {metric}", value_text(metric, float(curve.values[-1])), ""))
    return ["", *aligned(rows, gap="   ")] if rows else []


def _show_partition(folder: RunFolder) -> None:
    from stayput.report.partition_picture import draw_partition
    from stayput.report.partition_text import partition_in_terminal

    counts = folder.label_counts
    answer()
    if counts is None:
        answer("clients: labels were not counted (targets are no labels, or there are more than 10,000 clients)")
        return
    for line in partition_in_terminal(counts, min(shutil.get_terminal_size((80, 24)).columns, 100)).split("\n"):
        answer(line)
    answer(f"figure   {draw_partition(counts, folder.path / 'partition.png')}")


def _as_data(folder: RunFolder, metric: str, curve: Curve, targets: list[float]) -> dict[str, Any]:
    spec = folder.spec
    return {
        "run": str(folder.path),
        "spec": spec.to_json(),
        "environment": folder.environment,
        "result": folder.result,
        "last_round": folder.history().last_round,
        "metric": metric,
        "curve": {"rounds": curve.rounds.tolist(), "values": curve.values.tolist()},
        "rounds_to": [
            {
                "target": target,
                "rounds": curve.rounds_to(target),
                "paper": [{"rounds": cell.rounds, "table": cell.table} for cell in paper_rounds(spec, target)]
                if metric == spec.metric
                else [],
            }
            for target in targets
        ],
    }
