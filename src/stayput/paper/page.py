"""`docs/paper.md`, generated from measured cells: every number on it comes from a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stayput.paper import figure1
from stayput.paper.catalogue import FIGURES, TABLES, TITLES
from stayput.paper.claims import FAILS, HOLDS, OPEN, claims
from stayput.paper.drawing import draw, draw_interpolation
from stayput.paper.results import Results
from stayput.paper.tabulating import MEASURED, Place, places, share_within
from stayput.paper.telling import markdown
from stayput.report.wording import plural, seconds_text

IMAGES = "images/paper"
GOAL = 1.15
FULL_GRID = 11


BEGINNING = """\
# The paper, measured

Written by `stayput reproduce page` from the files in `results/`; no number here is typed. The paper is McMahan et al.
2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data".

Rounds are counted as the paper counts them: each curve of test accuracy made monotone, linear interpolation between
evaluations, the best learning rate of a grid with steps of 10^(1/6), widened while the best is at an edge. A dash is a
target that was not reached in the allowed rounds. A number is one seed's, or the median of several. Beside η stands its
decay a round, where there is one. The 2NN sees pixels in [-0.5, 0.5]
([decision 0014](decisions/0014-the-papers-2nn.md)).
"""


def write_page(results: Results, output: Path) -> list[Path]:
    """Write the page and its figures; returns what was written."""
    images = output.parent / IMAGES
    written = []
    found = figure1.read(results.folder, 0, quick=False)
    if found is not None:
        written.append(draw_interpolation(found, images / f"{figure1.NAME}.png"))
    for name, figure in FIGURES.items():
        path = draw(figure, results, images / f"{name}.png")
        written += [] if path is None else [path]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page(results), encoding="utf-8")
    return [*written, output]


def page(results: Results) -> str:
    """The page as text."""
    return "\n".join(
        [*_beginning(results), *_claims(results), *_tables(results), *_figures(results), *_origin(results)]
    )


def _beginning(results: Results) -> Iterator[str]:
    yield BEGINNING
    every = [place for table in TABLES.values() for place in places(table, results)]
    measured = [place for place in every if place.found.state == MEASURED]
    wide = [place for place in measured if place.found.grid >= FULL_GRID]
    yield "| | |"
    yield "|---|---|"
    yield f"| places of tables with a number | {len(measured)} of {len(every)} |"
    yield _share("our rounds at most 1.15 times the paper's", measured)
    yield _share(f"the same, of those with {FULL_GRID} rates or more", wide)
    yield ""


def _share(name: str, of: list[Place]) -> str:
    within, both = share_within(of, GOAL)
    return f"| {name} | {within} of {both} |"


def _claims(results: Results) -> Iterator[str]:
    yield "## What the text claims"
    yield ""
    judged = claims(results)
    counts = {verdict: sum(claim.verdict == verdict for claim in judged) for verdict in (HOLDS, FAILS, OPEN)}
    yield ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + "."
    yield ""
    yield "| the paper | on our runs | judged by | our numbers |"
    yield "|---|---|---|---|"
    for claim in judged:
        yield f"| {claim.text} | {claim.verdict} | {claim.rule} | {claim.evidence} |"
    yield ""


def _tables(results: Results) -> Iterator[str]:
    for table in TABLES.values():
        yield f"## {table.title}"
        yield from markdown(table, results)
        yield ""


def _figures(results: Results) -> Iterator[str]:
    for name, title in TITLES.items():
        if name in TABLES:
            continue
        yield f"## {title}"
        yield ""
        yield from [f"![{title}]({IMAGES}/{name}.png)"] if _is_drawn(name, results) else ["Not run."]
        if name in FIGURES:
            lines = [(panel, line) for panel in FIGURES[name].panels for line in panel.lines]
            absent = [f"{panel.title}: {line.label}" for panel, line in lines if not results.seeds(line.cell)]
            if absent and len(absent) < len(lines):
                yield ""
                yield f"Not run: {'; '.join(absent)}."
        yield ""


def _is_drawn(name: str, results: Results) -> bool:
    if name == figure1.NAME:
        return figure1.read(results.folder, 0, quick=False) is not None
    return any(results.seeds(cell) for cell in FIGURES[name].cells)


def _origin(results: Results) -> Iterator[str]:
    yield "## Where the numbers come from"
    yield ""
    files = results.all()
    groups: dict[tuple[str, ...], list[float]] = {}
    for result in files:
        about = result.provenance
        machine = about["machine"]
        where = machine.get("accelerator", f"{machine['processor']}, {machine['cores']} cores")
        source = (about["commit"] or about["source_sha256"])[:10]
        key: tuple[str, ...] = (where, about["versions"]["torch"], about["precision"], source)
        groups.setdefault(key, []).append(about["seconds"])
    yield f"{plural(len(files), 'file')}, each with its machine, versions and seconds."
    yield ""
    yield "| machine | torch | precision | commit or source | files | time |"
    yield "|---|---|---|---|---|---|"
    for key, seconds in sorted(groups.items()):
        yield f"| {' | '.join(key)} | {len(seconds)} | {seconds_text(sum(seconds))} |"
    yield ""
