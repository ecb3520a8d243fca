"""The settings of a fleet: the table [fleet] of the file that `stayput serve` is given, checked.

What is learned (task, algorithm, rounds, target, seed) stands outside of that table, under the keys that
`stayput run` has: one file serves the simulator and the deployment. Must not import torch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from stayput.core.rules import require_at_least_zero, require_count, require_fraction, require_positive
from stayput.errors import InvalidSetting, UnknownName

LAST_PORT = 65535


@dataclass(frozen=True)
class FleetSettings:
    """How a fleet is run. Times are seconds."""

    state: str | None = None
    """The folder with everything that survives; None for one beside the file."""
    task: str | None = None
    """`package.module:attribute` of a task of one's own, in place of the named one."""
    test_data: str | None = None
    """A folder or .npz file with examples that models are measured on; None for the named task's own."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = 8443
    """0 takes a free one."""
    names: tuple[str, ...] = ("localhost", "127.0.0.1")
    """The host names that the self-made certificate is for."""
    certificate: str | None = None
    """A certificate of one's own (PEM); with `private_key`, in place of the self-made one."""
    private_key: str | None = None
    client_ca: str | None = None
    """If set, clients must also show a certificate that this authority signed (mTLS)."""
    database: str | None = None
    """An SQLAlchemy URL; None for SQLite in the state folder."""
    blobs: str | None = None
    """A folder or an fsspec URL for models and updates; None for the state folder."""
    start_with: int = 1
    """Round 1 waits for this many clients."""
    over_selection: float = 1.0
    """How many clients are asked, as a multiple of the reports that a round is after."""
    minimum_share: float = 0.5
    """Of the reports that a round is after, the share it needs at its deadline."""
    round_deadline: float = 600.0
    """A round ends this long after it began: with enough reports it closes, else it tries anew."""
    heartbeat: float = 3.0
    """A client that trains says so this often."""
    lease: float = 9.0
    """A client that was to be heard from, and was not for this long, is lost."""
    hold: float = 5.0
    """How long a poll is held where there is nothing to do; grows with the fleet, see `steady_rate`."""
    steady_rate: float = 200.0
    """Requests a second that idle clients may make together."""
    tasks_per_client: int = 3
    """How often a client is given a task in one round, if its earlier ones came to nothing."""
    least_examples: int = 1
    most_examples: int = 10_000_000
    """The example counts of an update must lie between these two."""
    max_norm: float | None = None
    """The largest L2 norm of an update; None for any."""
    on_norm: Literal["clip", "reject"] = "reject"
    """What is done with an update of a larger norm."""
    checking_slots: int = 2
    """Updates that are checked at a time, each in memory once."""
    upload_slots: int = 64
    """Uploads that are under way at a time; others are told to come back."""
    keep_models: int = 2
    """The models of this many rounds stay; the history stays for ever."""
    evaluate: bool = True
    """Measure every model on the task's test examples, at the coordinator."""

    def __post_init__(self) -> None:
        """Refuse what breaks a rule."""
        self._check_address()
        require_count("start_with", self.start_with, "clients that round 1 waits for")
        require_fraction("minimum_share", self.minimum_share, "goes on with a single report")
        for name in ("round_deadline", "heartbeat", "lease", "hold", "steady_rate"):
            require_positive(name, getattr(self, name), "seconds; steady_rate is requests a second")
        if not 1 <= self.over_selection < math.inf:
            raise InvalidSetting(
                f"over_selection={self.over_selection!r}: must be a number of at least 1 (1.3 asks 30% more)"
            )
        if self.lease <= self.heartbeat:
            raise InvalidSetting(
                f"lease={self.lease}: must be longer than heartbeat={self.heartbeat} (three heartbeats are usual)"
            )
        for name in ("tasks_per_client", "least_examples", "most_examples", "checking_slots", "upload_slots"):
            require_count(name, getattr(self, name), "see docs/deploy.md")
        if self.least_examples > self.most_examples:
            raise InvalidSetting(
                f"least_examples={self.least_examples}: must be at most most_examples={self.most_examples} (they "
                "bound an update's example count)"
            )
        require_count("keep_models", self.keep_models, "the newest is always needed")
        if self.max_norm is not None:
            require_at_least_zero("max_norm", self.max_norm, "leave it out for any")
        if self.on_norm not in ("clip", "reject"):
            raise UnknownName("on_norm", self.on_norm, ("clip", "reject"))

    def _check_address(self) -> None:
        require_count("port", self.port, "0 takes a free one", least=0)
        if self.port > LAST_PORT:
            raise InvalidSetting(f"port={self.port}: must be at most {LAST_PORT} (0 takes a free one)")
        if not self.names or not all(name and name.isascii() for name in self.names):
            raise InvalidSetting(f"names={list(self.names)!r}: must be host names or addresses, in ASCII characters")
        if (self.certificate is None) != (self.private_key is None):
            raise InvalidSetting("certificate and private_key: must both be given, or neither (one is then made)")

    @classmethod
    def from_plain(cls, table: Mapping[str, Any], *, source: str) -> Self:
        """Settings from a table of a TOML file."""
        known = {entry.name: entry for entry in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        for written, value in table.items():
            name = written.replace("-", "_")
            if name not in known:
                raise UnknownName(f"{source}: setting of [fleet]", written, known)
            values[name] = tuple(value) if isinstance(value, list) else value
            _refuse_wrong_kind(source, name, value, known[name].default)
        return cls(**values)


def _refuse_wrong_kind(source: str, name: str, value: object, default: object) -> None:
    kinds: dict[type, tuple[tuple[type, ...], str]] = {
        bool: ((bool,), "true or false"),
        int: ((int,), "a whole number"),
        float: ((int, float), "a number"),
        str: ((str,), "text in quotes"),
        tuple: ((list,), "a list of texts"),
        type(None): ((str,), "text in quotes"),
    }
    accepted, rule = kinds[float if name == "max_norm" else type(default)]
    if isinstance(value, list) and not all(isinstance(entry, str) for entry in value):
        raise InvalidSetting(f"{source}: fleet.{name}={value!r}: must be {rule}")
    if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted):
        raise InvalidSetting(f"{source}: fleet.{name}={value!r}: must be {rule}")
