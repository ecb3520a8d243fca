"""The report: one HTML file to keep, send and print, of one run or of several.

It reads runs' folders alone, so it can be written while runs go on, or years later; the paper's numbers are the
caller's to pass in. Of several runs, those that cannot be read are named with the reason and the others are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stayput._version import __version__
from stayput.errors import RunNotFound
from stayput.report import page
from stayput.report.comparison import Comparison
from stayput.report.figure_files import save_figure
from stayput.report.run_facts import Published, RunFacts, Unreadable, read_all, read_facts
from stayput.report.run_sections import Picture, run_body, run_pictures, state_of
from stayput.report.wording import PublishedComparison, plural, printable
from stayput.runs.durable_files import write_whole
from stayput.runs.run_folder import RunFolder

_IN_FULL = 3
"""Up to so many runs are each reported in full beneath their comparison; of more, the best is."""


@dataclass(frozen=True)
class Written:
    """A report on several runs, and the runs that are not in it."""

    path: Path
    broken: Sequence[Unreadable]


def write_report(
    run: RunFolder,
    path: Path | str | None = None,
    *,
    published: Sequence[PublishedComparison] = (),
    figures: Path | None = None,
) -> Path:
    """Write a run's report and return its path: `report.html` in the run's folder if none is given.

    A run that has not ended is reported as far as it is. `published` holds what the paper prints for the run's
    setting, if it does. With `figures`, every figure is also written into that folder, as PNG and as SVG.
    """
    known = read_facts(run, lambda _spec: published)
    return _write([known], [], run.path / "report.html" if path is None else Path(path), "", figures)


def write_report_on(
    paths: Sequence[Path],
    path: Path | str,
    *,
    title: str = "",
    published: Published | None = None,
    figures: Path | None = None,
) -> Written:
    """Write one report on the runs in these folders; those that cannot be read are named in it."""
    if not paths:
        raise RunNotFound("nothing to report: no runs were named")
    readable, broken = read_all(paths, published)
    return Written(_write(readable, broken, Path(path), title, figures), broken)


def _write(
    runs: Sequence[RunFacts], broken: Sequence[Unreadable], path: Path, title: str, figures: Path | None
) -> Path:
    several = len(runs) > 1 or bool(broken)
    shown, parts = _several(runs, broken, title) if several else _single(runs[0])
    if figures is not None:
        for name, picture in shown.items():
            for suffix in (".png", ".svg"):
                save_figure(picture.draw(), figures / f"{name}{suffix}")
    name = (title or plural(len(runs), "run")) if several else (printable(runs[0].name) or "run")
    text = page.page(f"{name} - stayput report", [*parts, f"<footer>Written by stayput {__version__}</footer>"])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())
    return path


def _single(run: RunFacts) -> tuple[dict[str, Picture], list[str]]:
    pictures = run_pictures(run)
    return pictures, [_heading(run), *run_body(run, pictures)]


def _several(
    runs: Sequence[RunFacts], broken: Sequence[Unreadable], title: str
) -> tuple[dict[str, Picture], list[str]]:
    ended = sum(run.result is not None for run in runs)
    tasks = ", ".join(dict.fromkeys(printable(run.spec.task) for run in runs))
    state = "All have ended." if ended == len(runs) else f"{ended} of them have ended, {len(runs) - ended} have not."
    parts = [
        page.heading(
            printable(title) or plural(len(runs), "run"),
            f"{plural(len(runs), 'run')}. {state}",
            tasks,
            ended=ended == len(runs),
        )
    ]
    if broken:
        parts.append(page.warning("Not shown", [(printable(each.name), printable(each.reason)) for each in broken]))
    comparison = Comparison(runs)
    pictures = comparison.pictures()
    parts += comparison.body(pictures)
    for place in range(len(runs)) if len(runs) <= _IN_FULL else [comparison.best]:
        own = run_pictures(runs[place], f"run{place}-")
        pictures |= {f"{file_name(runs[place].name)}-{name}": picture for name, picture in own.items()}
        parts += [f'<div class="run">{_heading(runs[place], level=2)}', *run_body(runs[place], own), "</div>"]
    return pictures, parts


def file_name(name: str) -> str:
    """A run's name as part of a file's name."""
    return "".join(c if c.isalnum() or c in "-_=.," else "_" for c in name)[:80]


def _heading(run: RunFacts, *, level: int = 1) -> str:
    algorithm = printable(str(run.spec.algorithm.get("name", "")))
    partition = printable(str(run.spec.partition.get("name", "")))
    about = f"{printable(run.spec.task)}, {algorithm}, {partition} partition, seed {run.spec.seed}"
    name = printable(run.name) or "run"
    return page.heading(name, state_of(run), about, ended=run.result is not None, level=level)
