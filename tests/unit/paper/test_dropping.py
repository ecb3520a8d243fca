from __future__ import annotations

import math

import pytest

from stayput.core.history import Curve
from stayput.paper.dropping import BEHIND, HOPELESS, TARGET, Standing, best_exponent, verdicts


def standing(values, *, better=True):
    return Standing(list(range(len(values))), list(values), better)


def test_a_rate_that_reaches_the_target_ends_and_others_go_on_for_a_tenth_more():
    live = {0: standing([0.1, 0.5, 0.9] + [0.97] * 0 + [0.98]), 1: standing([0.1, 0.5, 0.8, 0.9])}
    found = verdicts(live, target=0.97)
    assert {k: v.ended for k, v in found.items()} == {0: TARGET}  # 2.9 rounds; the other is at 3 < 3.2
    live[1].add(4, 0.91)
    assert verdicts({1: live[1]}, target=0.97, reached_before=2.9)[1].ended == BEHIND


def test_reaching_on_a_later_evaluation_than_another_still_counts_as_reaching():
    live = {0: standing([0.1, 0.98]), 1: standing([0.1, 0.5, 0.98])}
    assert {v.ended for v in verdicts(live, target=0.97).values()} == {TARGET}


def test_hopeless_is_who_is_now_where_the_leader_was_after_a_quarter_of_the_rounds():
    leader = standing([min(0.9, 0.1 + 0.04 * n) for n in range(25)])
    slow = standing([0.1 + 0.008 * n for n in range(25)])
    found = verdicts({0: leader, 1: slow}, target=0.97)
    assert {k: v.ended for k, v in found.items()} == {1: HOPELESS}
    assert "k=0" in found[1].why
    early = {0: standing(leader.values[:19]), 1: standing(slow.values[:19])}
    assert verdicts(early, target=0.97) == {}  # not before the twentieth round


def test_half_as_fast_is_not_hopeless():
    leader = standing([min(0.9, 0.1 + 0.02 * n) for n in range(40)])
    half = standing([0.1 + 0.01 * n for n in range(40)])
    assert verdicts({0: leader, 1: half}, target=0.97) == {}


def test_losses_are_better_when_they_are_lower():
    leader = standing([2.0 * 0.7**n for n in range(30)], better=False)
    stuck = standing([2.0] * 30, better=False)
    assert {k: v.ended for k, v in verdicts({3: leader, 4: stuck}, target=None).items()} == {4: HOPELESS}


def test_values_that_are_no_numbers_lead_nobody():
    broken = standing([math.nan] * 30)
    assert broken.best is None
    assert verdicts({0: broken, 1: standing([0.1] * 30)}, target=0.9) == {}


@pytest.mark.parametrize(("target", "best"), [(0.9, 2), (0.99, 1)])
def test_the_best_rate_reaches_the_target_first_or_else_ends_highest(target, best):
    curves = {1: Curve([0, 10], [0.1, 0.95]), 2: Curve([0, 5, 10], [0.1, 0.92, 0.93])}
    import numpy as np

    curves = {k: Curve(np.array(c.rounds), np.array(c.values)) for k, c in curves.items()}
    assert best_exponent(curves, target) == best
