"""A whole deployment under a virtual clock, by the thousand: see `deployment_simulation.py`."""

from __future__ import annotations

from collections import Counter

import pytest
from deployment_simulation import HARD, KILLS, Faults, Simulation, simulated_model

from stayput.deploy import records as r


def run_all(seeds, **settings):
    for seed in seeds:
        run(seed, **settings)


WHAT_HAPPENS = ("is killed", "store fails", " dies", "freezes", "started again", "refused", "lost: ", "late: ")
"""What a hundred deployments must have seen for their promises to mean something."""


def run(seed, **settings):
    try:
        return Simulation(seed, **settings).run()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, {settings}: {error}") from error


@pytest.mark.parametrize("block", range(10))
def test_a_thousand_deployments_keep_their_promises(block):
    happened = Counter()
    for seed in range(100 * block, 100 * block + 100):
        simulation = run(seed, faults=HARD, rounds=4, fraction=0.6, over_selection=1.0 + (seed % 3) / 4)
        for line in simulation.trace:
            happened.update(word for word in WHAT_HAPPENS if word in line)
    assert all(happened[word] > 20 for word in WHAT_HAPPENS), happened


@pytest.mark.parametrize("fraction", [0.4, 1.0])
def test_without_faults_the_model_is_the_simulators(fraction):
    for seed in range(20):
        simulation = run(seed, fraction=fraction)
        assert simulation.store.model == simulated_model(seed, num_clients=5, rounds=3, fraction=fraction)
        assert simulation.era == 1


def test_a_coordinator_that_is_killed_again_and_again_gives_the_same_model():
    kills = 0
    for seed in range(60):
        simulation = run(seed, faults=KILLS, lease=200.0, round_deadline=1e6)
        kills += simulation.era - 1
        assert simulation.store.model == simulated_model(seed, num_clients=5, rounds=3, fraction=1.0)
    assert kills > 200


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_a_round_ends_by_its_deadline_though_clients_are_dead(share):
    """P3: some are killed in the middle of a round and stay dead."""
    simulation = Simulation(3, num_clients=20, rounds=2)
    for client in simulation.clients[: round(20 * share)]:
        simulation.after(2.5, lambda dead=client: setattr(dead, "alive", False))
    simulation.run()
    dropped = [t for tasks in simulation.store.closed.values() for t in tasks.values() if t.reason == r.DropReason.LOST]
    assert {task.client for task in dropped} <= set(range(round(20 * share)))
    assert len(simulation.store.closed[2]) >= 10


def test_a_dead_client_is_noticed_within_ten_seconds():
    """P4, of a client that works: it was to be heard from every `heartbeat`, and is lost when its lease is over."""
    noticed = 0
    for seed in range(30):
        simulation = Simulation(seed, num_clients=10, rounds=1)
        death = 2.5 + seed / 30
        for client in simulation.clients[:3]:
            simulation.after(death, lambda dead=client: setattr(dead, "alive", False))
        simulation.run()
        noticed += len(simulation.notices)
        assert all(at - death <= 10.0 for _, at, _ in simulation.notices)
        assert {client for client, _, _ in simulation.notices} <= {0, 1, 2}
    assert noticed > 50


def test_the_same_seed_is_the_same_deployment():
    assert run(7, faults=HARD).trace == run(7, faults=HARD).trace


def test_a_planted_fault_is_seen(monkeypatch):
    """Answering before storing is the fault that all of this is there to see."""

    def acknowledge_first(self, event, answer):
        if self.machine is None:
            return
        actions = self.machine.handle(event, self.now)
        answer(actions)
        if self.happens(0.2):
            self._kill()
            return
        self.store.apply([c for a in actions if isinstance(a, r.Changes) for c in a.changes])
        for action in actions:
            if isinstance(action, r.Offer | r.Rest) and action.client in self.waiting:
                self.waiting.pop(action.client)(action)
            elif isinstance(action, r.SumRound):
                self.after(0.1, self._summed, self.era, action)
        self._arm()

    monkeypatch.setattr(Simulation, "submit", acknowledge_first)
    with pytest.raises(AssertionError, match="P1: what is acknowledged is durable"):
        run_all(range(50), faults=Faults(until=100.0))
