"""`stayput report`: a run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stayput.cli import flags
from stayput.cli.run_names import find_run
from stayput.cli.wording import answer

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="The file to write (default: report.html in the run's folder)."),
]


def report(run: flags.RunName, output: Output = None) -> None:
    """Write a run's report as one HTML file that needs nothing else."""
    from stayput.cli.pictures import REPORT, write_page

    folder = find_run(run)
    answer(str(write_page(folder, folder.path / REPORT if output is None else output)))
