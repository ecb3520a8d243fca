import numpy as np
import pytest

from stayput.core.history import Curve
from stayput.report.value_axis import value_axis


def curve(values, *, higher_is_better=True):
    return Curve(np.arange(len(values)), np.array(values, dtype=np.float64), higher_is_better)


def test_an_accuracy_is_shown_where_its_target_decides():
    axis = value_axis([curve([0.1, 0.9, 0.95, 0.97, 0.98, 0.985])], target=0.97)
    assert axis.low == pytest.approx(0.88)  # the target at three quarters of the height
    assert 1 < axis.high < 1.01


def test_no_more_than_a_quarter_of_a_curve_is_out_of_the_picture():
    axis = value_axis([curve(np.linspace(0, 1, 101))], target=0.99)
    assert axis.low == pytest.approx(0.25)


def test_a_low_accuracy_is_shown_whole():
    axis = value_axis([curve([0.1, 0.2, 0.3])], target=0.5)
    assert axis.low < 0.1
    assert 0.5 < axis.high < 0.6


def test_the_worst_of_many_curves_stays_in_the_picture():
    axis = value_axis([curve([0.1, 0.99]), curve([0.1, 0.4])], target=0.97)
    assert axis.low <= 0.1


def test_a_loss_over_decades_is_shown_on_a_logarithmic_axis():
    axis = value_axis([curve([100, 1, 0.01], higher_is_better=False)])
    assert axis.log
    assert axis.position(np.array([1.0]))[0] == pytest.approx(0.5)
    assert np.isnan(axis.position(np.array([0.0]))[0])


def test_a_loss_within_a_decade_starts_at_zero():
    axis = value_axis([curve([2.3, 0.4], higher_is_better=False)])
    assert (axis.low, axis.log) == (0.0, False)


@pytest.mark.parametrize("values", [[], [np.nan], [0.0], [1.0], [-3.0, -3.0], [7.0, np.inf]])
def test_every_curve_has_an_axis_with_an_extent(values):
    for target in (None, 0.97):
        axis = value_axis([curve(values)], target)
        assert np.isfinite([axis.low, axis.high]).all()
        assert axis.high > axis.low
