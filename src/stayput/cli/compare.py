"""`stayput compare`: several runs over each other, and a table of what sets them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stayput.cli import flags
from stayput.cli.beside_paper import paper_rounds
from stayput.cli.outcome import json_line
from stayput.cli.run_names import find_run
from stayput.cli.wording import aligned, answer
from stayput.report.settings_text import common_target, differing, told
from stayput.report.wording import rounds_text, value_text

if TYPE_CHECKING:
    from stayput.core.history import Curve
    from stayput.runs.run_folder import RunFolder
    from stayput.runs.spec import RunSpec

Runs = Annotated[
    list[str],
    typer.Argument(metavar="RUN RUN...", help="Runs' folders, or their names in runs/.", show_default=False),
]
Output = Annotated[Path, typer.Option("--output", "-o", help="The figure to write, a .png or .svg file.")]
Target = Annotated[
    float | None,
    typer.Option(help="Count rounds to this value (default: the runs' target, if they share one)."),
]


def compare(
    runs: Runs,
    output: Output = Path("compare.png"),
    metric: flags.Metric = None,
    target: Target = None,
    json: flags.AsJson = False,
) -> None:
    """Draw the curves of several runs into one figure, and list the settings that differ and the outcomes."""
    from stayput.report.curves import LabelledCurve, draw_curves

    folders = [find_run(name) for name in runs]
    specs = [folder.spec for folder in folders]
    name = specs[0].metric if metric is None else metric
    curves = [folder.curve(name) for folder in folders]
    goal = common_target(specs, name) if target is None else target
    settings = differing(specs)
    labels = _labels(folders, settings)
    figure = draw_curves(
        [LabelledCurve(label, curve) for label, curve in zip(labels, curves, strict=True)],
        output,
        metric=name,
        target=goal,
    )
    if json:
        answer(json_line(_as_data(folders, settings, curves, metric=name, target=goal, figure=figure)))
        return
    for line in aligned(_table(folders, settings, curves, metric=name, target=goal), gap="   "):
        answer(line)
    answer()
    answer(f"figure   {figure}")


def _labels(folders: Sequence[RunFolder], settings: Mapping[str, Sequence[str]]) -> list[str]:
    """What the curves are called: the run, and what it trains differently."""
    return [", ".join([folder.name, *told(settings, position)]) for position, folder in enumerate(folders)]


def _table(
    folders: Sequence[RunFolder],
    settings: Mapping[str, Sequence[str]],
    curves: Sequence[Curve],
    *,
    metric: str,
    target: float | None,
) -> list[list[str]]:
    goal = [] if target is None else [f"rounds to {value_text(metric, target)}", "the paper"]
    rows = [["run", *settings, *goal, f"best {metric}", "rounds", metric]]
    from stayput.report.terminal_curve import sparklines

    drawn = sparklines(curves, target=target, width=20)
    for position, (folder, curve) in enumerate(zip(folders, curves, strict=True)):
        row = [folder.name, *(values[position] for values in settings.values())]
        if target is not None:
            reached = curve.rounds_to(target)
            row += [rounds_text(reached), _paper(folder.spec, metric, target)]
        best = float(curve.best_so_far()[-1]) if len(curve.values) else None
        rows.append([*row, value_text(metric, best), str(folder.history().last_round), drawn[position]])
    return rows


def _paper(spec: RunSpec, metric: str, target: float) -> str:
    cells = paper_rounds(spec, target) if metric == spec.metric else []
    return " or ".join(rounds_text(cell.rounds) for cell in cells)


def _as_data(
    folders: Sequence[RunFolder],
    settings: Mapping[str, Sequence[str]],
    curves: Sequence[Curve],
    *,
    metric: str,
    target: float | None,
    figure: Path,
) -> dict[str, Any]:
    return {
        "metric": metric,
        "target": target,
        "figure": str(figure),
        "runs": [
            {
                "run": str(folder.path),
                "differs_in": {name: values[position] for name, values in settings.items()},
                "rounds_to_target": None if target is None else curve.rounds_to(target),
                "best": float(curve.best_so_far()[-1]) if len(curve.values) else None,
                "rounds": folder.history().last_round,
            }
            for position, (folder, curve) in enumerate(zip(folders, curves, strict=True))
        ],
    }
