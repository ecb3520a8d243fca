from __future__ import annotations

from itertools import pairwise

import pytest

from stayput.cli.grids import batch_sizes, numbers, whole_numbers
from stayput.errors import InvalidSetting


def test_a_multiplicative_grid():
    grid = numbers("learning_rate", "0.01:1.0:13")
    assert len(grid) == 13
    assert (grid[0], grid[6], grid[-1]) == (0.01, 0.1, 1.0)
    assert all(b / a == pytest.approx(10 ** (1 / 6), rel=1e-4) for a, b in pairwise(grid))


@pytest.mark.parametrize(
    ("read", "text", "values"),
    [
        (numbers, "0.05, 0.1", [0.05, 0.1]),
        (numbers, "0.3", [0.3]),
        (whole_numbers, "0,1,5", [0, 1, 5]),
        (whole_numbers, "0:9:4", [0, 3, 6, 9]),
        (batch_sizes, "10,50,all", [10, 50, "all"]),
    ],
)
def test_lists_and_ranges(read, text, values):
    assert read("x", text) == values


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (numbers, "a"),
        (numbers, "0.1:1"),
        (numbers, "0:1:3"),
        (numbers, "1:0.1:3"),
        (numbers, "0.1:1:1"),
        (whole_numbers, "1.5"),
        (whole_numbers, "0:10:4"),
        (batch_sizes, "some"),
    ],
)
def test_what_is_neither_is_refused(read, text):
    with pytest.raises(InvalidSetting, match="x="):
        read("x", text)
