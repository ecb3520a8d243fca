"""P16: a fleet's requests are spread over time, also after a crash."""

from __future__ import annotations

import heapq
from collections import Counter

import pytest

from stayput.deploy import records as r
from stayput.deploy.coordinator import Coordinator
from stayput.deploy.fleet_settings import FleetSettings
from stayput.deploy.pace import LONGEST_HOLD, Pace


@pytest.mark.parametrize(("num_clients", "rate"), [(10, 200.0), (500, 50.0), (5000, 100.0)])
def test_after_a_crash_no_second_has_more_than_twice_the_steady_rate(num_clients, rate):
    settings = FleetSettings(steady_rate=rate, hold=5.0, start_with=num_clients + 1)
    snapshot = r.Snapshot(dict.fromkeys(range(num_clients), 5), last_closed=0)
    machine = Coordinator(settings, seed=0, client_fraction=0.0, snapshot=snapshot, now=0.0)
    pace = Pace(settings, range(num_clients))
    steady = num_clients / pace.period
    requests = Counter()
    # Everybody loses the coordinator at the same moment, and it is back at once.
    events = [(machine.reconnect_in(client), client) for client in range(num_clients)]
    heapq.heapify(events)
    while events and events[0][0] < 3 * pace.period:
        now, client = heapq.heappop(events)
        due = machine.next_time_out()
        if due is not None and due <= now:
            for rest in machine.handle(r.Tick(), due):
                if isinstance(rest, r.Rest):
                    heapq.heappush(events, (due + rest.seconds, rest.client))
            heapq.heappush(events, (now, client))
            continue
        requests[int(now)] += 1
        for rest in machine.handle(r.Polled(client, True, 5), now):
            if isinstance(rest, r.Rest):
                heapq.heappush(events, (now + rest.seconds, rest.client))
        if not events and (due := machine.next_time_out()) is not None:
            for rest in machine.handle(r.Tick(), due):
                if isinstance(rest, r.Rest):
                    heapq.heappush(events, (due + rest.seconds, rest.client))
    whole_seconds = [count for second, count in requests.items() if second < 3 * pace.period - 1]
    assert sum(whole_seconds) > num_clients
    assert max(whole_seconds) <= max(2 * steady, 2)


def test_no_poll_is_held_longer_than_proxies_allow():
    pace = Pace(FleetSettings(steady_rate=1.0), range(1000))
    assert pace.hold(0) == LONGEST_HOLD
    assert pace.hold(0) + pace.rest(0) == 1000.0
