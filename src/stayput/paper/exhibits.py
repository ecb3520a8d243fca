"""What the paper shows: tables of rounds to a target, and figures. The shapes that every exhibit is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stayput.paper.cells import Cell


@dataclass(frozen=True)
class Entry:
    """A place in a table."""

    printed: int | None
    """The paper's rounds, None for its dash."""
    target: float
    cells: tuple[Cell, ...]
    """What is trained for it; the best of several, where the paper tuned more than the learning rate."""
    paper_rounds_a_round: int = 1
    """How many of the paper's rounds one of ours is."""


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    labels: tuple[str, ...]
    """What stands before the rounds, such as C, or E and B."""
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Section:
    """Rows with one baseline, the first of them: speedups are relative to it."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """A table of the paper."""

    name: str
    title: str
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All that is trained for it, each cell once."""
        return once(
            cell for section in self.sections for row in section.rows for entry in row.entries for cell in entry.cells
        )


@dataclass(frozen=True)
class Line:
    """A curve of a figure."""

    label: str
    cell: Cell
    work_a_round: float = 1.0
    """What a round is on the horizontal axis, where that is not rounds."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    lines: tuple[Line, ...]
    target: float | None = None
    log: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure of the paper made of learning curves."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    monotone: bool = True
    """The best value so far, for the best rate at each round; otherwise each curve as it is."""
    x_label: str = "communication rounds"

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All that is trained for it, each cell once."""
        return once(line.cell for panel in self.panels for line in panel.lines)


def once(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Each cell once, in the order of their first appearance."""
    found: dict[str, Cell] = {}
    for cell in cells:
        found.setdefault(f"{cell.key} {cell.rounds} {cell.target} {cell.rates}", cell)
    return tuple(found.values())


def updates_text(epochs: int, batch_size: object, examples_a_client: float) -> str:
    """u = E·n/(K·B), as the paper prints it."""
    u = epochs if batch_size == "all" else epochs * examples_a_client / float(str(batch_size))
    return f"{u:.0f}" if abs(u - round(u)) < 0.05 else f"{u:.1f}"


def named(batch_size: object) -> str:
    """B as the paper writes it."""
    return "∞" if batch_size == "all" else str(batch_size)
