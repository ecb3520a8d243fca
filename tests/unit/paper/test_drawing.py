"""Figures from measured curves."""

from __future__ import annotations

import numpy as np
import pytest

from stayput.core.history import Curve
from stayput.paper import figure1
from stayput.paper.catalogue import FIGURES
from stayput.paper.drawing import draw, draw_interpolation, envelope
from stayput.paper.figure1 import THETAS, Interpolation
from stayput.paper.page import write_page
from stayput.paper.results import Results
from stayput.runs.durable_files import write_json


def test_the_best_rate_is_chosen_for_each_round_and_what_has_ended_stays_where_it_was():
    early = Curve(np.array([0, 1, 2]), np.array([0.1, 0.6, 0.5]))
    late = Curve(np.array([0, 1, 2, 3, 4]), np.array([0.1, 0.2, 0.3, 0.9, 0.8]))
    assert envelope([early, late]).values.tolist() == [0.1, 0.6, 0.6, 0.9, 0.9]
    losses = [Curve(c.rounds, 1 - c.values, higher_is_better=False) for c in (early, late)]
    assert envelope(losses).values == pytest.approx([0.9, 0.4, 0.4, 0.1, 0.1])


def test_figure_1_has_the_papers_fifty_values():
    assert len(THETAS) == 50
    assert (THETAS[0], THETAS[-1]) == (-0.2, 1.2)
    found = Interpolation([0.0, 0.5, 1.0], [1.0, 3.0, 0.8], [1.0, 0.5, 0.9], {})
    assert found.best_parent(found.different) == 0.8


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_is_drawn_from_what_there_is(name, tmp_path, keep):
    figure = FIGURES[name]
    results = Results(tmp_path)
    assert draw(figure, results, tmp_path / "nothing.png") is None
    rng = np.random.default_rng(0)
    for cell in figure.cells[::2]:
        steps = np.arange(12) * cell.evaluate_every
        values = 0.5 + 0.4 * np.arange(12) / 12 + 0.01 * rng.standard_normal(12)
        curve = Curve(steps, values if cell.higher_is_better else 2 - values, cell.higher_is_better)
        keep(results, cell, dict.fromkeys(cell.rates or (-3, -2), curve))
    path = draw(figure, results, tmp_path / "drawn.png")
    assert path is not None
    assert path.stat().st_size > 10_000


def test_the_page_and_its_figures_are_written_together(tmp_path, keep):
    results = Results(tmp_path / "results")
    cell = FIGURES["figure7"].cells[0]
    keep(results, cell, {-3: Curve(np.array([0, 1, 2]), np.array([0.1, 0.5, 0.6]))})
    plain = {"thetas": [0, 0.5, 1], "different": [1, 3, 1], "shared": [1, 0.5, 1], "provenance": {"seconds": 1}}
    write_json(figure1.path_in(results.folder, 0, quick=False), plain)
    written = write_page(results, tmp_path / "paper.md")
    assert {path.name for path in written} == {"figure1.png", "figure7.png", "paper.md"}
    text = (tmp_path / "paper.md").read_text()
    assert "images/paper/figure7.png" in text
    assert "images/paper/figure2.png" not in text
    assert "| holds |" in text  # figure 1, with these numbers
    assert draw_interpolation(figure1.read(results.folder, 0, quick=False), tmp_path / "one.png").is_file()
