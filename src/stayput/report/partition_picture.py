"""How labels are spread over clients, as a picture: an IID split and a pathological one, at a glance.

Above, the examples each client holds; below, a heat map with a column per client and a row per label,
coloured by the label's share of that client's examples. The scale of colours is the same in every picture,
so that two partitions can be compared: an IID one is evenly pale, one with two labels a client has two dark
cells in a column. `partition_text` says the same in a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stayput.errors import InvalidSetting
from stayput.report.figure_files import (
    GRID,
    HEAT,
    INK,
    MUTED,
    require_picture,
    save_figure,
    style_axes,
    write_label,
)
from stayput.report.wording import count_text, percent, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LabelCounts = Sequence[Sequence[int]] | npt.NDArray[np.int64]
"""A row per client, a column per label."""
Counts = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]

_MOST_COLUMNS = 500
"""More clients than a picture has room for share a column with their neighbours."""
_ALIKE = 0.3
"""Mean distance (total variation) from the labels overall, below which clients count as alike."""


def draw_partition(label_counts: LabelCounts, path: Path | str, *, title: str | None = None) -> Path:
    """Draw a table of label counts (a row per client) into a .png or .svg file and return its path."""
    require_picture(path)  # before the work
    return save_figure(partition_figure(label_counts, title=title), path)


def partition_figure(
    label_counts: LabelCounts, *, title: str | None = None, size: tuple[float, float] = (7.2, 4.2)
) -> Figure:
    """The figure of `draw_partition`."""
    from matplotlib.figure import Figure

    counts = checked_counts(label_counts)
    order, sorted_by = sorted_clients(counts)
    columns = min(len(counts), _MOST_COLUMNS)
    starts = np.linspace(0, len(counts), columns, endpoint=False).astype(np.int64)
    sizes = counts.sum(axis=1)[order]
    figure = Figure(figsize=size, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2.4))
    _draw_sizes(above, sizes, starts)
    write_label(above, y="examples", title=title)
    shares = np.add.reduceat(label_shares(counts)[order], starts) / np.diff([*starts, len(counts)])[:, None]
    _draw_shares(below, shares, len(counts))
    write_label(below, x=f"{plural(len(counts), 'client')}, sorted by {sorted_by}", y="label")
    _draw_scale(figure)
    return figure


def checked_counts(label_counts: LabelCounts) -> Counts:
    """The table as an array, or an error that says what is wrong with it."""
    try:
        counts = np.asarray(label_counts, dtype=np.int64)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidSetting(f"label_counts: must be a table of whole numbers, a row per client ({error})") from error
    if counts.ndim != 2 or 0 in counts.shape:
        raise InvalidSetting(f"label_counts of shape {counts.shape}: must have a row per client and a column per label")
    if counts.min() < 0:
        raise InvalidSetting(f"label_counts has {counts.min()}: a number of examples must not be negative")
    return counts


def label_shares(counts: Counts) -> Shares:
    """Each label's share of its client's examples; a client without any has none of each."""
    totals = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    shares: Shares = counts / totals
    return shares


def sorted_clients(counts: Counts) -> tuple[npt.NDArray[np.int64], str]:
    """The order in which clients are shown, and its name: by labels if they differ in them, else by size."""
    shares, sizes = label_shares(counts), counts.sum(axis=1)
    overall = counts.sum(axis=0) / max(counts.sum(), 1)
    distances = np.abs(shares - overall).sum(axis=1) / 2
    if counts.sum() == 0 or np.average(distances, weights=sizes) < _ALIKE:
        return np.argsort(-sizes, kind="stable"), "size"
    most = np.argsort(-counts, axis=1, kind="stable")[:, :2]  # the two labels each client has most of
    none_of_second = np.take_along_axis(counts, most[:, -1:], axis=1)[:, 0] == 0
    second = np.where(none_of_second, most[:, 0], most[:, -1])
    first, second = np.minimum(most[:, 0], second), np.maximum(most[:, 0], second)
    return np.lexsort((-sizes, second, first)), "label"


def strength(shares: Shares) -> Shares:
    """How dark a share is shown: the root of it, so that a tenth is seen and a half is not yet black."""
    roots: Shares = np.sqrt(np.clip(shares, 0, 1))
    return roots


def _draw_sizes(axes: Axes, sizes: Counts, starts: npt.NDArray[np.int64]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    edges = np.array([*starts, len(sizes)]) - 0.5
    means = np.add.reduceat(sizes, starts) / np.diff(edges)
    axes.stairs(means, edges, fill=True, color=MUTED, alpha=0.55, linewidth=0)
    if len(starts) < len(sizes):
        axes.stairs(np.maximum.reduceat(sizes, starts), edges, color=MUTED, linewidth=0.6)
    style_axes(axes, grid=False)
    axes.set_ylim(0, max(float(sizes.max()), 1) * 1.08)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: count_text(value)))
    axes.tick_params(axis="x", bottom=False, labelbottom=False)


def _draw_shares(axes: Axes, shares: Shares, clients: int) -> None:
    """The heat map as one colour, more or less transparent: right on a light page and on a dark one."""
    from matplotlib.colors import to_rgb
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    labels = shares.shape[1]
    pixels = np.empty((labels, len(shares), 4))
    pixels[..., :3] = to_rgb(HEAT)
    pixels[..., 3] = strength(shares).T
    # Whole pixels for every cell, so that viewers that smooth pictures leave the cells' edges sharp.
    across, down = max(1200 // len(shares), 1), max(320 // labels, 1)
    pixels = pixels.repeat(down, axis=0).repeat(across, axis=1)
    extent = (-0.5, clients - 0.5, labels - 0.5, -0.5)
    axes.imshow(pixels, aspect="auto", interpolation="none", extent=extent)
    style_axes(axes, grid=False)
    axes.spines["bottom"].set_color(GRID)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=10, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count_text(value)))


def _draw_scale(figure: Figure) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    shown = (0.0, 0.02, 0.1, 0.25, 0.5, 1.0)
    swatches = [
        Patch(facecolor=(*to_rgb(HEAT), float(np.sqrt(share))), edgecolor=MUTED, linewidth=0.4) for share in shown
    ]
    figure.legend(
        swatches,
        [percent(share) for share in shown],
        title="share of the client's examples",
        title_fontsize=8.5,
        fontsize=8.5,
        labelcolor=INK,
        loc="outside lower center",
        ncols=len(shown),
        frameon=False,
        handlelength=1.2,
        handleheight=1.0,
        columnspacing=1.2,
        handletextpad=0.5,
    ).get_title().set_color(MUTED)
