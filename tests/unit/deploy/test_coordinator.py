"""The coordinator alone: events in, actions out, the clock a number."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from stayput.core.cohort import choose_cohort
from stayput.deploy import records as r
from stayput.deploy.coordinator import Coordinator
from stayput.deploy.fleet_settings import FleetSettings

SETTINGS = FleetSettings(round_deadline=60.0, heartbeat=3.0, lease=9.0, hold=5.0)


def fleet(num_clients=10, *, fraction=1.0, snapshot=None, now=0.0, **settings):
    clients = dict.fromkeys(range(num_clients), 5)
    return Coordinator(
        dataclasses.replace(SETTINGS, **settings),
        seed=3,
        client_fraction=fraction,
        snapshot=snapshot or r.Snapshot(clients),
        now=now,
    )


def poll(machine, *clients, now=0.0, may_train=True):
    return [action for c in clients for action in machine.handle(r.Polled(c, may_train, 5), now)]


def kinds(actions, kind):
    return [action for action in actions if isinstance(action, kind)]


def changes(actions, kind):
    return [change for stored in kinds(actions, r.Changes) for change in stored.changes if isinstance(change, kind)]


def report(machine, client, now=0.0, *, task=None, sha="a"):
    task = task or f"r{machine.round.number}-c{client}-1"
    return machine.handle(r.UpdateChecked(client, task, r.Update(sha, 5, 1, 0.5)), now)


def result(finished=False):
    return r.RoundResult("state", "sent", {}, finished)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_a_fleet_that_is_all_there_is_asked_as_the_simulator_asks(fraction):
    machine = fleet(fraction=fraction)
    offers = kinds(poll(machine, *range(10)), r.Offer)
    cohort = choose_cohort(10, fraction, seed=3, round_number=1).tolist()
    assert [offer.client for offer in offers] == cohort


def test_who_is_asked_does_not_depend_on_the_order_in_which_clients_came():
    machine = fleet(0, fraction=0.3, start_with=10)
    for client in (3, 9, 0, 7, 5, 1, 8, 2, 6, 4):
        machine.handle(r.Enrolled(client), 0.0)
        offers = kinds(poll(machine, client), r.Offer)
    assert [offer.client for offer in offers] == choose_cohort(10, 0.3, seed=3, round_number=1).tolist()


def test_a_round_closes_with_its_last_report_and_sums_in_client_order():
    machine = fleet(3)
    poll(machine, 2, 0, 1)
    assert not kinds(report(machine, 2) + report(machine, 0), r.SumRound)
    actions = report(machine, 1)
    assert changes(actions, r.RoundClosing)
    (order,) = kinds(actions, r.SumRound)
    assert [client for client, _ in order.updates] == [0, 1, 2]
    actions = machine.handle(r.RoundSummed(1, result()), 1.0)
    assert [type(change) for change in kinds(actions, r.Changes)[0].changes][:2] == [r.RoundClosed, r.RoundOpened]


def test_the_next_round_asks_clients_that_are_there_at_once():
    machine = fleet(2)
    poll(machine, 0, 1)
    report(machine, 0), report(machine, 1)
    poll(machine, 0, 1, now=0.1)
    offers = kinds(machine.handle(r.RoundSummed(1, result()), 0.2), r.Offer)
    assert [offer.task for offer in offers] == ["r2-c0-1", "r2-c1-1"]


def test_an_update_that_comes_again_is_counted_once_and_told_the_same():
    machine = fleet(2)
    poll(machine, 0, 1)
    first, again = report(machine, 0), report(machine, 0)
    assert kinds(first, r.Receipt) == kinds(again, r.Receipt)
    assert changes(first, r.TaskReported)
    assert not changes(again, r.TaskReported)
    (other,) = kinds(report(machine, 0, sha="another"), r.Receipt)
    assert not other.accepted


def test_an_update_of_another_clients_task_does_not_count():
    machine = fleet(2)
    poll(machine, 0, 1)
    (receipt,) = kinds(report(machine, 0, task="r1-c1-1"), r.Receipt)
    assert not receipt.accepted
    assert not machine.round.reported


def test_a_client_that_falls_silent_is_lost_within_its_lease_and_replaced_by_another():
    machine = fleet(3, fraction=0.34)
    (offer,) = kinds(poll(machine, 0, 1, 2), r.Offer)
    others = [client for client in range(3) if client != offer.client]
    machine.handle(r.HeardFrom(offer.client, offer.task), 3.0)
    poll(machine, *others, now=6.0)
    assert machine.next_time_out() <= 12.0
    actions = machine.handle(r.Tick(), 12.0)
    assert changes(actions, r.TaskDropped) == [r.TaskDropped(offer.task, r.DropReason.LOST)]
    ((_, replacement),) = changes(actions, r.ClientsSelected)[0].tasks
    assert replacement in others
    assert kinds(poll(machine, replacement, now=12.1), r.Offer)


def test_a_lost_client_is_told_so_and_its_late_update_does_not_count():
    machine = fleet(2)
    poll(machine, 0, 1)
    machine.handle(r.HeardFrom(1, "r1-c1-1"), 8.0)
    machine.handle(r.Tick(), 9.0)
    (renewal,) = kinds(machine.handle(r.HeardFrom(0, "r1-c0-1"), 9.5), r.Renew)
    assert not renewal.wanted
    assert "lost" in renewal.why
    (receipt,) = kinds(report(machine, 0, 9.6), r.Receipt)
    assert not receipt.accepted


def test_a_client_that_returns_in_time_takes_its_own_place_again():
    machine = fleet(2)
    poll(machine, 0, 1)
    for at in (3.0, 6.0, 9.0):
        machine.handle(r.HeardFrom(1, "r1-c1-1"), at)
    (offer,) = kinds(poll(machine, 0, now=10.0), r.Offer)
    assert offer.task == "r1-c0-2"
    report(machine, 1, 10.0)
    (order,) = kinds(report(machine, 0, 11.0, task="r1-c0-2"), r.SumRound)
    assert [client for client, _ in order.updates] == [0, 1]


def hold_out(machine, clients, until, *, step=3.0):
    """Heartbeats of clients at work, and the actions on the way."""
    actions, now = [], 0.0
    while (now := now + step) < until:
        for client in clients:
            actions += machine.handle(r.HeardFrom(client, f"r1-c{client}-1"), now)
    return actions + list(machine.handle(r.Tick(), until))


def test_a_round_ends_by_its_deadline_with_enough_reports():
    machine = fleet(4)
    poll(machine, *range(4))
    report(machine, 0), report(machine, 1)
    actions = hold_out(machine, (2, 3), 60.0)
    assert {c.reason for c in changes(actions, r.TaskDropped)} == {r.DropReason.DEADLINE}
    assert len(kinds(actions, r.SumRound)[0].updates) == 2


def test_a_round_with_too_few_reports_tries_again_and_keeps_what_it_has():
    machine = fleet(4)
    poll(machine, *range(4))
    report(machine, 0)
    actions = hold_out(machine, (1, 2, 3), 60.0)
    assert [change.attempt for change in changes(actions, r.AttemptFailed)] == [1]
    assert machine.deadline() == 120.0
    tasks = [offer.task for offer in kinds(poll(machine, 1, 2, 3, now=61.0), r.Offer)]
    assert tasks == ["r1-c1-2", "r1-c2-2", "r1-c3-2"]
    for client in (1, 2, 3):
        actions = report(machine, client, 62.0, task=f"r1-c{client}-2")
    assert len(kinds(actions, r.SumRound)[0].updates) == 4


def test_nobody_joins_and_the_round_says_so_at_its_deadline():
    machine = fleet(0)
    machine.handle(r.Tick(), 0.0)
    (failed,) = changes(machine.handle(r.Tick(), 60.0), r.AttemptFailed)
    assert "clients" in failed.reason


def test_more_are_asked_than_needed_and_the_surplus_is_let_go():
    machine = fleet(10, fraction=0.5, over_selection=1.4)
    offers = kinds(poll(machine, *range(10)), r.Offer)
    assert len(offers) == 7
    actions = [report(machine, offer.client, task=offer.task) for offer in offers[:5]][-1]
    assert [change.reason for change in changes(actions, r.TaskDropped)] == [r.DropReason.SURPLUS] * 2
    (renewal,) = kinds(machine.handle(r.HeardFrom(offers[6].client, offers[6].task), 1.0), r.Renew)
    assert not renewal.wanted


def test_who_may_not_train_is_not_asked():
    machine = fleet(4)
    poll(machine, 0, may_train=False)
    assert {offer.client for offer in kinds(poll(machine, 1, 2, 3), r.Offer)} == {1, 2, 3}


def test_a_poll_is_held_no_longer_than_its_hold_and_then_told_when_to_return():
    machine = fleet(2, start_with=2)
    assert not kinds(poll(machine, 0), r.Rest)
    (rest,) = kinds(machine.handle(r.Tick(), 5.0), r.Rest)
    assert rest == r.Rest(0, 0.0, "nothing to do now")


def test_a_large_fleet_polls_at_the_steady_rate_and_returns_one_by_one():
    machine = fleet(5000, steady_rate=100.0)
    slots = sorted(machine.reconnect_in(client) for client in range(5000))
    assert slots[-1] == pytest.approx(50.0)
    assert all(after - before == pytest.approx(0.01) for before, after in itertools.pairwise(slots))


def test_after_a_restart_nobody_is_asked_before_all_that_may_be_there_were_heard_or_lost():
    snapshot = r.Snapshot(dict.fromkeys(range(3), 5), last_closed=4)
    machine = fleet(snapshot=snapshot, now=100.0)
    assert not kinds(poll(machine, 0, 1, now=101.0), r.Offer)
    assert len(kinds(poll(machine, 2, now=102.0), r.Offer)) == 3
    machine = fleet(snapshot=snapshot, now=100.0)
    poll(machine, 0, 1, now=113.0)
    assert [offer.client for offer in kinds(machine.handle(r.Tick(), 114.0), r.Offer)] == [0, 1]


def test_a_round_goes_on_after_a_restart_where_it_was():
    machine = fleet(3)
    poll(machine, 0, 1, 2)
    report(machine, 1)
    snapshot = r.Snapshot(dict.fromkeys(range(3), 5), open_round=machine.round.facts())
    machine = fleet(snapshot=snapshot, now=50.0)
    assert [offer.task for offer in kinds(poll(machine, 0, now=51.0), r.Offer)] == ["r1-c0-1"]
    report(machine, 0, 52.0)
    assert kinds(report(machine, 2, 53.0), r.SumRound)


def test_a_round_that_was_closing_is_summed_again_after_a_restart():
    machine = fleet(1)
    poll(machine, 0)
    report(machine, 0)
    snapshot = r.Snapshot({0: 5}, open_round=machine.round.facts())
    machine = fleet(snapshot=snapshot)
    actions = machine.handle(r.Tick(), 0.0)
    assert len(kinds(actions, r.SumRound)) == 1
    assert not kinds(machine.handle(r.Tick(), 1.0), r.SumRound)


def test_a_revoked_client_is_out_and_the_round_goes_on():
    machine = fleet(3)
    poll(machine, 0, 1, 2)
    assert changes(machine.handle(r.Revoked(1), 1.0), r.TaskDropped)[0].reason == r.DropReason.REVOKED
    assert not kinds(poll(machine, 1, now=2.0), r.Offer)


def test_a_refused_update_is_a_dropout_and_three_are_enough():
    machine = fleet(1)
    poll(machine, 0)
    for times in (1, 2, 3):
        actions = machine.handle(r.TaskGivenUp(0, f"r1-c0-{times}", "not finite"), float(times))
        assert changes(actions, r.TaskDropped) == [r.TaskDropped(f"r1-c0-{times}", "not finite")]
        offers = kinds(list(actions) + poll(machine, 0, now=times + 0.5), r.Offer)
        assert len(offers) == (times < 3)


def test_the_last_round_lets_everybody_go():
    machine = fleet(2)
    poll(machine, 0, 1)
    report(machine, 0), report(machine, 1)
    poll(machine, 0)
    rests = kinds(machine.handle(r.RoundSummed(1, result(finished=True)), 1.0), r.Rest)
    assert [rest.finished for rest in rests] == [True]
    assert kinds(poll(machine, 1, now=1.0), r.Rest)[0].finished
