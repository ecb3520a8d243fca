"""Rounds under the virtual clock: who reports, when, and what it costs; with the deployment's own coordinator."""

from __future__ import annotations

import numpy as np
import pytest

import stayput as sp
from stayput.core.cohort import choose_cohort
from stayput.core.named_settings import to_plain
from stayput.errors import InvalidSetting, TrainingError
from stayput.experiments.preparing import Parts
from stayput.experiments.training import train_spec
from stayput.runs.run_folder import RunFolder
from stayput.runs.spec import RunSpec
from stayput.testing import toy_clients, toy_examples, toy_task
from stayput.virtual_fleet.settings import VirtualFleet
from stayput.virtual_fleet.training import train_under_clock

SIZES = tuple(np.random.default_rng(0).integers(5, 40, size=30).tolist())
CLIENTS = toy_clients(SIZES)
FED_AVG = sp.FedAvg(client_fraction=0.2, batch_size=5)


def trained(settings=FED_AVG, rounds=6, clients=CLIENTS, *, folder=None, resume=False, **fleet):
    """A run under the clock, or a plain one if there is no fleet."""
    plain = VirtualFleet(**fleet).to_plain() if fleet else {}
    spec = RunSpec("custom", {"name": "custom"}, to_plain(settings), rounds, seed=3, fleet=plain, checkpoint_every=2)
    parts = Parts(toy_task(), clients, settings.algorithm(), toy_examples(50, seed=1))
    train = train_under_clock if fleet else train_spec
    return train(spec, parts, folder=folder, resume=resume)


def last(run):
    return run.history.reports[-1].simulated


def test_clients_that_are_always_there_make_the_run_without_a_clock():
    plain, clocked = trained(), trained(availability="always")
    assert plain.model_sha256 == clocked.model_sha256
    assert [r.num_examples for r in plain.history.reports] == [r.num_examples for r in clocked.history.reports]
    cohort = choose_cohort(30, 0.2, seed=3, round_number=1)
    assert clocked.history.reports[1].num_examples == sum(SIZES[k] for k in cohort)
    assert last(plain) == {}
    assert last(clocked)["dropouts"] == 0
    assert last(clocked)["asked"] == 36


def test_time_and_bytes_are_those_worked_out_by_hand():
    clients = toy_clients((7, 12))
    settings = sp.FedAvg(client_fraction=1.0, batch_size=5, local_epochs=2)
    run = trained(settings, 3, clients, seconds_per_step=2.0, uplink=0.001, downlink=0.01)
    num_bytes = 4 * sum(p.numel() for p in toy_task().model().parameters())
    slowest = num_bytes / 10_000 + 2.0 * 2 * 3 + num_bytes / 1000  # twelve examples: three steps an epoch
    for number, report in enumerate(run.history.reports[1:], start=1):
        assert report.simulated["seconds"] == pytest.approx(number * slowest)
        assert report.simulated["bytes_up"] == report.simulated["bytes_down"] == pytest.approx(2 * number * num_bytes)


def test_over_selection_does_not_wait_for_the_slowest():
    waiting = last(trained(speed_spread=1.0, rounds=10))
    over = last(trained(speed_spread=1.0, over_selection=1.5, rounds=10))
    assert over["seconds"] < 0.8 * waiting["seconds"]
    assert over["dropouts"] >= 10  # asked beyond need, in each round
    assert over["asked"] > waiting["asked"]


def test_a_deadline_ends_a_round_with_those_who_have_reported():
    run = trained(sp.FedAvg(client_fraction=1.0, batch_size=5), 5, speed_spread=1.5, round_deadline=1.0)
    cohorts = [report.cohort_size for report in run.history.reports[1:]]
    assert all(15 <= size < 30 for size in cohorts)  # the minimum is half of them
    assert last(run)["seconds"] <= 5 * 1.0 + 1e-6
    assert last(run)["dropouts"] == sum(30 - size for size in cohorts)


def test_devices_that_vanish_are_replaced():
    run = trained(dropout=0.3, rounds=10)
    assert [report.cohort_size for report in run.history.reports[1:]] == [6] * 10
    assert last(run)["dropouts"] > 5
    assert last(run)["seconds"] > 90  # a lease has to end before anybody knows
    assert last(run)["bytes_up"] < last(run)["bytes_down"]


def test_a_run_repeats_and_another_seed_is_another_run():
    fleet = {"availability": "diurnal", "dropout": 0.2, "speed_spread": 0.5}
    first, again = trained(**fleet), trained(**fleet)
    assert first.model_sha256 == again.model_sha256
    assert [r.simulated for r in first.history.reports] == [r.simulated for r in again.history.reports]


