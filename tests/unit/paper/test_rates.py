from __future__ import annotations

import pytest

from stayput.errors import InvalidSetting
from stayput.paper.rates import HIGHEST, LOWEST, beyond_edge, grid_around, rate_of


def test_the_rates_that_the_paper_prints_are_on_the_lattice():
    assert [rate_of(k) for k in (-6, -4, 1)] == pytest.approx([0.1, 0.215443, 1.46780], abs=1e-5)


def test_a_grid_has_its_centre_in_the_middle():
    assert grid_around(-4, 5) == (-6, -5, -4, -3, -2)
    assert grid_around(-4, 1) == (-4,)
    assert grid_around(0, 4) == (-1, 0, 1, 2)
    with pytest.raises(InvalidSetting, match="grid=0"):
        grid_around(0, 0)


def test_a_grid_is_widened_where_the_best_is_at_its_edge_and_only_there():
    assert beyond_edge([-3, -2, -1], -2) == ()
    assert beyond_edge([-3, -2, -1], -3) == [-5, -4]
    assert beyond_edge([-3, -2, -1], -1) == [0, 1]
    assert beyond_edge([LOWEST, LOWEST + 1], LOWEST) == []
    assert beyond_edge([HIGHEST - 1, HIGHEST], HIGHEST) == []
