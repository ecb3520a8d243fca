"""How `run` and `resume` close: figures and report into the run's folder, the outcome on stdout."""

from __future__ import annotations

import time
from pathlib import Path

from stayput.cli.beside_paper import paper_rounds
from stayput.cli.outcome import Outcome, json_line
from stayput.cli.settings import Request
from stayput.cli.wording import answer


def tell(folder: Path, asked: Request, started: float) -> None:
    """Print a finished run's outcome, after writing what shows it."""
    from stayput.runs.run_folder import RunFolder

    run_folder = RunFolder(folder)
    figures: list[Path] = []
    page: Path | None = None
    if asked.report:
        from stayput.cli.pictures import write_pictures

        figures, page = write_pictures(run_folder)
    outcome = Outcome(
        folder=folder,
        spec=asked.spec,
        result=run_folder.result or {},
        paper=paper_rounds(asked.spec, asked.spec.target),
        figures=figures,
        report=page,
        seconds=time.monotonic() - started,
    )
    if asked.json:
        answer(json_line(outcome.to_json()))
    else:
        for line in outcome.lines():
            answer(line)
    if asked.require_target:
        outcome.require_target()
