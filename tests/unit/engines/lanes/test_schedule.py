from __future__ import annotations

import numpy as np
import pytest

from stayput.engines.lanes.schedule import pack, widths_up_to


def check(schedule, steps):
    """Every job runs whole, once; a lane does one thing at a time; busy lanes are within their stretch's width."""
    assert sorted(p.job for p in schedule.placements) == list(range(len(steps)))
    taken = set()
    for p in schedule.placements:
        assert p.num_steps == steps[p.job]
        for step in range(p.first_step, p.first_step + p.num_steps):
            assert (p.lane, step) not in taken
            taken.add((p.lane, step))
            width = next(s.width for s in schedule.stretches if s.first_step <= step < s.first_step + s.num_steps)
            assert p.lane < width
    assert sum(s.num_steps for s in schedule.stretches) == schedule.num_steps
    assert [s.first_step for s in schedule.stretches] == list(
        np.cumsum([0, *[s.num_steps for s in schedule.stretches]])[:-1]
    )


@pytest.mark.parametrize("num_lanes", [1, 2, 3, 5, 8, 100])
@pytest.mark.parametrize("steps", [[5], [1, 1, 1], [7, 1, 12, 10], [60] * 10, [100, *range(1, 30)]])
def test_every_client_runs_whole_and_once(steps, num_lanes):
    check(pack(steps, num_lanes), steps)


def test_equal_clients_keep_all_lanes_busy():
    schedule = pack([60] * 110, 110)
    assert schedule.occupancy == 1
    assert [(s.width, s.num_steps) for s in schedule.stretches] == [(110, 60)]


@pytest.mark.parametrize("num_lanes", [32, 64, 128])
@pytest.mark.parametrize("seed", range(5))
def test_unbalanced_clients_leave_few_lanes_idle(num_lanes, seed):
    # Shakespeare-like: log-normal sizes, one client a hundred times the median.
    sizes = np.exp(np.random.default_rng(seed).normal(size=1146) * 1.5) * 30
    sizes[0] = 100 * np.median(sizes)
    steps = np.ceil(sizes / 10).astype(int)
    schedule = pack(steps, num_lanes)
    assert schedule.useful_steps == steps.sum()
    assert schedule.occupancy >= 0.9


def test_the_longest_client_begins_first():
    assert pack([3, 50, 4], 2).placements[0].job == 1


@pytest.mark.parametrize(
    ("lanes", "widths"),
    [
        (1, [1]),
        (2, [2, 1]),
        (3, [3, 2, 1]),
        (8, [8, 6, 4, 3, 2, 1]),
        (110, [110, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1]),
    ],
)
def test_widths(lanes, widths):
    assert widths_up_to(lanes) == widths
