from __future__ import annotations

import numpy as np
import pytest
import torch

from stayput.core.seeds import (
    Purpose,
    distinct_integers,
    permutation,
    raw_words,
    torch_seed,
    torch_stream,
)
from stayput.errors import InvalidSetting


def test_the_numbers_of_a_stream_never_change():
    # Written down once: a change here changes every result that was ever published with a seed.
    assert raw_words(0, Purpose.SHUFFLE, 3, round_number=1, client=2, epoch=0).tolist() == [
        10709525943830009964,
        5356498249641239599,
        7895599560131967325,
    ]
    assert permutation(7, Purpose.SHUFFLE, 8, round_number=3, client=5, epoch=1).tolist() == [1, 7, 4, 6, 3, 5, 2, 0]
    assert distinct_integers(7, Purpose.COHORT, 5, 1_000_000, round_number=2).tolist() == [
        49671,
        223134,
        231534,
        424887,
        731206,
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"purpose": Purpose.COHORT},
        {"round_number": 1},
        {"client": 1},
        {"epoch": 1},
    ],
)
def test_every_part_of_its_name_makes_another_stream(other):
    name = {"seed": 0, "purpose": Purpose.SHUFFLE, "round_number": 0, "client": 0, "epoch": 0}

    def words(seed, purpose, **counter):
        return raw_words(seed, purpose, 1000, **counter)

    ours, theirs = words(**name), words(**{**name, **other})
    assert not set(ours.tolist()) & set(theirs.tolist())


def test_neighbouring_streams_do_not_overlap_however_long():
    # Were (round, client, epoch) and the position in the stream in one word, client 1 would repeat client 0's.
    ours = raw_words(0, Purpose.SHUFFLE, 40_000, client=0)
    theirs = raw_words(0, Purpose.SHUFFLE, 40_000, client=1)
    assert not np.isin(ours, theirs).any()


@pytest.mark.parametrize("size", [0, 1, 2, 600, 10_007])
def test_a_permutation_has_everything_once(size):
    assert sorted(permutation(3, Purpose.SHUFFLE, size).tolist()) == list(range(size))


def test_permutations_are_uniform():
    counts = np.zeros((4, 4))
    for client in range(6000):
        for place, value in enumerate(permutation(1, Purpose.SHUFFLE, 4, client=client)):
            counts[place, value] += 1
    # 16 cells of expectation 1500: chi-square with 9 degrees of freedom, 99.99% below 33.7.
    assert ((counts - 1500) ** 2 / 1500).sum() < 33.7


@pytest.mark.parametrize(
    ("count", "below"), [(1, 1), (1, 100), (10, 100), (25, 100), (26, 100), (100, 100), (3, 10**9)]
)
def test_distinct_integers_are_distinct_sorted_and_in_range(count, below):
    drawn = distinct_integers(5, Purpose.COHORT, count, below, round_number=9)
    assert len(drawn) == count
    assert (np.diff(drawn) > 0).all()
    assert drawn[0] >= 0
    assert drawn[-1] < below


@pytest.mark.parametrize(("count", "below"), [(10, 100), (60, 100)])
def test_every_integer_is_drawn_equally_often(count, below):
    counts = np.zeros(below)
    for round_number in range(3000):
        counts[distinct_integers(2, Purpose.COHORT, count, below, round_number=round_number)] += 1
    expected = 3000 * count / below
    spread = expected * (1 - count / below)  # of a hypergeometric inclusion count
    # sum of squares over `spread` is about chi-square with 99 degrees of freedom, 99.99% below 157.
    assert ((counts - expected) ** 2 / spread).sum() < 157


def test_torch_streams_repeat_and_leave_the_callers_generator_alone():
    torch.manual_seed(11)
    expected_outside = torch.rand(3)
    torch.manual_seed(11)
    with torch_stream(4, Purpose.LOCAL_TRAINING, round_number=1, client=2):
        first = torch.rand(5)
    assert torch.equal(torch.rand(3), expected_outside)
    with torch_stream(4, Purpose.LOCAL_TRAINING, round_number=1, client=2):
        assert torch.equal(torch.rand(5), first)
    with torch_stream(4, Purpose.LOCAL_TRAINING, round_number=1, client=3):
        assert not torch.equal(torch.rand(5), first)


def test_torch_seeds_are_ones_that_torch_takes():
    assert all(0 <= torch_seed(seed, Purpose.INITIAL_WEIGHTS) < 2**63 for seed in range(100))


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True])
def test_a_wrong_seed_is_refused(seed):
    with pytest.raises(InvalidSetting, match="seed="):
        raw_words(seed, Purpose.COHORT, 1)
