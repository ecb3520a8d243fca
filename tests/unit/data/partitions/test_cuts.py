import numpy as np
import pytest

from stayput.data import Examples
from stayput.data.partitions import Dirichlet, Iid, Unbalanced
from stayput.data.partitions.cuts import even_offsets, grouped, offsets_of, runs


@pytest.mark.parametrize(("total", "parts"), [(10, 3), (9, 3), (60000, 200), (5, 5), (60001, 7)])
def test_even_runs_cover_everything_and_differ_by_one_at_most(total, parts):
    offsets = even_offsets(total, parts)
    sizes = np.diff(offsets)
    assert (offsets[0], offsets[-1], len(sizes)) == (0, total, parts)
    assert sizes.max() - sizes.min() == (0 if total % parts == 0 else 1)


def test_runs_are_laid_end_to_end():
    assert runs(np.array([5, 0, 9, 2]), np.array([2, 3, 0, 1])).tolist() == [5, 6, 0, 1, 2, 2]
    assert offsets_of(np.array([2, 3, 0, 1])).tolist() == [0, 2, 5, 5, 6]


def test_groups_keep_the_order_of_rows():
    assignment = grouped(np.array([1, 0, 1, 0, 1]), ["a", "b"])
    assert assignment.order.tolist() == [1, 3, 0, 2, 4]
    assert assignment.offsets.tolist() == [0, 2, 5]


def test_choices_that_a_partition_makes_are_on_random_numbers_of_their_own():
    """One client's rows of one label, and sizes, must not follow from the order that Iid draws."""
    data = Examples(np.arange(40), np.zeros(40, dtype=int))
    iid = data.partition(Iid(num_clients=1), seed=9).rows(0).tolist()
    assert data.partition(Dirichlet(num_clients=1), seed=9).rows(0).tolist() != iid
    sizes = (
        Examples(np.arange(100_000), np.zeros(100_000))
        .partition(Unbalanced(over=Iid(num_clients=40)), seed=9)
        .client_sizes
    )
    assert np.argsort(sizes, kind="stable").tolist() != iid
