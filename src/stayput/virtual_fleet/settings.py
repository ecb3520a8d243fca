"""What a virtual fleet is like: who is there when, how fast devices and lines are, whom a round waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from stayput.core.rules import (
    require_at_least_zero,
    require_below_one,
    require_count,
    require_fraction,
    require_positive,
)
from stayput.deploy.fleet_settings import FleetSettings
from stayput.errors import InvalidSetting, UnknownName

ALWAYS, DIURNAL = "always", "diurnal"


@dataclass(frozen=True)
class VirtualFleet:
    """The settings; times are seconds of the virtual clock, lines are in MB/s."""

    availability: str = ALWAYS
    """`always`, `diurnal`, or the path of a trace (.csv)."""
    zone_correlation: float = 1.0
    """diurnal: the share of clients whose time zone follows from their data; the others' are random."""
    over_selection: float = 1.0
    """Clients that are asked, as a multiple of the reports that a round is after."""
    minimum_share: float = 0.5
    """Of these reports, the share that a round needs at its deadline."""
    round_deadline: float = 3600.0
    """A round ends this long after it began."""
    dropout: float = 0.0
    """The chance that a device vanishes in the middle of a task."""
    seconds_per_step: float = 0.1
    """Of a device of middling speed, for a local step."""
    speed_spread: float = 0.0
    """Standard deviation of the logarithm of devices' speeds; 0 makes them equal."""
    uplink: float = 1.0
    """The paper's number: "an upload bandwidth of 1 MB/s or less"."""
    downlink: float = 10.0
    buffer_size: int | None = None
    """If set, there are no rounds that wait: the server steps whenever this many updates have come (FedBuff)."""

    def __post_init__(self) -> None:
        """Refuse what breaks a rule."""
        if self.availability not in (ALWAYS, DIURNAL) and not self.availability.endswith(".csv"):
            raise UnknownName("availability", self.availability, (ALWAYS, DIURNAL, "the path of a trace (.csv)"))
        require_fraction("zone_correlation", self.zone_correlation, "makes time zones random")
        require_fraction("minimum_share", self.minimum_share, "goes on with a single report")
        if not self.over_selection >= 1:
            raise InvalidSetting(f"over_selection={self.over_selection!r}: must be at least 1 (1.3 asks 30% more)")
        require_below_one("dropout", self.dropout, "some tasks must come to their end")
        for name in ("round_deadline", "seconds_per_step", "uplink", "downlink"):
            require_positive(name, getattr(self, name), "seconds, or MB/s of a line")
        require_at_least_zero("speed_spread", self.speed_spread, "0 makes devices equally fast")
        if self.buffer_size is not None:
            require_count("buffer_size", self.buffer_size, "updates that a server step waits for")

    def coordinator(self, start_with: int) -> FleetSettings:
        """The settings of the deployment's coordinator; tasks take minutes, so it hears from clients less often."""
        return FleetSettings(
            start_with=max(1, start_with),
            over_selection=self.over_selection,
            minimum_share=self.minimum_share,
            round_deadline=self.round_deadline,
            heartbeat=30.0,
            lease=90.0,
            hold=25.0,
            tasks_per_client=1000,
        )

    def to_plain(self) -> dict[str, Any]:
        """As a run's spec has it."""
        return asdict(self)

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Self:
        """The inverse; a trace's path becomes absolute, so that a run that goes on finds it."""
        known = cls.__dataclass_fields__
        for name in values:
            if name not in known:
                raise UnknownName("setting of a virtual fleet", name, known)
        plain = dict(values)
        if str(plain.get("availability", "")).endswith(".csv"):
            plain["availability"] = str(Path(plain["availability"]).absolute())
        return cls(**plain)
