"""P2: an update counts exactly once, however often it is sent, in whatever order, across restarts."""

from __future__ import annotations

import random

import pytest
from deployment_simulation import MemoryStore

from stayput.deploy import records as r
from stayput.deploy.coordinator import Coordinator
from stayput.deploy.fleet_settings import FleetSettings

CLIENTS, ROUNDS = 50, 2000
"""10^5 updates."""
SETTINGS = FleetSettings(round_deadline=1e9, lease=1e8, heartbeat=1.0)


def started(store):
    return Coordinator(SETTINGS, seed=1, client_fraction=1.0, snapshot=store.snapshot(), now=0.0)


def stored(store, actions):
    changes = [change for action in actions if isinstance(action, r.Changes) for change in action.changes]
    if changes:
        store.apply(changes)
    return actions


@pytest.mark.slow
def test_of_a_hundred_thousand_updates_none_counts_twice_and_none_is_lost():
    draw = random.Random(2)  # noqa: S311 - a test's own, which must repeat
    store = MemoryStore(clients=dict.fromkeys(range(CLIENTS), 5))
    machine = started(store)
    accepted, counted, restarts, late = set(), 0, 0, []
    for number in range(1, ROUNDS + 1):
        for client in range(CLIENTS):
            stored(store, machine.handle(r.Polled(client, True, 5), 0.0))
        updates = [
            r.UpdateChecked(c, f"r{number}-c{c}-1", r.Update(f"{number}.{c}", 5, 1, 0.5)) for c in range(CLIENTS)
        ]
        # Each is sent one to six times, all mixed, with some of the round before among them.
        sent = [update for update in updates for _ in range(draw.randint(1, 6))] + late
        draw.shuffle(sent)
        order = None
        for event in sent:
            if draw.random() < 0.0005:
                machine, restarts = started(store), restarts + 1
            actions = stored(store, machine.handle(event, 0.0))
            accepted |= {a.task for a in actions if isinstance(a, r.Receipt) and a.accepted}
            order = next((a for a in actions if isinstance(a, r.SumRound)), order)
        late = draw.sample(updates, 10)
        assert [client for client, _ in order.updates] == list(range(CLIENTS))
        assert [update.sha256 for _, update in order.updates] == [f"{number}.{c}" for c in range(CLIENTS)]
        counted += len(order.updates)
        result = r.RoundResult(str(number), str(number), {}, number == ROUNDS)
        stored(store, machine.handle(r.RoundSummed(number, result), 0.0))
        store.closed.clear()  # they have been looked at
    assert counted == len(accepted) == CLIENTS * ROUNDS
    assert restarts > 50
