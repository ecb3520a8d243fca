from __future__ import annotations

import pytest

from stayput.core.cohort import choose_cohort, cohort_size
from stayput.errors import InvalidSetting


@pytest.mark.parametrize(
    ("num_clients", "fraction", "size"),
    [
        (100, 0.0, 1),  # the paper: C=0 means one client
        (100, 0.1, 10),
        (100, 0.2, 20),
        (100, 1.0, 100),
        (1146, 0.1, 115),
        (7, 0.5, 4),  # 3.5 rounds up
        (3, 0.01, 1),
        (1, 0.0, 1),
        (1_000_000, 0.07, 70_000),  # 0.07 · K is 70000.00000000001 in floating point
    ],
)
def test_the_size_of_a_cohort(num_clients, fraction, size):
    assert cohort_size(num_clients, fraction) == size


@pytest.mark.parametrize("fraction", [-0.1, 1.4, float("nan"), "0.1", True])
def test_a_wrong_fraction_is_refused_with_value_rule_and_way_out(fraction):
    with pytest.raises(InvalidSetting, match=r"client_fraction=.*must be in \[0, 1\] \(0 selects one client\)"):
        cohort_size(10, fraction)


def test_no_clients_are_refused():
    with pytest.raises(InvalidSetting, match="num_clients=0"):
        cohort_size(0, 0.5)


def test_a_cohort_depends_on_seed_and_round_and_on_nothing_else():
    cohort = choose_cohort(100, 0.1, seed=3, round_number=4).tolist()
    assert cohort == sorted(set(cohort))
    assert len(cohort) == 10
    assert cohort == choose_cohort(100, 0.1, seed=3, round_number=4).tolist()
    assert cohort != choose_cohort(100, 0.1, seed=4, round_number=4).tolist()
    assert cohort != choose_cohort(100, 0.1, seed=3, round_number=5).tolist()


def test_everybody_is_the_cohort_when_the_fraction_is_one():
    assert choose_cohort(9, 1.0, seed=0, round_number=1).tolist() == list(range(9))
