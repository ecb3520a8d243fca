"""How figures look and how they become files: colours, the look of axes, PNG and SVG.

Only matplotlib's object API: no pyplot, no backend, nothing left behind in global state, so that drawing
works in a server, a notebook and a test alike. matplotlib is imported where it is used: importing this
costs nothing.

A figure put into an HTML page must look right on light and on dark. Its colours are therefore drawn as the
ones named here and then replaced by the page's CSS variables; the page says what they are in each mode.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stayput.errors import InvalidSetting
from stayput.report.wording import printable
from stayput.runs.durable_files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#24292f"
MUTED = "#656d76"
GRID = "#d8dee4"
PANEL = "#fffffe"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#b4579a", "#56a4d9", "#b87a00", "#5a5f66")
"""Told apart with the common kinds of colour blindness: the colours of Okabe and Ito, the pale ones darkened
to be seen on white. More curves than colours repeat them with another dash."""

HEAT = "#1f83cc"
"""The colour of heat maps, more or less transparent. Pixels cannot follow a page's mode: it suits both."""

DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = (
    "-",
    (0, (5, 2)),
    (0, (1.5, 1.5)),
    (0, (6, 2, 1.5, 2)),
)

CSS_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", PANEL: "--panel"} | {
    colour: f"--series-{number}" for number, colour in enumerate(SERIES)
}
"""The variable of the HTML page that stands for each colour."""

_SUFFIXES = (".png", ".svg")
_GROUP_ID = re.compile(r'<g id="[^"]*"')
_STYLE = re.compile(r'style="[^"]*"')
_COLOUR = re.compile("|".join(CSS_VARIABLES))
_FONT = re.compile(r"font: ([0-9.]+)px [^;\"]*|font-family: [^;\"]*")
_NAMESPACE = re.compile(r' xmlns(?::xlink)?="[^"]*"')
_SIZE = re.compile(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>')


def require_picture(path: Path | str) -> Path:
    """The path, if its suffix says how to write a picture."""
    path = Path(path)
    if path.suffix.lower() not in _SUFFIXES:
        raise InvalidSetting(
            f"path={str(path)!r}: a picture must end in .png or .svg (such as {path.stem or 'curve'}.png)"
        )
    return path


def save_figure(figure: Figure, path: Path | str) -> Path:
    """Write a figure, whole or not at all; make the folder it goes to."""
    path = require_picture(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with _drawing():
        if path.suffix.lower() == ".png":
            figure.savefig(buffer, format="png", dpi=160, facecolor="white")
        else:
            figure.savefig(buffer, format="svg", facecolor="white", metadata={"Date": None})
    write_whole(path, buffer.getvalue())
    return path


def inline_svg(figure: Figure, *, name: str, description: str) -> str:
    """A figure as an <svg> element for an HTML page that defines `CSS_VARIABLES`.

    `name` keeps the element's ids apart from those of the page's other figures.
    """
    buffer = io.BytesIO()
    with _drawing(salt=name):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue().decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = _NAMESPACE.sub("", _GROUP_ID.sub("<g", text))
    text = _STYLE.sub(_with_variables, text)
    label = _attribute(description)
    return _SIZE.sub(rf'<svg viewBox="\1" role="img" aria-label="{label}">', text, count=1)


def new_axes(figure: Figure) -> Axes:
    """Axes in the house's look: no box, horizontal grid lines, muted ticks."""
    axes = figure.add_subplot()
    style_axes(axes)
    return axes


def style_axes(axes: Axes, *, grid: bool = True) -> None:
    """Give axes the house's look."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.tick_params(colors=MUTED, labelcolor=MUTED, labelsize=9, length=3, which="both")
    axes.tick_params(axis="y", length=0, which="both")
    if grid:
        axes.grid(visible=True, axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.patch.set_visible(False)


def write_label(axes: Axes, *, x: str | None = None, y: str | None = None, title: str | None = None) -> None:
    """Name the axes. A user's text is never read as mathematics, whatever dollar signs are in it."""
    if x is not None:
        axes.set_xlabel(printable(x), color=MUTED, fontsize=9.5, parse_math=False)
    if y is not None:
        axes.set_ylabel(printable(y), color=MUTED, fontsize=9.5, parse_math=False)
    if title is not None:
        axes.set_title(printable(title), color=INK, fontsize=11.5, loc="left", parse_math=False)


@contextmanager
def _drawing(salt: str = "stayput") -> Iterator[None]:
    """The settings a figure is written with: text stays text, and the same figure gives the same bytes."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}), warnings.catch_warnings():
        # A name in a script that the drawing font lacks is drawn with boxes in a PNG; that is no reason to
        # fail.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        yield


def _with_variables(style: re.Match[str]) -> str:
    text = _COLOUR.sub(lambda colour: f"var({CSS_VARIABLES[colour.group()]})", style.group())
    return _FONT.sub(lambda font: f"font-size: {font.group(1)}px" if font.group(1) else "", text)


def _attribute(text: str) -> str:
    import html

    return html.escape(text).replace("\\", "&#92;")  # a backslash would mean something to re.sub
