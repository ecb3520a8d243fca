from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from stayput.core.local_work import LocalPlan, passes

KEY = {"seed": 5, "round_number": 2, "client": 3}


def batches(plan, num_examples, **key):
    length = plan.batch_length(num_examples)
    return [
        order[first : first + length].tolist()
        for order in passes(plan, num_examples, **{**KEY, **key})
        for first in range(0, len(order), length)
    ]


@pytest.mark.parametrize(("num_examples", "batch_size", "epochs"), [(7, 3, 2), (6, 3, 1), (1, 10, 3), (10, 1, 2)])
def test_every_pass_uses_every_example_once_and_the_last_batch_is_smaller(num_examples, batch_size, epochs):
    plan = LocalPlan(0.1, batch_size, epochs)
    made = batches(plan, num_examples)
    per_epoch = -(-num_examples // batch_size)
    assert len(made) == epochs * per_epoch == plan.num_steps(num_examples)
    for epoch in range(epochs):
        one_pass = made[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert sorted(chain.from_iterable(one_pass)) == list(range(num_examples))
        assert all(len(batch) == min(batch_size, num_examples) for batch in one_pass[:-1])
        assert len(one_pass[-1]) == (num_examples - 1) % batch_size + 1 if num_examples >= batch_size else True


def test_each_epoch_round_and_client_shuffles_anew():
    first, second = passes(LocalPlan(0.1, 10, 2), 50, **KEY)
    assert not np.array_equal(first, second)
    assert batches(LocalPlan(0.1, 10), 50) != batches(LocalPlan(0.1, 10), 50, round_number=3)
    assert batches(LocalPlan(0.1, 10), 50) != batches(LocalPlan(0.1, 10), 50, client=4)
    assert batches(LocalPlan(0.1, 10), 50) == batches(LocalPlan(0.1, 10), 50)


@pytest.mark.parametrize("batch_size", ["all", 50, 80])
def test_a_batch_of_everything_keeps_the_stored_order(batch_size):
    assert batches(LocalPlan(0.1, batch_size, 2), 50) == [list(range(50))] * 2


def test_numbered_minibatches_are_stretches_of_one_endless_sequence():
    whole = batches(LocalPlan(0.1, 3, minibatches=range(12)), 7)
    assert [len(batch) for batch in whole] == [3, 3, 1] * 4
    # However the sequence is cut into rounds, and whatever round it is: the same minibatches.
    for cuts in ([0, 1, 5, 6, 12], [0, 4, 8, 12], range(13)):
        pieces = [
            batches(LocalPlan(0.1, 3, minibatches=range(start, stop)), 7, round_number=number)
            for number, (start, stop) in enumerate(zip(cuts, list(cuts)[1:], strict=False))
        ]
        assert list(chain.from_iterable(pieces)) == whole
        assert LocalPlan(0.1, 3, minibatches=range(4)).num_steps(7) == 4
