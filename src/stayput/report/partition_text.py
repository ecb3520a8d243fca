"""How labels are spread over clients, in a terminal: a few numbers, then some clients, as plain text.

No colour and no control codes: it reads the same in a terminal, a log and a pipe.
"""

from __future__ import annotations

import numpy as np

from stayput.report.partition_picture import (
    Counts,
    LabelCounts,
    checked_counts,
    label_shares,
    sorted_clients,
    strength,
)
from stayput.report.wording import count_text, plural

_BARS = " ▁▂▃▄▅▆▇█"
_ROWS = 12
_LEAST_WIDTH = 40


def partition_in_terminal(label_counts: LabelCounts, width: int = 80) -> str:
    """A table of label counts (a row per client) as lines of at most `width` characters.

    The higher a bar, the larger the label's share of the client's examples; up to twelve clients are shown,
    evenly picked from all of them in the order of the picture.
    """
    counts = checked_counts(label_counts)
    order, sorted_by = sorted_clients(counts)
    picked = order[np.unique(np.linspace(0, len(order) - 1, min(_ROWS, len(order))).round().astype(np.int64))]
    return "\n".join(
        [
            *_summary(counts),
            "",
            *_rows(counts, picked, max(width, _LEAST_WIDTH)),
            *_caption(counts, picked, sorted_by),
        ]
    )


def _summary(counts: Counts) -> list[str]:
    sizes, held = counts.sum(axis=1), (counts > 0).sum(axis=1)
    clients, labels = counts.shape
    return [
        f"{plural(clients, 'client')}, {plural(int(sizes.sum()), 'example')}, {plural(labels, 'label')}",
        f"examples per client: {_spread(sizes)}",
        f"labels per client:   {_spread(held)}",
    ]


def _spread(values: Counts) -> str:
    if values.min() == values.max():
        return f"{count_text(values[0])} each" if len(values) > 1 else count_text(values[0])
    return f"least {count_text(values.min())}, median {np.median(values):,.10g}, most {count_text(values.max())}"


def _rows(counts: Counts, picked: Counts, width: int) -> list[str]:
    """A header and a row per client; labels that do not fit share a cell with their neighbours."""
    sizes = counts.sum(axis=1)
    name_width = max(len("client"), *(len(str(client)) for client in picked))
    size_width = max(len("examples"), *(len(count_text(sizes[client])) for client in picked))
    room = width - name_width - size_width - 4
    labels = counts.shape[1]
    cell = max(1, min(4, room // labels))
    cells = min(labels, room // cell)
    starts = np.linspace(0, labels, cells, endpoint=False).astype(np.int64)
    shares = np.add.reduceat(label_shares(counts[picked]), starts, axis=1)
    header = f"{'client':>{name_width}}  {'examples':>{size_width}}  {_label_numbers(starts, cell)}"
    rows = [header.rstrip()]
    for client, row in zip(picked, shares, strict=True):
        bars = "".join(_bar(share) * max(cell - 1, 1) + " " * (cell > 1) for share in row)
        rows.append(f"{client:>{name_width}}  {count_text(sizes[client]):>{size_width}}  {bars}".rstrip())
    return rows


def _bar(share: float) -> str:
    if share <= 0:
        return _BARS[0] if share < 0 else "·"
    return _BARS[max(1, round(8 * float(strength(np.asarray(share)))))]


def _label_numbers(starts: Counts, cell: int) -> str:
    """Labels' numbers over their cells, as many as have room."""
    text = ""
    for number, start in enumerate(starts):
        if len(text) <= number * cell and (not text or number * cell - len(text) >= 0):
            text = text.ljust(number * cell) + f"{start} "
    return text.rstrip()


def _caption(counts: Counts, picked: Counts, sorted_by: str) -> list[str]:
    shown = "every client" if len(picked) == len(counts) else f"{len(picked)} of {plural(len(counts), 'client')}"
    return [
        "",
        f"{shown}, sorted by {sorted_by}",
        f"· none of a label, {_BARS[1]} little, {_BARS[-1]} all of the client's examples",
    ]
