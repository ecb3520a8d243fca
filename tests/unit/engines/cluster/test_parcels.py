"""How a round is cut into parcels, and in which order they are handed out: no Ray needed."""

from types import SimpleNamespace

import numpy as np
import pytest

from stayput.core.local_work import LocalPlan
from stayput.core.weighted_sum import BLOCK
from stayput.engines.cluster.parcels import CostModel, Parcel, parcels_of
from stayput.testing import toy_clients

SIZES = tuple(np.random.default_rng(0).integers(1, 50, size=700).tolist())
CLIENTS = toy_clients(SIZES)


def work(cohort):
    return SimpleNamespace(cohort=np.array(cohort), plan=LocalPlan(0.1, batch_size=5, local_epochs=2))


@pytest.mark.parametrize("num_workers", [1, 2, 3, 16])
@pytest.mark.parametrize("always_blocks", [False, True])
@pytest.mark.parametrize("sizes", [[1], [10], [10, 10, 10], [33], [100], [650, 3]])
def test_every_client_is_in_one_parcel_that_stays_within_a_block(num_workers, always_blocks, sizes):
    works = [work(range(size)) for size in sizes]
    parcels = parcels_of(works, CLIENTS, CostModel(), num_workers=num_workers, always_blocks=always_blocks)
    for member, each in enumerate(works):
        mine = sorted(client for parcel in parcels if parcel.member == member for client in parcel.clients)
        assert mine == each.cohort.tolist()
    for parcel in parcels:
        positions = works[parcel.member].cohort.searchsorted(parcel.clients)
        assert positions.min() // BLOCK == positions.max() // BLOCK
        whole = {BLOCK, len(works[parcel.member].cohort) % BLOCK}
        assert not parcel.whole_block or len(parcel.clients) in whole
    assert not always_blocks or all(parcel.whole_block for parcel in parcels)


def test_many_blocks_for_each_worker_are_summed_where_they_are_and_few_are_not():
    cohort = [work(range(650))]
    assert all(parcel.whole_block for parcel in parcels_of(cohort, CLIENTS, CostModel(), num_workers=2))
    assert not any(parcel.whole_block for parcel in parcels_of(cohort, CLIENTS, CostModel(), num_workers=4))


def test_the_longest_come_first_by_examples_until_something_was_measured():
    parcels = parcels_of([work(range(20))], CLIENTS, CostModel(), num_workers=2)
    padded = [2 * -(-size // 5) * min(5, size) for size in SIZES[:20]]
    assert [parcel.examples for parcel in parcels] == sorted(padded, reverse=True)


def test_costs_are_learned_per_step_and_per_example():
    cost = CostModel()
    parcel = Parcel(0, (0,), whole_block=False, steps=7, examples=70)
    assert cost.seconds(parcel) is None
    draw = np.random.default_rng(0)
    for _ in range(50):
        steps = int(draw.integers(1, 20))
        examples = steps * int(draw.integers(1, 30))
        cost.learn(Parcel(0, (0,), whole_block=False, steps=steps, examples=examples), 0.01 * steps + 0.001 * examples)
    assert cost.seconds(parcel) == pytest.approx(0.14, rel=0.01)
    slow = parcels_of([work([0]), work([1])], CLIENTS, cost, num_workers=1)
    assert cost.rank(slow[0]) >= cost.rank(slow[1])


def test_costs_follow_a_machine_that_becomes_slower():
    cost = CostModel()
    parcel = Parcel(0, (0,), whole_block=False, steps=10, examples=100)
    for seconds in [1.0] * 20 + [2.0] * 300:
        cost.learn(parcel, seconds)
    assert cost.seconds(parcel) == pytest.approx(2.0, rel=0.01)


def test_clients_that_are_short_share_parcels_but_leave_two_for_each_worker():
    cost = CostModel()
    cost.learn(Parcel(0, (0,), whole_block=False, steps=10, examples=50), 0.02)
    together = parcels_of([work(range(30))], CLIENTS, cost, num_workers=2)
    assert {len(parcel.clients) for parcel in together} == {2}
    cost = CostModel()
    cost.learn(Parcel(0, (0,), whole_block=False, steps=10, examples=50), 0.0001)
    together = parcels_of([work(range(30))], CLIENTS, cost, num_workers=2)
    assert sorted(len(parcel.clients) for parcel in together) == [6, 8, 8, 8]
    cost.learn(Parcel(0, (0,), whole_block=False, steps=10, examples=50), 5.0)
    assert {len(parcel.clients) for parcel in parcels_of([work(range(30))], CLIENTS, cost, num_workers=2)} == {1}
