"""Tables of numbers as one HTML page: the paper's beside ours, as `stayput reproduce` measured them.

Which numbers these are is the caller's to say; here they become a page that needs nothing else, as a report does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stayput._version import __version__
from stayput.report import page
from stayput.runs.durable_files import write_whole


@dataclass(frozen=True)
class NumberTable:
    """A table, and what stands above it."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def write_tables(
    title: str, about: str, sections: Sequence[tuple[str, Sequence[NumberTable]]], path: Path | str
) -> Path:
    """Write the page and return its path; a section is a title and its tables."""
    parts = [page.heading(title, about, "", ended=True)]
    for name, tables in sections:
        inner = [f"{page.subtitle(table.title)}{page.table(table.header, table.rows)}" for table in tables]
        parts.append(page.section(name, *inner))
    parts.append(f"<footer>Written by stayput {__version__}</footer>")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page.page(f"{title} - stayput report", parts).encode())
    return path
