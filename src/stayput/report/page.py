"""The parts an HTML report is put together from: page, tiles, tables, figures. Every text is escaped here.

The page is one file that fetches nothing: no scripts, no fonts, no style sheets, and a policy that forbids
them. It follows the reader's light or dark mode, prints in black on white, and is laid out for a phone as
for a desk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
$body
</main>
</body>
</html>
""")


def page(title: str, parts: Sequence[str]) -> str:
    """A whole HTML page; `parts` are HTML, in their order."""
    style = files("stayput.report").joinpath("page.css").read_text(encoding="utf-8")
    return _PAGE.substitute(title=escape(title), style=style, body="\n".join(part for part in parts if part))


def heading(title: str, state: str, about: str, *, ended: bool) -> str:
    """The top of the page: what it is, and whether it has ended."""
    mark = "state" if ended else "state open"
    return (
        f'<header><h1>{escape(title)}</h1>\n<p class="muted">{escape(about)}</p>\n'
        f'<p class="{mark}">{escape(state)}</p></header>'
    )


def tiles(entries: Sequence[tuple[str, str, str]]) -> str:
    """Headline numbers: name, value and a note for each."""
    cells = [
        f'<div class="tile"><div class="name">{escape(name)}</div><div class="value">{escape(value)}</div>'
        f'<div class="note">{escape(note)}</div></div>'
        for name, value, note in entries
    ]
    return f'<div class="tiles">{"".join(cells)}</div>'


def section(title: str, *parts: str) -> str:
    """A titled panel; `parts` are HTML."""
    return f"<section><h2>{escape(title)}</h2>\n" + "\n".join(parts) + "\n</section>"


def side_by_side(*parts: str) -> str:
    """Columns of panels beside each other where there is room, else one below the other."""
    columns = "".join(f"<div>{part}</div>" for part in parts)
    return f'<div class="pair">{columns}</div>'


def paragraph(text: str) -> str:
    """A text of its own."""
    return f"<p>{escape(text)}</p>"


def picture(wide: str, narrow: str, caption: str) -> str:
    """A figure drawn twice, for a desk and for a phone, so that its text has the right size on both."""
    return (
        f'<figure><div class="wide">{wide}</div><div class="narrow">{narrow}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def facts(entries: Mapping[str, Any]) -> str:
    """A table of names and values; mappings within are spelled out as `outer.inner`."""
    rows = [
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in flat(entries).items()
    ]
    return f'<table class="facts">{"".join(rows)}</table>'


def flat(entries: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as one level of texts: {"a": {"b": 1}} as {"a.b": "1"}."""
    found: dict[str, str] = {}
    for name, value in entries.items():
        if isinstance(value, Mapping) and value:
            found.update(flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = _plain(value)
    return found


def details(summary: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that opens on a click."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    table = f'<table class="columns"><tr>{head}</tr>{body}</table>'
    return f'<details><summary>{escape(summary)}</summary><div class="scroll">{table}</div></details>'


def _plain(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(_plain(entry) for entry in value) or "none"
    return str(value)
