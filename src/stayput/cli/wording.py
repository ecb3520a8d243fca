"""How the command line speaks: sentences on stderr, results on stdout, tables with aligned columns."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence


def say(sentence: str) -> None:
    """A sentence to the user, on stderr: stdout is for results."""
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201 - a command line speaks


def note(text: str) -> None:
    """Something the user should know, on stderr."""
    say(f"note: {text}")


def answer(text: str = "") -> None:
    """A result, on stdout."""
    print(text, flush=True)  # noqa: T201 - a command line speaks


def aligned(rows: Iterable[Sequence[str]], *, indent: str = "", gap: str = "  ") -> list[str]:
    """Rows as lines with aligned columns."""
    table = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        (indent + gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
        for row in table
    ]
