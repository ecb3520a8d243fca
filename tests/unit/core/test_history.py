"""The paper's measure, on curves worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from stayput.core.history import Curve, History, RoundReport

NAN = float("nan")


def curve(values, rounds=None, **settings):
    rounds = range(len(values)) if rounds is None else rounds
    return Curve(np.array(rounds), np.array(values, dtype=float), **settings)


@pytest.mark.parametrize(
    ("values", "rounds", "target", "expected"),
    [
        ([0.1, 0.5, 0.9], None, 0.7, 1.5),  # half way between rounds 1 and 2
        ([0.1, 0.5, 0.9], None, 0.5, 1.0),  # exactly at an evaluation
        ([0.1, 0.5, 0.9], None, 0.95, None),  # never
        ([0.1, 0.6, 0.2, 0.8], None, 0.7, 2.5),  # the dip counts as 0.6: monotone first, then interpolate
        ([0.1, 0.6, 0.2, 0.8], None, 0.3, 0.4),  # the first crossing, 0.2 of 0.5 of the way to round 1
        ([0.1, 0.3, 0.7], [0, 20, 40], 0.4, 25.0),  # evaluated every 20 rounds
        ([0.8, 0.9], [5, 10], 0.7, 5.0),  # reached before the first evaluation: that is all we know
        ([0.1, NAN, 0.5], None, 0.3, 1.5),  # an evaluation that is not a number improves on nothing
        ([NAN, 0.5], None, 0.3, 1.0),
        ([], None, 0.3, None),
    ],
)
def test_rounds_to_a_target(values, rounds, target, expected):
    reached = curve(values, rounds).rounds_to(target)
    assert reached == (None if expected is None else pytest.approx(expected))


def test_a_metric_that_should_fall():
    falling = curve([2.0, 1.0, 1.5, 0.5], higher_is_better=False)
    assert falling.best_so_far().tolist() == [2.0, 1.0, 1.0, 0.5]
    assert falling.rounds_to(0.75) == pytest.approx(2.5)
    assert falling.rounds_to(0.1) is None


def test_a_curve_holds_the_rounds_that_were_evaluated():
    history = History()
    for number, evaluation in enumerate([{"accuracy": 0.1}, {}, {"accuracy": 0.4, "loss": 2.0}]):
        history = history.with_report(RoundReport(number, evaluation=evaluation))
    assert history.last_round == 2
    assert history.curve("accuracy").rounds.tolist() == [0, 2]
    assert history.curve("loss").values.tolist() == [2.0]
    assert history.curve("nothing").rounds.size == 0
