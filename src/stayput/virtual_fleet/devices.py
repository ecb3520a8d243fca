"""How long a task takes a device, what it sends and receives meanwhile, and where in it a device vanishes."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from stayput.core.seeds import Purpose, raw_words
from stayput.virtual_fleet.settings import VirtualFleet

_MEGA = 1e6


@dataclass(frozen=True, slots=True)
class Job:
    """A task on a device, from the moment it is offered."""

    down_seconds: float
    work_seconds: float
    up_seconds: float
    num_bytes: int
    """Of the model that comes, and of the update that goes."""
    vanishes_after: float | None
    """If the device drops out."""

    @property
    def seconds(self) -> float:
        """Until the update is there."""
        return self.down_seconds + self.work_seconds + self.up_seconds

    def transferred(self, elapsed: float) -> tuple[float, float]:
        """Bytes down and up, if it ends after so many seconds."""
        down = min(elapsed / self.down_seconds, 1.0)
        up = min(max((elapsed - self.down_seconds - self.work_seconds) / self.up_seconds, 0.0), 1.0)
        return down * self.num_bytes, up * self.num_bytes


class Devices:
    """The devices of a fleet; each draws from streams of its own, so nothing is kept for any."""

    def __init__(self, fleet: VirtualFleet, *, seed: int) -> None:
        self._fleet, self._seed = fleet, seed

    def job(self, client: int, *, num_steps: int, num_bytes: int, round_number: int, attempt: int) -> Job:
        """What a task is for a device."""
        fleet = self._fleet
        down = num_bytes / (fleet.downlink * _MEGA)
        up = num_bytes / (fleet.uplink * _MEGA)
        work = num_steps * fleet.seconds_per_step * self.slowness(client)
        words = raw_words(self._seed, Purpose.VIRTUAL_FLEET, 2, round_number=round_number, client=client, epoch=attempt)
        chance, where = (float(word) for word in words / 2.0**64)
        vanishes = where * (down + work + up) if chance < fleet.dropout else None
        return Job(down, work, up, num_bytes, vanishes)

    def slowness(self, client: int) -> float:
        """How much longer a step takes this device than one of middling speed."""
        word = int(raw_words(self._seed, Purpose.VIRTUAL_FLEET, 1, client=client)[0])
        return float(np.exp(self._fleet.speed_spread * NormalDist().inv_cdf(((word >> 12) + 0.5) / 2.0**52)))
