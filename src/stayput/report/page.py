"""The parts an HTML report is put together from: page, tiles, tables, figures. Every text is escaped here.

The page is one file that fetches nothing, and whose policy forbids it to: the only scripts that run are the two whose
hashes the policy names, the chart library and what draws with it. Without scripts the figures are still there, as SVG.
It follows the reader's light or dark mode, prints in black on white, and is laid out for a phone as for a desk.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from stayput.report.charts import Chart, asset, embedded_json, notice

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src $hashes">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
$body
</main>
<!-- $notice
$licence -->
$scripts
</body>
</html>
""")


def page(title: str, parts: Sequence[str]) -> str:
    """A whole HTML page; `parts` are HTML, in their order."""
    own = files("stayput.report").joinpath("page.css").read_text(encoding="utf-8")
    scripts = [asset("uplot.min.js"), asset("charts.js"), asset("report.js")]
    return _PAGE.substitute(
        title=escape(title),
        style=f"{asset('uplot.min.css')}\n{asset('theme.css')}{own}",
        body="\n".join(part for part in parts if part),
        hashes=" ".join(f"'sha256-{_digest(script)}'" for script in scripts),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
        notice=notice(),
        licence=asset("uplot.LICENSE.txt"),
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def heading(title: str, state: str, about: str, *, ended: bool, level: int = 1) -> str:
    """The top of the page or of one of its runs: what it is, and whether it has ended."""
    mark = "state" if ended else "state open"
    return (
        f'<header><h{level}>{escape(title)}</h{level}>\n<p class="muted">{escape(about)}</p>\n'
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


def subtitle(text: str) -> str:
    """A title within a panel."""
    return f"<h3>{escape(text)}</h3>"


def side_by_side(*parts: str) -> str:
    """Columns of panels beside each other where there is room, else one below the other."""
    columns = "".join(f"<div>{part}</div>" for part in parts)
    return f'<div class="pair">{columns}</div>'


def paragraph(text: str) -> str:
    """A text of its own."""
    return f"<p>{escape(text)}</p>"


def note(text: str) -> str:
    """Small print."""
    return f'<p class="note small">{escape(text)}</p>'


def picture(wide: str, narrow: str | None, caption: str, chart: Chart | None = None) -> str:
    """A figure drawn twice, for a desk and for a phone, so that its text has the right size on both.

    With a chart, that takes the figure's place on screens where scripts run.
    """
    both = wide if narrow is None else f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'
    still = f'<div class="still">{both}</div>'
    shown = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    if chart is None:
        return f"<figure>{still}{shown}</figure>"
    name = f"chart-{chart.name}"
    return (
        f'<figure data-chart="{name}">{still}<div class="live" hidden></div>{shown}'
        f'<script type="application/json" id="{name}">{embedded_json(chart.to_json())}</script></figure>'
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
    return f'<details class="table"><summary>{escape(summary)}</summary>{table(header, rows)}</details>'


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, best: Collection[int] = (), left: bool = False
) -> str:
    """A table with a head; `best` are the places of rows that stand out, `left` is for columns of words."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(
        f'<tr class="{"best" if place in best else ""}">{"".join(f"<td>{escape(cell)}</td>" for cell in row)}</tr>'
        for place, row in enumerate(rows)
    )
    kind = "columns left" if left else "columns"
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def warning(title: str, entries: Sequence[tuple[str, str]]) -> str:
    """What could not be shown, and why: a name and a reason each."""
    rows = "".join(f"<li><strong>{escape(name)}</strong>: {escape(reason)}</li>" for name, reason in entries)
    return f'<section class="warning"><h2>{escape(title)}</h2><ul>{rows}</ul></section>'


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
