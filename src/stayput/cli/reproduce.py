"""`stayput reproduce`: the tables and figures of the paper, measured and put beside the paper's numbers."""

from __future__ import annotations

import json as json_module
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stayput.cli import flags
from stayput.cli.grids import whole_numbers
from stayput.cli.interruption import Terminated, exit_code_of
from stayput.cli.reproduce_progress import ReproduceProgress
from stayput.cli.wording import aligned, answer, say
from stayput.errors import BudgetSpent, DataError, InvalidSetting
from stayput.report.wording import plural, seconds_text

if TYPE_CHECKING:
    from stayput.paper.measuring import Measurer
    from stayput.paper.planning import Work

LIST, PAGE = "list", "page"
WHAT_IS_MEASURED = "What is measured"

What = Annotated[
    list[str],
    typer.Argument(
        metavar="WHAT...",
        help="table1, table2-cnn, table2-lstm, table3, table4, figure1 to figure10, all; list; or page.",
        show_default=False,
    ),
]
Seeds = Annotated[str, typer.Option(help="Seeds of the runs, 0,1,2 or 0:4:5.", rich_help_panel=WHAT_IS_MEASURED)]
Grid = Annotated[
    int,
    typer.Option(
        help="Learning rates of a cell, each 10^(1/6) times the one before.", rich_help_panel=WHAT_IS_MEASURED
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        help="Time to spend, such as 90s, 25m, 2h; the same command goes on later.", rich_help_panel=WHAT_IS_MEASURED
    ),
]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="The short version: few cells, few examples.", rich_help_panel=WHAT_IS_MEASURED),
]
Folder = Annotated[Path, typer.Option("--results", help="The folder of measured cells.", rich_help_panel=flags.OUTPUT)]
Output = Annotated[Path, typer.Option("--output", "-o", help="page: the file to write.", rich_help_panel=flags.OUTPUT)]


def reproduce(
    what: What,
    *,
    seeds: Seeds = "0",
    grid: Grid = 11,
    budget: Budget = None,
    quick: Quick = False,
    device: flags.Device = None,
    precision: flags.Precision = None,
    data_dir: flags.DataDir = None,
    folder: Folder = Path("results"),
    output: Output = Path("docs/paper.md"),
    json: flags.AsJson = False,
    quiet: flags.Quiet = None,
) -> None:
    """Measure tables and figures of the paper, and put their numbers beside the paper's.

    Every cell is a small file in --results, so what one machine has measured is added to another's by copying. What is
    there is not measured again; an interruption or a spent budget loses nothing. `list` says what there is to do,
    `page` writes docs/paper.md from the files.

    Example: stayput reproduce table4 --grid 5 --budget 25m
    """
    from stayput.paper.measuring import Measurer
    from stayput.paper.results import Results
    from stayput.paper.workshop import Workshop

    started = time.monotonic()
    deadline = None if budget is None else started + seconds_of_budget(budget)
    if what == [PAGE]:
        _write_page(Results(folder), output)
        return
    if grid < 1:
        raise InvalidSetting(f"grid={grid}: must be a number of learning rates, 1 or more (the paper's is 11 to 13)")
    progress = ReproduceProgress(quiet=bool(quiet))
    workshop = Workshop(device or "cpu", precision or "float32", data_dir, progress.on_download)
    results = Results(folder / "quick" if quick else folder)
    from stayput.paper.planning import QUICK_GRID

    measurer = Measurer(
        results, workshop, QUICK_GRID if quick else grid, deadline, progress.on_standings, progress.on_note
    )
    seed_numbers = whole_numbers("seeds", seeds)
    if what[0] == LIST:
        if quick:
            raise InvalidSetting("quick: changes nothing of a list (leave out --quick)")
        _list(what[1:] or ["all"], measurer, seed_numbers, as_json=json)
        return
    _measure_and_tell(what, measurer, seed_numbers, progress, quick=quick, as_json=json)


