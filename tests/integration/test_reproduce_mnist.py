"""A short cell on real MNIST, and figure 1's two models."""

from __future__ import annotations

import pytest

from stayput.data import DATA_SETS
from stayput.paper import figure1, table4
from stayput.paper.measuring import Measurer
from stayput.paper.results import Results
from stayput.paper.workshop import Workshop

pytestmark = [pytest.mark.slow, pytest.mark.network]


def test_a_quick_cell_and_figure_1_on_real_digits(tmp_path):
    DATA_SETS["mnist"].load()
    results, workshop = Results(tmp_path), Workshop()
    cell = table4.TABLE.cells[8].quickened()
    Measurer(results, workshop, grid=3).measure(cell, 0)
    curves = results.curves(cell, 0)
    assert len(curves) >= 3
    assert max(curve.curve.best_so_far()[-1] for curve in curves.values()) > 0.2
    found = figure1.measure(workshop, tmp_path, 0, quick=True)
    assert len(found.thetas) == len(found.shared) == len(figure1.QUICK_THETAS)
    assert max(found.different) > max(found.shared)
