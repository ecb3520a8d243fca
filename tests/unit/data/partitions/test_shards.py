import numpy as np
import pytest

from stayput.data import Examples
from stayput.data.partitions import Shards
from stayput.errors import InvalidSetting


def labelled(labels):
    return Examples(np.arange(len(labels)), np.asarray(labels))


def test_the_papers_clients_hold_two_shards_of_300_of_one_digit_each():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 6000))
    counts = labelled(labels).partition(Shards(), seed=2).label_counts()
    assert (counts.sum(axis=1) == 600).all()
    assert set(np.unique(counts)) <= {0, 300, 600}
    assert (counts > 0).sum(axis=1).max() == 2
    assert 0 < (counts == 600).any(axis=1).sum() < 30  # both shards of one digit: one in eleven or so


def test_a_shard_holds_a_second_label_only_where_a_label_ends():
    labels = np.random.default_rng(0).integers(0, 10, 5003)
    data = labelled(labels).partition(Shards(num_clients=100, shards_per_client=1), seed=0)
    assert set(data.client_sizes.tolist()) == {50, 51}
    kinds = (data.label_counts() > 0).sum(axis=1)
    assert kinds.max() == 2
    assert (kinds == 2).sum() <= 9


def test_examples_of_a_label_keep_their_order():
    rows = labelled([1, 0, 1, 0]).partition(Shards(num_clients=1, shards_per_client=1)).rows(0)
    assert rows.tolist() == [1, 3, 0, 2]


def test_which_shards_a_client_gets_is_random():
    data = labelled(np.repeat(np.arange(10), 20))
    first_labels = [data.partition(Shards(10, 1), seed=seed).label_counts()[0].argmax() for seed in range(40)]
    assert len(set(first_labels)) > 5


def test_more_shards_than_examples_are_refused():
    message = r"num_clients=4 with shards_per_client=3: must .* examples, 11 \(they make 12; lower either\)"
    with pytest.raises(InvalidSetting, match=message):
        labelled([0] * 11).partition(Shards(num_clients=4, shards_per_client=3))


@pytest.mark.parametrize("targets", [np.zeros(4), np.zeros((4, 2), dtype=int)])
def test_targets_without_labels_are_refused(targets):
    with pytest.raises(InvalidSetting, match=r"partition='shards' on targets of shape .*: must have one whole number"):
        labelled(targets).partition(Shards(2, 1))


@pytest.mark.parametrize("settings", [{"num_clients": 0}, {"shards_per_client": 0}, {"shards_per_client": 1.5}])
def test_what_are_no_counts_is_refused(settings):
    (name, value) = next(iter(settings.items()))
    with pytest.raises(InvalidSetting, match=f"{name}={value}: must be a whole number of at least 1"):
        Shards(**settings)