def test_an_interrupted_run_goes_on_to_the_same_model_and_times(tmp_path):
    fleet = {"dropout": 0.2, "speed_spread": 0.5, "over_selection": 1.3}
    whole = trained(rounds=8, **fleet)
    trained(rounds=4, folder=tmp_path / "run", **fleet)
    resumed = trained(rounds=8, folder=tmp_path / "run", resume=True, **fleet)
    assert resumed.model_sha256 == whole.model_sha256
    assert last(resumed) == last(whole)
    assert RunFolder(tmp_path / "run").result["simulated"] == last(whole)


def test_clients_that_are_never_there_long_enough_are_an_error(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("client,begin,end\n0,0,0.001\n")
    with pytest.raises(TrainingError, match="round 1: 100 simulated days were not enough for it: "):
        trained(availability=str(trace))


def test_only_those_who_are_there_take_part(tmp_path):
    sizes = (5, 10, 15)  # of the clients who are there in the first, the second and the third thousand seconds
    lines = [f"{k},{1000 * (k // 10)},{1000 * (k // 10) + 900}" for k in range(30)]
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(["client,begin,end", *lines]))
    clients = toy_clients(tuple(np.repeat(sizes, 10).tolist()))
    run = trained(rounds=20, clients=clients, availability=str(trace), seconds_per_step=70.0, round_deadline=400.0)
    seen = set()
    for report in run.history.reports[1:]:
        turn = int(report.simulated["seconds"] // 1000)
        seen.add(turn)
        assert report.num_examples == report.cohort_size * sizes[turn]
    assert seen == {0, 1, 2}


@pytest.mark.parametrize(
    ("settings", "fleet", "sentence"),
    [
        (sp.CentralSgd(), {"dropout": 0.1}, "central_sgd has no clients that come and go"),
        (sp.Scaffold(), {"buffer_size": 3}, "clients of scaffold keep something from round to round"),
    ],
)
def test_algorithms_without_such_clients_are_refused(settings, fleet, sentence):
    with pytest.raises(InvalidSetting, match=sentence):
        trained(settings, **fleet)


@pytest.mark.parametrize(
    ("fleet", "sentence"),
    [
        ({"availability": "sometimes"}, "availability='sometimes': unknown"),
        ({"over_selection": 0.9}, "over_selection=0.9: must be at least 1"),
        ({"dropout": 1.0}, "dropout=1.0: must be at least 0 and less than 1"),
        ({"uplink": 0}, "uplink=0: must be a positive number"),
        ({"buffer_size": 0}, "buffer_size=0: must be a whole number of at least 1"),
    ],
)
def test_settings_that_break_their_rules_are_refused(fleet, sentence):
    with pytest.raises(InvalidSetting, match=sentence):
        VirtualFleet(**fleet)


# FedBuff


def test_a_buffer_as_large_as_the_cohort_of_equal_devices_is_fed_avg_at_its_first_step():
    clients = toy_clients((10,) * 12)
    settings = sp.FedAvg(client_fraction=1.0, batch_size=5)
    assert trained(settings, 1, clients).model_sha256 == trained(settings, 1, clients, buffer_size=12).model_sha256


def test_a_buffer_does_not_wait_for_slow_devices():
    waiting = last(trained(speed_spread=1.0, rounds=10))
    buffered = trained(speed_spread=1.0, rounds=10, buffer_size=6)
    assert last(buffered)["seconds"] < waiting["seconds"]
    assert all(report.cohort_size == 6 for report in buffered.history.reports[1:])
    losses = [report.evaluation["loss"] for report in buffered.history.reports]
    assert losses[-1] < losses[0]


def test_stale_updates_count_less():
    from types import SimpleNamespace

    import torch

    from stayput.core.engine import CohortResult
    from stayput.virtual_fleet.buffered import combined

    works = [SimpleNamespace(round_number=number) for number in (2, 5)]
    results = [
        CohortResult({"weights": {"w": torch.tensor([value], dtype=torch.float64)}}, [count], [1], [0.5], [True])
        for value, count in ((1.0, 30), (2.0, 10))
    ]
    found = combined(works, results, 5)
    assert found.mean["weights"]["w"].item() == pytest.approx((0.5 * 30 * 1.0 + 1.0 * 10 * 2.0) / 40)
    assert list(found.num_examples) == [30, 10]


def test_a_buffered_run_with_dropouts_repeats_and_does_not_resume(tmp_path):
    fleet = {"buffer_size": 4, "dropout": 0.2, "speed_spread": 0.7, "availability": "diurnal"}
    first = trained(folder=tmp_path / "run", **fleet)
    assert first.model_sha256 == trained(**fleet).model_sha256
    assert last(first)["dropouts"] > 0
    with pytest.raises(InvalidSetting, match="cannot go on from round 6"):
        trained(rounds=9, folder=tmp_path / "run", resume=True, **fleet)


def test_more_updates_than_clients_is_an_error():
    with pytest.raises(TrainingError, match="there must be more of them than updates in the buffer"):
        trained(clients=toy_clients((5, 6)), buffer_size=3)
