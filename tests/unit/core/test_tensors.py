from __future__ import annotations

import pytest
import torch

from stayput.core.tensors import (
    add_in_own_dtype,
    all_finite,
    descend,
    difference,
    fingerprint,
    flatten,
    unflatten,
)


def test_descend_takes_a_step_down_the_gradient():
    weights = {"w": torch.tensor([1.0, 2.0])}
    stepped = descend(weights, {"w": torch.tensor([10.0, -10.0])}, 0.1)
    torch.testing.assert_close(stepped["w"], torch.tensor([0.0, 3.0]))
    assert weights["w"].tolist() == [1.0, 2.0]


def test_descend_takes_a_rate_per_lane():
    weights = {"w": torch.ones(2, 3)}
    stepped = torch.func.vmap(lambda w, g, rate: descend({"w": w}, {"w": g}, rate))(
        weights["w"], torch.ones(2, 3), torch.tensor([0.1, 0.5])
    )
    torch.testing.assert_close(stepped["w"], torch.tensor([[0.9] * 3, [0.5] * 3]))


def test_a_mean_of_whole_numbers_takes_the_nearest():
    state = {"buffers": {"count": torch.tensor(5)}, "other": {"kept": torch.tensor(1.5)}}
    changed = add_in_own_dtype(state, {"buffers": {"count": torch.tensor(2.6, dtype=torch.float64)}})
    assert changed["buffers"]["count"].dtype == torch.int64
    assert changed["buffers"]["count"].item() == 8
    assert changed["other"]["kept"].item() == 1.5


def test_the_sum_is_rounded_once_at_the_end():
    state = {"weights": {"w": torch.tensor([1.0])}}
    half_an_ulp_and_a_bit = torch.tensor([2.0**-24 * 1.01], dtype=torch.float64)
    assert add_in_own_dtype(state, {"weights": {"w": half_an_ulp_and_a_bit}})["weights"]["w"].item() > 1


def test_difference_covers_the_groups_of_what_is_subtracted():
    far, near = (
        {"weights": {"w": torch.tensor(3.0)}, "scratch": {"s": torch.tensor(1.0)}},
        {"weights": {"w": torch.tensor(1.0)}},
    )
    assert {k: {n: t.item() for n, t in v.items()} for k, v in difference(far, near).items()} == {"weights": {"w": 2.0}}


def test_flat_names_go_there_and_back():
    groups = {"weights": {"a.b": torch.ones(1), "c": torch.ones(2)}, "buffers": {"c": torch.ones(3)}}
    assert list(flatten(groups)) == ["weights/a.b", "weights/c", "buffers/c"]
    assert unflatten(flatten(groups)).keys() == groups.keys()


@pytest.mark.parametrize(
    "other",
    [
        {"weights": {"w": torch.tensor([1.0, 2.0000002])}},
        {"weights": {"w": torch.tensor([1.0, 2.0], dtype=torch.float64)}},
        {"weights": {"w": torch.tensor([[1.0, 2.0]])}},
        {"weights": {"v": torch.tensor([1.0, 2.0])}},
        {"buffers": {"w": torch.tensor([1.0, 2.0])}},
    ],
)
def test_a_fingerprint_sees_every_bit(other):
    assert fingerprint({"weights": {"w": torch.tensor([1.0, 2.0])}}) != fingerprint(other)


def test_a_fingerprint_sees_values_and_not_their_layout():
    square = torch.arange(6.0).reshape(2, 3)
    transposed_twice = square.t().contiguous().t()
    ours = fingerprint({"weights": {"w": square}, "a": {"s": torch.tensor(1, dtype=torch.bfloat16)}})
    assert ours == fingerprint({"a": {"s": torch.tensor(1, dtype=torch.bfloat16)}, "weights": {"w": transposed_twice}})


@pytest.mark.parametrize(("value", "finite"), [(1.0, True), (float("nan"), False), (float("-inf"), False)])
def test_all_finite(value, finite):
    assert all_finite({"weights": {"w": torch.tensor([0.0, value]), "n": torch.tensor([3])}}) is finite
