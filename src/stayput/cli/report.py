"""`stayput report`: runs as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stayput.cli.beside_paper import measured_tables, paper_rounds
from stayput.cli.run_names import find_runs
from stayput.cli.wording import answer, say

Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...",
        help="Runs' folders, or their names in runs/; a sweep's folder stands for its runs, and a folder of "
        "`stayput reproduce` for the paper's tables beside ours.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="The file to write (default: report.html in the run's folder, or in a sweep's)."
    ),
]
Figures = Annotated[
    Path | None,
    typer.Option(help="A folder to write every figure into too, as PNG and SVG.", show_default=False),
]


def report(runs: Runs, output: Output = None, figures: Figures = None) -> None:
    """Write the report of a run, or of several, as one HTML file that needs nothing else."""
    from stayput.cli.pictures import REPORT
    from stayput.report.html import write_report, write_report_on
    from stayput.report.number_tables import write_tables
    from stayput.runs.run_folder import RunFolder

    if len(runs) == 1 and (sections := measured_tables(Path(runs[0]))):
        about = "Rounds to each target, the paper's and ours, as measured by stayput reproduce."
        written_to = Path(runs[0]) / REPORT if output is None else output
        answer(str(write_tables("The paper, measured", about, sections, written_to)))
        return
    paths = find_runs(runs)
    if len(paths) == 1:
        folder = RunFolder(paths[0])
        output = folder.path / REPORT if output is None else output
        answer(str(write_report(folder, output, published=paper_rounds(folder.spec), figures=figures)))
        return
    parents = {path.parent for path in paths}
    together = parents.pop() if len(parents) == 1 else None
    if output is None:
        output = Path(REPORT) if together is None or len(runs) > 1 else together / REPORT
    title = together.resolve().name if together is not None and len(runs) == 1 else ""
    written = write_report_on(paths, output, title=title, published=paper_rounds, figures=figures)
    answer(str(written.path))
    for entry in written.broken:
        say(f"note: not shown: {entry.reason}")