def seconds_of_budget(text: str) -> float:
    """`25m` in seconds."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "m")
    try:
        seconds = float(number) * units[unit]
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise InvalidSetting(f"budget={text!r}: must be a time such as 90s, 25m or 2h")
    return seconds


def _measure_and_tell(
    what: list[str],
    measurer: Measurer,
    seeds: list[int],
    progress: ReproduceProgress,
    *,
    quick: bool,
    as_json: bool,
) -> None:
    from stayput.paper.catalogue import named
    from stayput.paper.measuring import BudgetSpentError
    from stayput.paper.planning import planned

    names = named(what)
    _require_room(measurer.results.folder)
    works = planned(names, quick=quick)
    absent: list[str] = []
    done = 0
    ended = ""
    try:
        for number, work in enumerate(works, start=1):
            progress.begin(number, len(works), work)
            try:
                for seed in seeds:
                    _measure(work, measurer, seed, quick=quick)
            except DataError as error:
                progress.on_note(f"{work.label}: left out: {error}")
                absent.append(work.label)
                continue
            done += 1
    except BudgetSpentError:
        ended = "budget"
    except (KeyboardInterrupt, Terminated) as error:
        say("interrupted; what was measured is kept, and the same command goes on")
        raise typer.Exit(exit_code_of(error)) from None
    finally:
        progress.close()
    _tell(names, works, measurer, done, quick=quick, as_json=as_json)
    if absent:
        raise DataError(f"{plural(len(absent), 'cell')} left out, for want of data: {absent[0]}, ... (see above)")
    if ended:
        raise BudgetSpent(
            f"the budget is spent after {done} of {plural(len(works), 'cell')}; what was measured is in "
            f"{measurer.results.folder} (the same command goes on)"
        )


def _require_room(folder: Path) -> None:
    """Refuse a folder that nothing can be written into before anything is computed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidSetting(
            f"results={str(folder)!r}: cannot be written ({error.strerror or error}; choose another --results)"
        ) from error


def _measure(work: Work, measurer: Measurer, seed: int, *, quick: bool) -> None:
    from stayput.paper import figure1

    if work.cell is not None:
        measurer.measure(work.cell, seed)
    elif figure1.read(measurer.results.folder, seed, quick=quick) is None:
        measurer.refuse_if_late()
        figure1.measure(measurer.workshop, measurer.results.folder, seed, quick=quick)


def _tell(names: list[str], works: list[Work], measurer: Measurer, done: int, *, quick: bool, as_json: bool) -> None:
    from stayput.paper.catalogue import TABLES
    from stayput.paper.tabulating import places
    from stayput.paper.telling import quick_lines, table_lines

    results = measurer.results
    if as_json:
        rows = [
            place.to_json(TABLES[name]) for name in names if name in TABLES for place in places(TABLES[name], results)
        ]
        plain: dict[str, Any] = {"quick": quick, "cells": len(works), "done": done, "folder": str(results.folder)}
        answer(json_module.dumps({**plain, "places": [] if quick else rows}))
        return
    if quick:
        answer("QUICK: few examples, few rounds, low targets. These numbers only show that everything works.")
        for line in quick_lines(works, results):
            answer(line)
        return
    for name in names:
        if name in TABLES:
            for line in table_lines(TABLES[name], results):
                answer(line)
            answer()
    answer(f"cells    {results.folder}")


def _list(names: list[str], measurer: Measurer, seeds: list[int], *, as_json: bool) -> None:
    from stayput.paper.catalogue import TITLES, named
    from stayput.paper.planning import calibrated_speed, measured_speeds, planned, runs_in, seconds_of

    measured = measured_speeds(measurer.results, measurer.workshop.device)
    speeds: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    for name in named(names):
        works = planned([name])
        runs = [runs_in(work, measurer, seeds) for work in works]
        for work in works:
            if work.cell is not None and work.cell.task not in speeds:
                task = work.cell.task
                speed = measured.get(task) or calibrated_speed(work.cell, measurer.workshop)
                speeds |= {} if speed is None else {task: speed}
        times = [seconds_of(work, count, speeds) for work, count in zip(works, runs, strict=True)]
        known = [seconds for seconds in times if seconds is not None]
        rows.append(
            {
                "name": name,
                "title": TITLES[name],
                "cells": len(works),
                "runs_left": sum(runs),
                "seconds_left": sum(known) if len(known) == len(times) else None,
                "from": "measured cells" if any(w.cell and w.cell.task in measured for w in works) else "a calibration",
            }
        )
    if as_json:
        answer(json_module.dumps(rows))
        return
    table = [["", "cells", "runs left", "about", "judged by", ""]]
    for row in rows:
        seconds = row["seconds_left"]
        table.append(
            [row["name"], str(row["cells"]), str(row["runs_left"]), seconds_text(seconds), row["from"], row["title"]]
        )
    for line in aligned(table, gap="   "):
        answer(line)


def _write_page(results: Any, output: Path) -> None:  # noqa: ANN401 - Results, imported late
    from stayput.paper.page import write_page

    try:
        written = write_page(results, output)
    except OSError as error:
        raise InvalidSetting(f"output={str(output)!r}: cannot be written ({error.strerror or error})") from error
    for path in written:
        say(f"wrote {path}")
