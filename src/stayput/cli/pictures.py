"""The pictures and the report that a finished run gets, in its own folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stayput.cli.beside_paper import paper_rounds

if TYPE_CHECKING:
    from stayput.runs.run_folder import RunFolder

REPORT = "report.html"


def write_pictures(run: RunFolder) -> tuple[list[Path], Path]:
    """The curve as .png and .svg and the report; returns their paths."""
    from stayput.report.curves import LabelledCurve, draw_curves
    from stayput.report.settings_text import label_of

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
