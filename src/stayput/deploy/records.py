"""What the coordinator is told, what it asks for, and what must survive: plain frozen records.

Events go into the machine, actions come out; `Changes` is the action that a store carries out as one transaction, and
`Snapshot` is what a store gives back. Nothing here knows of HTTP, databases or tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

TaskId = str
"""`r3-c7-1`: round 3, client 7, its first task in the round. Not a secret: who may use it is decided by identity."""


class TaskState(StrEnum):
    """Where a client's part of a round stands."""

    OPEN = "open"
    REPORTED = "reported"
    DROPPED = "dropped"


class Phase(StrEnum):
    """Where a round stands."""

    COLLECTING = "collecting"
    """Clients are selected, configured and report."""
    CLOSING = "closing"
    """It is settled whose updates count; they are summed."""


class DropReason(StrEnum):
    """Why a client's part in a round came to nothing. Further reasons are those of a refused update."""

    LOST = "lost: not heard from"
    DEADLINE = "late: the round's deadline has passed"
    SURPLUS = "late: the round had enough reports"
    REVOKED = "revoked"
    DAMAGED = "damaged on the coordinator's disk"


@dataclass(frozen=True, slots=True)
class Update:
    """A client's update, by reference."""

    sha256: str
    num_examples: int
    num_steps: int
    train_loss: float
    scale: float = 1.0
    """Below 1 where the update was clipped."""
    size: int | None = None
    """Its bytes; with the signature, all that is needed to check later what the client claimed."""
    signature: bytes | None = None
    """The client's own, over its claim."""


# Events: what happens to a coordinator.


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A client has come to the fleet."""

    client: int


@dataclass(frozen=True, slots=True)
class Revoked:
    """A client may not take part any more."""

    client: int


@dataclass(frozen=True, slots=True)
class Polled:
    """A client asks what there is to do."""

    client: int
    may_train: bool
    num_examples: int


@dataclass(frozen=True, slots=True)
class HungUp:
    """A client's held poll is gone: its connection broke."""

    client: int


@dataclass(frozen=True, slots=True)
class HeardFrom:
    """A client that works on a task says that it does, or sends parts of its update."""

    client: int
    task: TaskId


@dataclass(frozen=True, slots=True)
class UpdateChecked:
    """An update has arrived whole and passed every check."""

    client: int
    task: TaskId
    update: Update


@dataclass(frozen=True, slots=True)
class TaskGivenUp:
    """A task comes to nothing: the client declined, or its update was refused."""

    client: int
    task: TaskId
    reason: str


@dataclass(frozen=True, slots=True)
class RoundSummed:
    """The updates of the closing round are summed, and the next model is stored."""

    round_number: int
    result: RoundResult


@dataclass(frozen=True, slots=True)
class UpdatesDamaged:
    """Stored updates of the closing round are gone, or are not what was stored any more."""

    round_number: int
    clients: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = (
    Enrolled | Revoked | Polled | HungUp | HeardFrom | UpdateChecked | TaskGivenUp | RoundSummed | UpdatesDamaged | Tick
)


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What came out of a round, by reference."""

    state_sha256: str
    """The server's state after the round."""
    sent_sha256: str
    """What the clients of the next round are sent."""
    report: Mapping[str, Any]
    """The round's report, as plain data."""
    finished: bool
    """Whether this was the last round."""


# Changes: what must survive, in one transaction for each event.


@dataclass(frozen=True, slots=True)
class RoundOpened:
    """A round begins."""

    round_number: int


@dataclass(frozen=True, slots=True)
class ClientsSelected:
    """A round is after so many reports, and asks these clients."""

    round_number: int
    goal: int
    minimum: int
    tasks: tuple[tuple[TaskId, int], ...]
    """(task, client)."""


@dataclass(frozen=True, slots=True)
class TaskReported:
    """An update counts. Once this is stored the client is told so."""

    task: TaskId
    update: Update


@dataclass(frozen=True, slots=True)
class TaskDropped:
    """A client's part of a round came to nothing."""

    task: TaskId
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """A round's deadline has passed with too few reports; it goes on, and keeps those it has."""

    round_number: int
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class RoundClosing:
    """From here on it is settled whose updates count."""

    round_number: int


@dataclass(frozen=True, slots=True)
class RoundReopened:
    """Updates that counted are damaged: their tasks came to nothing, and the round takes others in their place."""

    round_number: int
    attempt: int
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class RoundClosed:
    """The round is over."""

    round_number: int
    result: RoundResult


Change = (
    RoundOpened
    | ClientsSelected
    | TaskReported
    | TaskDropped
    | AttemptFailed
    | RoundClosing
    | RoundReopened
    | RoundClosed
)


# Actions: what a coordinator asks of whoever drives it, to be carried out in order.


@dataclass(frozen=True, slots=True)
class Changes:
    """Store these in one transaction; if that fails, do nothing of the rest, and load the machine again."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Offer:
    """Give a client its task: on the poll that is held, or as the answer to this one."""

    client: int
    task: TaskId


@dataclass(frozen=True, slots=True)
class Rest:
    """Tell a client to come back later."""

    client: int
    seconds: float
    reason: str
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Renew:
    """Answer a client that works: whether it should go on."""

    client: int
    task: TaskId
    wanted: bool
    why: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """Answer a report: whether it counts."""

    client: int
    task: TaskId
    accepted: bool
    reason: str


@dataclass(frozen=True, slots=True)
class SumRound:
    """Sum these updates in this order (the clients'), and come back with `RoundSummed`."""

    round_number: int
    updates: tuple[tuple[int, Update], ...]


Action = Changes | Offer | Rest | Renew | Receipt | SumRound


# What a store gives back.


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """A task of the open round."""

    task: TaskId
    client: int
    state: TaskState
    reason: str = ""
    update: Update | None = None


@dataclass(frozen=True, slots=True)
class RoundFacts:
    """The open round."""

    round_number: int
    phase: Phase
    attempt: int = 1
    goal: int = 0
    """0 while no clients are selected."""
    minimum: int = 0
    tasks: tuple[TaskFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All of a fleet that survives."""

    clients: Mapping[int, int] = field(default_factory=dict)
    """n_k by client, of those that may take part; 0 where it is not known yet."""
    last_closed: int = 0
    """The last round that is over."""
    open_round: RoundFacts | None = None
    finished: bool = False
