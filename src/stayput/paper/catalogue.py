"""Every table and figure of the paper by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stayput.errors import UnknownName
from stayput.paper import (
    figure1,
    figure2,
    figure3,
    figure4,
    figure5,
    figure6,
    figure7,
    figure8,
    figure9,
    figure10,
    table1,
    table2_cnn,
    table2_lstm,
    table3,
    table4,
)
from stayput.paper.cells import Cell
from stayput.paper.exhibits import Figure, Table

TABLES: Mapping[str, Table] = {
    module.TABLE.name: module.TABLE for module in (table1, table2_cnn, table2_lstm, table3, table4)
}
FIGURES: Mapping[str, Figure] = {
    module.FIGURE.name: module.FIGURE
    for module in (figure2, figure3, figure4, figure5, figure6, figure7, figure8, figure9, figure10)
}
"""The figures that are curves; figure 1 is a picture between two models and stands for itself."""
TITLES: Mapping[str, str] = {
    **{name: table.title for name, table in TABLES.items()},
    figure1.NAME: figure1.TITLE,
    **{name: figure.title for name, figure in FIGURES.items()},
}
ALL = "all"


def named(names: Iterable[str]) -> list[str]:
    """Names of exhibits, "all" being every one, in the paper's order."""
    wanted = list(names)
    for name in wanted:
        if name not in TITLES and name != ALL:
            raise UnknownName("exhibit of the paper", name, [*TITLES, ALL])
    return [name for name in TITLES if name in wanted or ALL in wanted]


def cells_of(name: str) -> tuple[Cell, ...]:
    """What is trained for a table or a figure of curves; nothing for figure 1."""
    if name in TABLES:
        return TABLES[name].cells
    return FIGURES[name].cells if name in FIGURES else ()
