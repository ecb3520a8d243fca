import numpy as np
import pytest

from stayput.report.downsampling import downsampled, kept_points


@pytest.mark.parametrize("length", [0, 1, 2, 99, 100, 101, 1999, 20_011])
def test_a_long_curve_keeps_its_ends_and_its_extremes(length):
    values = np.random.default_rng(length).normal(size=length)
    kept = kept_points(values, 100)
    assert len(kept) <= 100
    assert np.all(np.diff(kept) > 0)
    if length:
        assert {0, length - 1, int(values.argmin()), int(values.argmax())} <= set(kept.tolist())
    if length <= 100:
        assert len(kept) == length


def test_values_that_are_not_numbers_hide_no_extremes():
    values = np.full(1000, 0.5)
    values[::3] = np.nan
    values[500], values[751] = 0.9, -0.2
    rounds, shown = downsampled(np.arange(1000), values, 50)
    assert {500, 751} <= set(rounds.tolist())
    assert np.nanmax(shown) == 0.9
