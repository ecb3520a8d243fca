import numpy as np
import pytest

from stayput.data import Examples
from stayput.data.partitions import Iid
from stayput.errors import InvalidSetting


def test_mnist_sized_data_gives_a_hundred_clients_600_mixed_examples():
    labels = np.repeat(np.arange(10), 6000)
    counts = Examples(labels, labels).partition(Iid(), seed=1).label_counts()
    assert counts.shape == (100, 10)
    assert (counts.sum(axis=1) == 600).all()
    # A label's count at a client is hypergeometric: 60 on average, standard deviation 7.3.
    assert np.abs(counts - 60).max() < 6 * 7.3
    assert 6.5 < counts.std() < 8.1


def test_targets_need_not_be_labels():
    assert Examples(np.zeros(9), np.zeros((9, 2))).partition(Iid(num_clients=4)).num_clients == 4


@pytest.mark.parametrize("count", [0, -1, 2.0, True, "all"])
def test_what_is_no_number_of_clients_is_refused(count):
    with pytest.raises(InvalidSetting, match=r"num_clients=.*: must be a whole number of at least 1 \(K, the clients"):
        Iid(num_clients=count)
