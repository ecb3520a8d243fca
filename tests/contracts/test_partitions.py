"""What every partition promises, checked on each of them, and on unbalanced sizes over each of them."""

import dataclasses

import numpy as np
import pytest

from stayput.data import Examples
from stayput.data.partitions import PARTITIONS, ByKey, Dirichlet, Iid, Partition, Shards, Unbalanced
from stayput.errors import InvalidSetting

PLAIN = [
    Iid(num_clients=7),
    Shards(num_clients=7, shards_per_client=2),
    Dirichlet(num_clients=7, alpha=0.5),
    Dirichlet(num_clients=7, alpha=0.01),
    Dirichlet(num_clients=7, alpha=1000),
    ByKey(key="writer"),
]
OVER_EACH = [Unbalanced(over=over, sizes=sizes) for over in PLAIN for sizes in ("log_normal", "power_law")]
ALL = [*PLAIN, *OVER_EACH]


def examples(count):
    """`count` examples of labels 0..9 in unequal numbers, by seven writers."""
    random = np.random.default_rng(count)
    labels = np.minimum(random.geometric(0.25, count) - 1, 9).astype(np.uint8)
    writers = np.concatenate([np.arange(7), random.integers(0, 7, count - 7)])
    return Examples(np.arange(count), labels, {"writer": writers})


every_partition = pytest.mark.parametrize("partition", ALL, ids=str)


def test_each_partition_of_the_table_is_held_to_the_promises():
    assert {type(partition) for partition in ALL} == set(PARTITIONS.values())
    assert all(PARTITIONS[partition.name] is type(partition) for partition in ALL)


@pytest.mark.parametrize("kind", PARTITIONS.values())
def test_each_says_what_it_is_and_can_be_made_without_settings(kind):
    assert kind.summary
    assert len(kind.summary.splitlines()) == 1
    assert dataclasses.is_dataclass(kind())
    assert kind() == kind()
    assert hash(kind()) == hash(kind())


@every_partition
@pytest.mark.parametrize("count", [14, 15, 100, 997, 3000])
def test_every_example_goes_to_exactly_one_client_and_no_client_is_empty(partition, count):
    assignment = partition.assign(examples(count), seed=3)
    assert np.sort(assignment.order).tolist() == list(range(count))
    sizes = np.diff(assignment.offsets)
    assert assignment.num_clients == 7
    assert sizes.sum() == count
    assert sizes.min() >= 1
    assert assignment.order.dtype == assignment.offsets.dtype == np.int64


@every_partition
def test_the_same_seed_decides_the_same(partition):
    data = examples(500)
    first, again = (data.partition(partition, seed=5) for _ in range(2))
    assert first.partition_fingerprint == again.partition_fingerprint


@every_partition
def test_another_seed_decides_otherwise_where_anything_is_random(partition):
    data = examples(500)
    fingerprints = {data.partition(partition, seed=seed).partition_fingerprint for seed in range(4)}
    assert len(fingerprints) == (1 if isinstance(partition, ByKey) else 4)


@every_partition
def test_numpys_and_pythons_own_generators_are_neither_used_nor_disturbed(partition):
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - this is the state that must not change
    partition.assign(examples(100), seed=0)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002 - as above


@every_partition
def test_the_data_is_not_touched(partition):
    data = examples(100)
    for column in (data.inputs, data.targets, data.keys["writer"]):
        column.setflags(write=False)
    partition.assign(data, seed=0)


@pytest.mark.parametrize("partition", [p for p in ALL if not isinstance(getattr(p, "over", p), ByKey)], ids=str)
def test_more_clients_than_examples_are_refused(partition):
    few = Examples(np.arange(5), np.zeros(5, dtype=int))
    with pytest.raises(InvalidSetting, match=r"num_clients=7.*: must .* examples, 5"):
        partition.assign(few, seed=0)


def test_a_partition_of_ones_own_can_be_cut_anew_too():
    @dataclasses.dataclass(frozen=True)
    class OddAndEven:
        name = "odd_and_even"

        def assign(self, examples, *, seed):
            return Iid(num_clients=2).assign(examples, seed=seed)

    own: Partition = OddAndEven()
    assert Unbalanced(over=own).assign(examples(50), seed=0).num_clients == 2
