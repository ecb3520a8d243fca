"""Pace steering: who should come back when, so that a fleet's requests are spread evenly over time. Pure.

Bonawitz et al. 2019 ("Towards Federated Learning at Scale", section 2.3) let the server tell each client when to come
back. Here a fleet's idle clients make at most `steady_rate` requests a second: the larger the fleet, the longer a poll
is held. And each client has a slot, told ahead, in which it returns should the coordinator vanish: after a crash they
come at the rate they had before it, instead of all at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from stayput.deploy.fleet_settings import FleetSettings

LONGEST_HOLD = 25.0
"""A poll is held for at most this long: proxies on the way often give up after 30 s."""


class Pace:
    """The times that idle clients are given."""

    def __init__(self, settings: FleetSettings, clients: Iterable[int]) -> None:
        self._settings = settings
        self._places: dict[int, int] = {}
        self.changed(clients)

    def changed(self, clients: Iterable[int]) -> None:
        """The fleet is now these clients."""
        self._places = {client: place for place, client in enumerate(sorted(clients))}

    @property
    def period(self) -> float:
        """Seconds between two polls of an idle client."""
        return max(self._settings.hold, len(self._places) / self._settings.steady_rate)

    @property
    def spread(self) -> float:
        """Seconds over which clients return after a crash."""
        return self.period

    def hold(self, client: int) -> float:  # noqa: ARG002 - all have the same, so far
        """How long a poll is held where there is nothing to do."""
        return min(self.period, LONGEST_HOLD)

    def rest(self, client: int) -> float:
        """How long after a poll that was held in vain the client should stay away."""
        return max(self.period - self.hold(client), 0.0)

    def slot(self, client: int) -> float:
        """When a client should come back after it has lost the coordinator."""
        return self.spread * (self._places.get(client, 0) + 1) / max(len(self._places), 1)
