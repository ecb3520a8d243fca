from __future__ import annotations

from itertools import permutations

import pytest
import torch

from stayput.core.weighted_sum import BLOCK, WeightedSum, blocks_of
from stayput.errors import InvalidSetting


def updates(dtype=torch.float32):
    make = torch.Generator().manual_seed(0)
    return {client: {"weights": {"w": torch.randn(5, generator=make, dtype=dtype)}} for client in (2, 5, 9, 11)}


def test_weights_are_shares_of_the_cohort_not_of_the_population():
    total = WeightedSum([0, 1])
    total.add(0, {"weights": {"w": torch.tensor([1.0])}}, weight=300)
    total.add(1, {"weights": {"w": torch.tensor([5.0])}}, weight=100)
    # The erratum: 300/400 and 100/400, whatever the other clients hold.
    assert total.mean()["weights"]["w"].item() == pytest.approx(2.0)


def test_the_order_of_arrival_changes_no_bit():
    results = set()
    for order in permutations((2, 5, 9, 11)):
        total = WeightedSum([2, 5, 9, 11])
        for client in order:
            total.add(client, updates()[client], weight=client * 7)
        results.add(tuple(total.mean()["weights"]["w"].tolist()))
    assert len(results) == 1


def test_the_mean_of_a_float32_model_is_taken_in_float64():
    total = WeightedSum([0, 1])
    total.add(0, {"weights": {"w": torch.tensor([1.0])}}, weight=1)
    total.add(1, {"weights": {"w": torch.tensor([1e-9])}}, weight=1)
    mean = total.mean()["weights"]["w"]
    assert mean.dtype == torch.float64
    assert mean.item() == pytest.approx(0.5 + 0.5e-9, abs=1e-13)


@pytest.mark.parametrize("client", [3, 2])
def test_a_stranger_and_a_second_update_are_refused(client):
    total = WeightedSum([2, 5])
    total.add(2, updates()[2], weight=1)
    with pytest.raises(InvalidSetting, match=f"client={client}"):
        total.add(client, updates()[5], weight=1)


def test_a_second_update_that_waits_is_refused():
    total = WeightedSum([2, 5])
    total.add(5, updates()[5], weight=1)
    with pytest.raises(InvalidSetting, match="client=5"):
        total.add(5, updates()[5], weight=1)


def test_a_mean_needs_the_whole_cohort():
    total = WeightedSum([2, 5, 9])
    total.add(5, updates()[5], weight=1)
    with pytest.raises(InvalidSetting, match="client 2, 5, 9"):
        total.mean()


def test_what_was_added_is_not_changed():
    update = updates()[2]
    before = update["weights"]["w"].clone()
    total = WeightedSum([2])
    total.add(2, update, weight=3)
    total.mean()
    assert torch.equal(update["weights"]["w"], before)


def test_blocks_that_were_summed_elsewhere_give_the_same_bits():
    make = torch.Generator().manual_seed(1)
    cohort = list(range(3, 3 + 2 * 75, 2))  # two whole blocks, and a rest
    all_updates = {k: {"weights": {"w": torch.randn(9, generator=make)}} for k in cohort}
    plain, mixed = WeightedSum(cohort), WeightedSum(cohort)
    for k in cohort:
        plain.add(k, all_updates[k], weight=k)
    blocks = [cohort[positions.start : positions.stop] for positions in blocks_of(len(cohort))]
    assert [len(block) for block in blocks] == [BLOCK, BLOCK, 11]
    for block in (blocks[2], blocks[0]):  # in any order
        elsewhere = WeightedSum(block)
        for k in block:
            elsewhere.add(k, all_updates[k], weight=k)
        mixed.add_block(block, *elsewhere.total())
    for k in reversed(blocks[1]):
        mixed.add(k, all_updates[k], weight=k)
    assert torch.equal(plain.mean()["weights"]["w"], mixed.mean()["weights"]["w"])
    exact = sum(all_updates[k]["weights"]["w"].double() * k for k in cohort) / sum(cohort)
    torch.testing.assert_close(plain.mean()["weights"]["w"], exact, rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("clients", [[3, 4], [0, 1, 2], range(1, 33)])
def test_only_whole_blocks_are_taken_as_such(clients):
    total = WeightedSum(range(40))
    with pytest.raises(InvalidSetting, match="must be one whole block of the cohort"):
        total.add_block(clients, updates()[2], weight=1.0)
