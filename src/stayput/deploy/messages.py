"""What coordinator and clients say to each other: one frozen dataclass for each message, and the class is the schema.

    client                                             coordinator
    GET  hello      ------------------------------->   Hello
    Enrol           ------------------------------->   Enrolled          once, with a token
    Poll            ---- held until there is work -->  TaskOffer | Wait
    GET  chunks     ------------------------------->   bytes of the model
    Heartbeat       ------------------------------->   Lease             while it trains
    OfferUpdate     ------------------------------->   UploadState       which chunks are missing
    PUT  chunks     ------------------------------->
    FinishUpdate    ------------------------------->   Receipt           the update counts, or why not
    Decline         ------------------------------->   Wait

Every refusal is a Problem. Names, ids and hashes in a message say what it is about; who may do it is decided by the
signature of the request alone. Times are durations in seconds: clocks are never compared. Must not import torch or a
web framework.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from stayput.deploy.chunks import MAX_CHUNKS, Manifest, Sha256
from stayput.deploy.schemas import Items, Number, Plain, Text, Whole
from stayput.deploy.tensor_files import TensorSpec

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"

Name = Annotated[str, Text(64, NAME, "a name of 1 to 64 letters, digits, dots, dashes and underscores")]
OptionalName = Annotated[
    str, Text(64, f"(?:{NAME})?", "empty, or a name of letters, digits, dots, dashes, underscores")
]
TaskId = Annotated[str, Text(64, r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "the id of a task")]
KeyId = Annotated[str, Text(32, "[0-9a-f]{32}", "a key's id as 32 hex digits")]
PublicKey = Annotated[str, Text(64, "[0-9a-f]{64}", "an Ed25519 public key as 64 hex digits")]
Signature = Annotated[str, Text(128, "[0-9a-f]{128}", "an Ed25519 signature as 128 hex digits")]
Boot = Annotated[str, Text(32, "[0-9a-f]{32}", "the id of a coordinator's process")]
Sentence = Annotated[str, Text(2_000)]
Seconds = Annotated[float, Number(0, 1e9)]
Count = Annotated[int, Whole()]


@dataclass(frozen=True, slots=True)
class Hello:
    """Who a coordinator is; told to anybody."""

    kind: ClassVar[str] = "hello"
    server: Annotated[str, Text(64)]
    boot: Boot
    time: Annotated[float, Number(0, 1e12)]
    """Seconds since 1970."""
    protocol_min: Count
    protocol_max: Count


@dataclass(frozen=True, slots=True)
class Enrol:
    """A client's key, with the token that lets it in. The request is signed with that key."""

    kind: ClassVar[str] = "enrol"
    token: Annotated[str, Text(256)] = field(repr=False)
    public_key: PublicKey
    name: OptionalName = ""


@dataclass(frozen=True, slots=True)
class Enrolled:
    """The client is known from now on."""

    kind: ClassVar[str] = "enrolled"
    key_id: KeyId
    name: Name
    number: Count
    """k, the client's number in the simulator's sense: its random streams follow from it."""


@dataclass(frozen=True, slots=True)
class Poll:
    """A client asks for work and is willing to wait for it."""

    kind: ClassVar[str] = "poll"
    may_train: bool
    wait_s: Seconds
    num_examples: Count = 0
    why_not: Sentence = ""
    task: Annotated[str, Text(64)] = ""
    software: Annotated[str, Text(64)] = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """There is nothing to do; when to come back, and when after a lost connection."""

    kind: ClassVar[str] = "wait"
    retry_after_s: Seconds
    reconnect_in_s: Seconds = 0.0
    reason: Sentence = ""
    finished: bool = False
    """The training has ended."""


@dataclass(frozen=True, slots=True)
class TaskOffer:
    """Work of one round for one client."""

    kind: ClassVar[str] = "task"
    task_id: TaskId
    round_number: Annotated[int, Whole(1)]
    client: Count
    seed: Count
    task: Annotated[str, Text(64)]
    algorithm: Plain
    model: Manifest
    schema: Annotated[tuple[TensorSpec, ...], Items(10_000)]
    """What the update must hold, exactly."""
    max_upload_bytes: Count
    deadline_s: Seconds
    heartbeat_s: Seconds
    reconnect_in_s: Seconds = 0.0
    threads: Annotated[int, Whole(1, 4096)] | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A client is at work on a task."""

    kind: ClassVar[str] = "heartbeat"
    task_id: TaskId
    done_share: Annotated[float, Number(0, 1)] = 0.0


@dataclass(frozen=True, slots=True)
class Lease:
    """The answer to a heartbeat: go on, or stop."""

    kind: ClassVar[str] = "lease"
    task_id: TaskId
    cancelled: bool
    next_s: Seconds
    why: Sentence = ""
    reconnect_in_s: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class OfferUpdate:
    """What a client claims of its update, with a signature of its own that is kept beside it."""

    kind: ClassVar[str] = "update"
    task_id: TaskId
    manifest: Manifest
    num_examples: Annotated[int, Whole(-(2**53) + 1)]
    """n_k. Any whole number can be said; what is out of bounds is refused with its reason, as a claim."""
    num_steps: Annotated[int, Whole(-(2**53) + 1)]
    train_loss: float
    signature: Signature


@dataclass(frozen=True, slots=True)
class UploadState:
    """Which chunks of an update the coordinator lacks."""

    kind: ClassVar[str] = "upload"
    task_id: TaskId
    missing: Annotated[tuple[Count, ...], Items(MAX_CHUNKS)]


@dataclass(frozen=True, slots=True)
class FinishUpdate:
    """All chunks were sent."""

    kind: ClassVar[str] = "finish"
    task_id: TaskId
    sha256: Sha256


@dataclass(frozen=True, slots=True)
class Receipt:
    """The update counts, or why it does not. Durable before it is sent."""

    kind: ClassVar[str] = "receipt"
    task_id: TaskId
    accepted: bool
    reason: Sentence = ""
    retry_after_s: Seconds = 0.0
    reconnect_in_s: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class Decline:
    """A client will not finish a task."""

    kind: ClassVar[str] = "decline"
    task_id: TaskId
    reason: Sentence


@dataclass(frozen=True, slots=True)
class Problem:
    """A refusal: a code for programs, a sentence for people, and what the client needs to do better."""

    kind: ClassVar[str] = "problem"
    code: Annotated[str, Text(64)]
    message: Sentence
    boot: Boot
    server_time: Annotated[float, Number(0, 1e12)]
    retry_after_s: Seconds | None = None


MESSAGES = (
    Hello,
    Enrol,
    Enrolled,
    Poll,
    Wait,
    TaskOffer,
    Heartbeat,
    Lease,
    OfferUpdate,
    UploadState,
    FinishUpdate,
    Receipt,
    Decline,
    Problem,
)
"""Every message there is."""
