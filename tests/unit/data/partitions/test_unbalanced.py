import numpy as np
import pytest

from stayput.data import Examples
from stayput.data.partitions import ByKey, Iid, Shards, Unbalanced
from stayput.errors import InvalidSetting, UnknownName

DATA = Examples(np.arange(1_000_000), np.repeat(np.arange(10), 100_000))


def log_sizes(**settings):
    population = DATA.partition(Unbalanced(over=Iid(num_clients=2000), **settings), seed=1)
    return np.log(population.client_sizes)


def test_log_normal_sizes_have_a_normal_logarithm_of_that_spread():
    logs = log_sizes(sizes="log_normal", spread=0.7)
    assert 0.66 < logs.std() < 0.74
    assert abs(np.mean(((logs - logs.mean()) / logs.std()) ** 3)) < 0.25


def test_power_law_sizes_have_an_exponential_logarithm_of_that_spread():
    logs = log_sizes(sizes="power_law", spread=0.4)
    assert 0.36 < logs.std() < 0.44
    assert 1.4 < np.mean(((logs - logs.mean()) / logs.std()) ** 3) < 2.9  # an exponential's skewness is 2


def test_spread_0_makes_sizes_equal():
    sizes = DATA.partition(Unbalanced(over=Iid(num_clients=300), spread=0)).client_sizes
    assert sizes.max() - sizes.min() <= 1


def test_a_huge_spread_leaves_one_example_to_most():
    sizes = DATA.partition(Unbalanced(over=Iid(num_clients=50), spread=1e300)).client_sizes
    assert sorted(sizes.tolist())[:49] == [1] * 49


def test_the_other_partitions_sequence_is_cut_and_not_shuffled():
    inner = Shards(num_clients=20)
    cut = DATA.partition(Unbalanced(over=inner), seed=3)
    np.testing.assert_array_equal(cut.assignment.order, DATA.partition(inner, seed=3).assignment.order)
    assert cut.num_clients == 20


def test_as_many_clients_as_examples_hold_one_each():
    few = Examples(np.arange(5), np.arange(5))
    assert few.partition(Unbalanced(over=Iid(num_clients=5))).client_sizes.tolist() == [1] * 5


def test_clients_cut_anew_have_numbers_for_names():
    named = Examples(np.arange(4), np.arange(4), {"writer": np.array(["a", "b", "b", "b"])})
    assert named.partition(Unbalanced(over=ByKey())).assignment.client_ids is None


def test_settings_outside_their_rules_are_refused():
    with pytest.raises(InvalidSetting, match=r"over=Unbalanced\(.*: must be another partition \(such as Shards"):
        Unbalanced(over=Unbalanced())
    with pytest.raises(InvalidSetting, match=r"over='iid': must be another partition"):
        Unbalanced(over="iid")
    with pytest.raises(UnknownName, match=r"sizes='lognormal': unknown; did you mean 'log_normal'\? known: log_normal"):
        Unbalanced(sizes="lognormal")
    with pytest.raises(InvalidSetting, match=r"spread=-1: must be a positive number \(or 0 for equal sizes\)"):
        Unbalanced(spread=-1)
