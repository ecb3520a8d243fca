"""The pictures and the report that a finished run gets, in its own folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stayput.cli.beside_paper import paper_rounds
from stayput.runs.spec import RunSpec

if TYPE_CHECKING:
    from stayput.runs.run_folder import RunFolder

REPORT = "report.html"


def write_pictures(run: RunFolder) -> tuple[list[Path], Path]:
    """The curve as .png and .svg and the report; returns their paths."""
    from stayput.report.curves import LabelledCurve, draw_curves

    spec = run.spec
    curve = LabelledCurve(label_of(spec), run.curve())
    figures = [
        draw_curves([curve], run.path / name, metric=spec.metric, target=spec.target, title=spec.task)
        for name in ("curve.png", "curve.svg")
    ]
    return figures, write_page(run, run.path / REPORT)


def write_page(run: RunFolder, path: Path) -> Path:
    """The report of a run as one HTML file."""
    from stayput.report.html import write_report

    return write_report(run, path, published=paper_rounds(run.spec))


def label_of(spec: RunSpec) -> str:
    """What a run's curve is called: its algorithm and what the paper's tables vary."""
    algorithm = spec.algorithm
    letters = {"client_fraction": "C", "local_epochs": "E", "batch_size": "B", "learning_rate": "η"}
    settings = [f"{letter}={short(algorithm[name])}" for name, letter in letters.items() if name in algorithm]
    return f"{algorithm['name']} {', '.join(settings)}, {partition_name(spec)}"


def partition_name(spec: RunSpec) -> str:
    """`iid`, or `unbalanced over iid`."""
    name = str(spec.partition["name"])
    return f"{name} over {spec.partition['over']['name']}" if "over" in spec.partition else name


def short(value: object) -> str:
    """A setting's value; a schedule as the command line writes it."""
    if not isinstance(value, dict):
        return str(value)
    entries = sorted((int(start), entry) for start, entry in value.items())
    return ",".join(str(entry) if start == 1 else f"{start}:{entry}" for start, entry in entries)
