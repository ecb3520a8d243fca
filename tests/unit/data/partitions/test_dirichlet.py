import numpy as np
import pytest

from stayput.core.seeds import Purpose, generator
from stayput.data import Examples
from stayput.data.partitions import Dirichlet
from stayput.errors import InvalidSetting

BALANCED = np.repeat(np.arange(10), 6000)


def counts_of(labels, partition, seed=0):
    return Examples(labels, labels).partition(partition, seed=seed).label_counts()


def test_sizes_are_even():
    counts = counts_of(BALANCED[:-7], Dirichlet(num_clients=100, alpha=0.3))
    assert set(counts.sum(axis=1).tolist()) == {599, 600}


@pytest.mark.parametrize(("alpha", "low", "high"), [(1e9, 0, 0.2), (100, 5, 7), (0.5, 60, 75), (0.05, 115, 160)])
def test_alpha_is_the_dial_from_the_same_labels_to_one_label(alpha, low, high):
    """Of 600 examples, Dir(alpha) gives a label 600·sqrt(0.09 / (10·alpha + 1)) by one standard deviation.

    That is 5.7 at 100, 73 at 0.5, and 147 at 0.05; fitting to what there is takes a little off.
    """
    assert low <= counts_of(BALANCED, Dirichlet(alpha=alpha)).std() <= high


@pytest.mark.parametrize("alpha", [0.3, 1.0, 10.0])
def test_clients_follow_the_proportions_they_drew_the_last_as_well_as_the_first(alpha):
    drawn = generator(4, Purpose.PARTITION).dirichlet(np.full(10, alpha), size=100)
    held = counts_of(BALANCED, Dirichlet(alpha=alpha), seed=4) / 600
    distance = np.abs(held - drawn).sum(axis=1) / 2
    another = np.abs(held - np.roll(drawn, 1, axis=0)).sum(axis=1) / 2
    assert distance.mean() < another.mean() / 3
    assert distance[-10:].mean() < 2 * distance[:-10].mean()


def test_on_unequal_labels_proportions_scatter_around_the_populations():
    labels = np.repeat(np.arange(3), [8000, 1500, 500])
    counts = counts_of(labels, Dirichlet(num_clients=50, alpha=5))
    assert counts.sum(axis=0).tolist() == [8000, 1500, 500]
    assert (counts.argmax(axis=1) == 0).mean() > 0.9


@pytest.mark.parametrize("alpha", [1e-300, 1e-6, 1e300])
@pytest.mark.parametrize("num_clients", [1, 2, 13, 100])
def test_no_alpha_breaks_it(alpha, num_clients):
    counts = counts_of(np.repeat(np.arange(5), 20), Dirichlet(num_clients=num_clients, alpha=alpha))
    assert counts.sum(axis=0).tolist() == [20] * 5
    assert counts.sum(axis=1).min() >= 1


def test_labels_need_not_be_numbered_from_zero_nor_be_many():
    assert counts_of(np.full(10, 7), Dirichlet(num_clients=3)).sum() == 10


def test_which_examples_of_a_label_a_client_gets_is_random():
    data = Examples(BALANCED, BALANCED).partition(Dirichlet(alpha=1e9), seed=0)
    rows = np.sort(data.rows(0))
    assert rows.max() - rows.min() > 50_000
    zeros = rows[rows < 6000]
    assert zeros.max() - zeros.min() > 3000


def test_targets_without_labels_are_refused():
    with pytest.raises(InvalidSetting, match="partition='dirichlet' on targets"):
        Examples(np.zeros(4), np.zeros(4)).partition(Dirichlet(num_clients=2))


@pytest.mark.parametrize("alpha", [0, -1, float("nan"), float("inf"), "much"])
def test_what_is_no_concentration_is_refused(alpha):
    with pytest.raises(InvalidSetting, match=r"alpha=.*: must be a positive number \(0.1 is far from IID"):
        Dirichlet(alpha=alpha)
