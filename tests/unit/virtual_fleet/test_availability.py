"""When clients are there."""

import math

import numpy as np
import pytest

from stayput.data import Assignment, Examples, FederatedData
from stayput.errors import CorruptData, DataUnavailable, InvalidSetting
from stayput.virtual_fleet.availability import Always, Diurnal, Trace, time_zones
from stayput.virtual_fleet.devices import Devices
from stayput.virtual_fleet.settings import VirtualFleet

LABELS = np.repeat(np.random.default_rng(0).permutation(50), 4)
CLIENTS = FederatedData(Examples(np.zeros(200), LABELS), Assignment(None, np.arange(0, 201, 4)))


def test_always_is_always():
    assert Always().until(3, 1e9) == math.inf
    assert Always().next(3, 5.0) == 5.0


def test_time_zones_follow_the_data_as_far_as_asked():
    mean = LABELS[::4]
    zones = time_zones(CLIENTS, correlation=1.0, seed=0)
    assert np.corrcoef(zones, mean)[0, 1] > 0.999
    assert abs(np.corrcoef(time_zones(CLIENTS, correlation=0.0, seed=0), mean)[0, 1]) < 0.4
    half = time_zones(CLIENTS, correlation=0.5, seed=0)
    assert 15 <= np.sum(half == zones) <= 35
    assert zones.min() >= 0
    assert zones.max() < 1


def test_nights_are_eight_hours_and_follow_the_sun():
    diurnal = Diurnal(np.array([0.0, 0.5]), seed=1)
    here = {0: [], 1: []}
    for client, seen in here.items():
        for hour in np.arange(0, 24 * 20, 0.25):
            seen.append(diurnal.until(client, hour * 3600) is not None)
    shares = {client: np.mean(seen) for client, seen in here.items()}
    assert all(0.28 < share < 0.39 for share in shares.values())
    by_hour = np.array(here[0]).reshape(20, 96).mean(axis=0)
    assert by_hour[4 * 2] == 1.0  # two at night
    assert by_hour[4 * 14] == 0.0  # two in the afternoon
    assert np.array(here[1]).reshape(20, 96).mean(axis=0)[4 * 14] == 1.0  # half way round the earth


def test_next_and_until_agree():
    diurnal = Diurnal(np.random.default_rng(0).random(5), seed=2)
    for client in range(5):
        now = 0.0
        for _ in range(10):
            begin = diurnal.next(client, now)
            assert begin >= now
            end = diurnal.until(client, begin)
            assert end is not None
            assert begin == now or end - begin >= 4 * 3600
            assert diurnal.until(client, end) is None
            now = end


def trace_of(tmp_path, text, num_clients=3):
    (tmp_path / "trace.csv").write_text(text)
    return Trace.read(tmp_path / "trace.csv", num_clients)


def test_a_trace_is_looked_up(tmp_path):
    trace = trace_of(tmp_path, "client,begin,end\n2,5,9\n0,10,20\n2,30,40\n")
    assert (trace.until(2, 4.9), trace.until(2, 5.0), trace.until(2, 9.0)) == (None, 9.0, None)
    assert (trace.next(2, 0.0), trace.next(2, 6.0), trace.next(2, 9.0), trace.next(2, 40.0)) == (5.0, 6.0, 30.0, None)
    assert (trace.until(1, 5.0), trace.next(1, 0.0)) == (None, None)


@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        ("client,begin,end\n", InvalidSetting, "nobody is ever there"),
        ("who,begin,end\n0,1,2\n", CorruptData, "must have a head `client,begin,end`"),
        ("client,begin,end\n0,1,soon\n", CorruptData, "must have a head"),
        ("client,begin,end\n3,1,2\n", CorruptData, r"client 3 from 1 to 2: must be a client of 0\.\.2"),
        ("client,begin,end\n0,2,2\n", CorruptData, "comes before it leaves"),
        ("client,begin,end\n0,1,5\n0,4,6\n", CorruptData, "client 0 comes at 4 before it has left"),
    ],
)
def test_traces_that_make_no_sense_are_refused(tmp_path, text, error, sentence):
    with pytest.raises(error, match=sentence):
        trace_of(tmp_path, text)


def test_a_trace_that_is_not_there_is_unavailable(tmp_path):
    with pytest.raises(DataUnavailable, match=r"nowhere.csv': cannot be read"):
        Trace.read(tmp_path / "nowhere.csv", 3)


def test_speeds_spread_around_one():
    devices = Devices(VirtualFleet(speed_spread=0.5), seed=0)
    logs = np.log([devices.slowness(client) for client in range(2000)])
    assert abs(logs.mean()) < 0.05
    assert logs.std() == pytest.approx(0.5, rel=0.05)
    assert Devices(VirtualFleet(), seed=0).slowness(7) == 1.0
