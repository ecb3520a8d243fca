"""When a client is there: always, at night where it is, or as a trace says.

A day's night is drawn from a stream of (seed, day, client), so nothing is kept for a client and any time can be asked
for. The paper (section 1, "Federated optimization") expects clients to be there when they are plugged in, idle and on
an unmetered network, which depends on the local time and so on the data: the time zone of a client is its place among
all clients by the mean of its targets, for as many clients as `zone_correlation` says. Where clients hold different
labels, those that are there at the same time are alike, and the model sees the labels go round with the sun.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from stayput.core.seeds import Purpose, raw_words
from stayput.data.federated_data import FederatedData
from stayput.errors import CorruptData, DataUnavailable, InvalidSetting
from stayput.virtual_fleet.settings import ALWAYS, DIURNAL, VirtualFleet

DAY = 86_400.0
NIGHT_BEGINS, NIGHT_HOURS, JITTER_HOURS = 22.0, 8.0, 2.0
"""Local time, and how much either end of a night differs from day to day."""


class Availability(Protocol):
    """When clients are there."""

    def until(self, client: int, now: float) -> float | None:
        """When the client leaves, or None if it is not there now."""
        ...

    def next(self, client: int, now: float) -> float | None:
        """When the client comes next, from `now` on; None if it never does."""
        ...


def availability_of(fleet: VirtualFleet, clients: FederatedData, *, seed: int) -> Availability:
    """What the settings say, for these clients."""
    if fleet.availability == ALWAYS:
        return Always()
    if fleet.availability == DIURNAL:
        return Diurnal(time_zones(clients, correlation=fleet.zone_correlation, seed=seed), seed=seed)
    return Trace.read(Path(fleet.availability), clients.num_clients)


class Always:
    """Every client, at any time."""

    def until(self, client: int, now: float) -> float | None:  # noqa: ARG002 - all are there
        """Never."""
        return math.inf

    def next(self, client: int, now: float) -> float | None:  # noqa: ARG002 - all are there
        """Now."""
        return now


class Diurnal:
    """At night, from about ten in the evening to about six in the morning, where the client is."""

    def __init__(self, zones: npt.NDArray[np.float64], *, seed: int) -> None:
        self._zones, self._seed = zones, seed

    def until(self, client: int, now: float) -> float | None:
        """The end of the night that it is, if it is night."""
        for day in self._days(client, now):
            begin, end = self._night(client, day)
            if begin <= now < end:
                return end
        return None

    def next(self, client: int, now: float) -> float | None:
        """Now, or when the next night begins."""
        first = self._days(client, now)[0]
        for day in range(first, first + 4):
            begin, end = self._night(client, day)
            if now < end:
                return max(begin, now)
        return None

    def _days(self, client: int, now: float) -> list[int]:
        """Today where the client is, and the days beside it."""
        today = math.floor((now + self._zones[client] * DAY) / DAY)
        return [today - 1, today, today + 1]

    def _night(self, client: int, day: int) -> tuple[float, float]:
        words = raw_words(self._seed, Purpose.AVAILABILITY, 2, round_number=day + 1_000_000, client=client)
        early, late = (words / 2.0**64 * 2 - 1) * JITTER_HOURS * 3600
        begin = (day - self._zones[client]) * DAY + NIGHT_BEGINS * 3600
        return begin + float(early), begin + NIGHT_HOURS * 3600 + float(late)


def time_zones(clients: FederatedData, *, correlation: float, seed: int) -> npt.NDArray[np.float64]:
    """For each client its share of the way round the earth, in [0, 1)."""
    count = clients.num_clients
    draws = np.array([raw_words(seed, Purpose.AVAILABILITY, 2, client=client) / 2.0**64 for client in range(count)])
    targets = clients.examples.targets
    means = np.array([float(np.mean(targets[clients.rows(client)])) for client in range(count)])
    places = np.empty(count)
    places[np.lexsort((draws[:, 0], means))] = np.arange(count) / count  # equal means in random order
    zones: npt.NDArray[np.float64] = np.where(draws[:, 1] < correlation, places, draws[:, 0])
    return zones


class Trace:
    """When clients were there, as somebody has seen it."""

    def __init__(
        self, offsets: npt.NDArray[np.int64], begins: npt.NDArray[np.float64], ends: npt.NDArray[np.float64]
    ) -> None:
        self._offsets, self._begins, self._ends = offsets, begins, ends

    @classmethod
    def read(cls, path: Path, num_clients: int) -> Trace:
        """From a file with a line `client,begin,end` for each stay: a client's number, and seconds."""
        try:
            with path.open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
        except OSError as error:
            raise DataUnavailable(f"availability={str(path)!r}: cannot be read ({error.strerror})") from error
        try:
            stays = sorted((int(row["client"]), float(row["begin"]), float(row["end"])) for row in rows)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptData(
                f"{path}: must have a head `client,begin,end` and in each line a client's number and two times in "
                f"seconds ({error!r})"
            ) from error
        for position, (client, begin, end) in enumerate(stays):
            if not 0 <= client < num_clients or not begin < end:
                raise CorruptData(
                    f"{path}: client {client} from {begin:g} to {end:g}: must be a client of 0..{num_clients - 1} that "
                    f"comes before it leaves"
                )
            if position and stays[position - 1][0] == client and stays[position - 1][2] > begin:
                raise CorruptData(
                    f"{path}: client {client} comes at {begin:g} before it has left: must come one by one"
                )
        if not stays:
            raise InvalidSetting(f"availability={str(path)!r}: nobody is ever there: must have at least one line")
        numbers = np.array([stay[0] for stay in stays], dtype=np.int64)
        offsets = np.searchsorted(numbers, np.arange(num_clients + 1)).astype(np.int64)
        return cls(offsets, np.array([stay[1] for stay in stays]), np.array([stay[2] for stay in stays]))

    def until(self, client: int, now: float) -> float | None:
        """The end of the stay that it is in."""
        first, last = self._offsets[client : client + 2]
        place = first + int(np.searchsorted(self._ends[first:last], now, side="right"))
        return float(self._ends[place]) if place < last and self._begins[place] <= now else None

    def next(self, client: int, now: float) -> float | None:
        """Now, or when its next stay begins."""
        first, last = self._offsets[client : client + 2]
        place = first + int(np.searchsorted(self._ends[first:last], now, side="right"))
        return max(float(self._begins[place]), now) if place < last else None
