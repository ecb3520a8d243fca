"""Put measured runs and benchmarks into the documentation.

    python benchmarks/publish.py keep RUN NAME    a run's folder as docs/results/NAME.json: spec, machine, curve
    python benchmarks/publish.py page             docs/results.md and docs/images/curves.png, from those files

The page's numbers come from the files, and a test holds the page to them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from stayput.cli.beside_paper import paper_rounds
from stayput.core.history import Curve
from stayput.report.curves import LabelledCurve, draw_curves
from stayput.report.wording import percent, published_text, rounds_text
from stayput.runs.run_folder import RunFolder
from stayput.runs.spec import RunSpec

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "docs" / "results"
BENCHMARKS = ROOT / "benchmarks" / "results"
RAW = ("all_seconds", "processor_seconds", "product_rates")
"""Columns that only the files have: every single measurement."""


def keep(folder: str, name: str) -> None:
    """A run as one small file."""
    run = RunFolder(folder)
    curve = run.curve()
    seconds = [report.seconds for report in run.history().reports[1:]]
    kept = {
        "spec": run.spec.to_json(),
        "machine": run.environment["machine"],
        "versions": run.environment["versions"],
        "threads": run.environment["threads"],
        "median_seconds_per_round": round(float(np.median(seconds)), 4),
        "rounds": curve.rounds.tolist(),
        "values": [round(value, 6) for value in curve.values.tolist()],
    }
    RUNS.mkdir(exist_ok=True)
    (RUNS / f"{name}.json").write_text(json.dumps(kept) + "\n", encoding="utf-8")


def kept_runs() -> dict[str, dict[str, Any]]:
    """Every kept run by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RUNS.glob("*.json"))}


def page() -> str:
    """The page, from the files."""
    lines = [
        "# Results",
        "",
        "Every number here was written by `benchmarks/publish.py page` from files that runs and benchmarks left:",
        "[runs](results/) and [benchmarks](../benchmarks/results/).",
        "",
        "![Test accuracy over rounds](images/curves.png)",
        "",
        "## Rounds to the paper's targets",
        "",
        "C=0.1, 100 clients. Each row is one run; where several learning rates were tried, each is a row.",
        "",
        "| task | partition | E | B | η | target | rounds | the paper | engine | s/round | machine |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_run_row(run) for run in kept_runs().values()]
    for path in sorted(BENCHMARKS.glob("*.json")):
        lines += _benchmark(path)
    return "\n".join([*lines, ""])


def _run_row(run: dict[str, Any]) -> str:
    spec = RunSpec.from_json(run["spec"], source="docs/results")
    settings = spec.algorithm
    reached = _curve(run).rounds_to(spec.target) if spec.target else None
    paper = published_text(paper_rounds(spec, spec.target)).removeprefix("paper: ")
    cells = [
        spec.task,
        spec.partition["name"],
        settings["local_epochs"],
        settings["batch_size"],
        f"{settings['learning_rate']:.3g}",
        percent(spec.target or 0),
        rounds_text(reached),
        paper,
        spec.engine,
        f"{run['median_seconds_per_round']:.3g}",
        run["machine"].get("accelerator", run["machine"]["processor"]),
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _benchmark(path: Path) -> list[str]:
    found = json.loads(path.read_text(encoding="utf-8"))
    where = found["machine"].get("accelerator", f"{found['machine']['processor']}, {found['machine']['cores']} cores")
    rows = found["results"]
    columns = [column for column in dict.fromkeys(key for row in rows for key in row) if column not in RAW]
    shown = [[_shown(row.get(column)) for column in columns] for row in rows]
    return [
        "",
        f"## Benchmark {path.stem}",
        "",
        f"On {where}, torch {found['versions']['torch']}, precision {found.get('precision', 'float32')}.",
        "",
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(row)} |" for row in shown),
    ]


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return " to ".join(map(_shown, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _curve(run: dict[str, Any]) -> Curve:
    return Curve(np.array(run["rounds"]), np.array(run["values"]))


def figure(path: Path) -> None:
    """The runs of the 2NN on a CPU: the two that the paper's tables begin with."""
    names = {"mnist-2nn-iid-cpu": "IID, E=1, B=10", "mnist-2nn-shards-cpu": "two digits a client, E=10, B=10"}
    runs = kept_runs()
    curves = [LabelledCurve(label, _curve(runs[name])) for name, label in names.items()]
    draw_curves(curves, path, metric="accuracy", target=0.97, title="FedAvg on MNIST, 2NN, 10 of 100 clients a round")


def main(arguments: list[str]) -> int:
    """Keep a run, or write the page."""
    match arguments:
        case ["keep", folder, name]:
            keep(folder, name)
        case ["page"]:
            (ROOT / "docs" / "images").mkdir(exist_ok=True)
            figure(ROOT / "docs" / "images" / "curves.png")
            (ROOT / "docs" / "results.md").write_text(page(), encoding="utf-8")
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
