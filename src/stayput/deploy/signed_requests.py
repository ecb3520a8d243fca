r"""Every request is signed: over method, target, SHA-256 of the body, nonce, time, and the process it is meant for.

    stayput-request-1\n METHOD\n /path?query\n SHA-256 of the body\n nonce\n milliseconds\n boot\n

What each part is for: the hash of the body lets a request be judged by its headers, before a byte of the body is read;
the nonce makes each request count once; the time bounds how long nonces must be remembered; and `boot`, which a
coordinator's process draws when it starts, makes a recorded request worthless after a restart, after a clock was set
back, and at another coordinator with the same database. So the memory of nonces need not outlive the process. A client
whose clock or boot is wrong is told the right ones in the refusal, and repeats once.

Pure: clock, keys and memory are given. Must not import torch or a web framework.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256

from stayput.deploy.identity import KnownKey, Role, SigningKey, public_key_id, signature_holds
from stayput.deploy.nonces import NonceMemory
from stayput.deploy.schemas import OLDEST_PROTOCOL, PROTOCOL
from stayput.errors import AccessDenied, ProtocolMismatch

NO_BODY = sha256(b"").hexdigest()
"""The hash of a request without a body."""
WINDOW_SECONDS = 60.0
"""How far a request's time may be from the coordinator's."""

_HEADERS = {
    "stayput-protocol": re.compile(r"[0-9]{1,9}", re.ASCII),
    "stayput-key": re.compile(r"[0-9a-f]{32}", re.ASCII),
    "stayput-time": re.compile(r"[0-9]{1,16}", re.ASCII),
    "stayput-nonce": re.compile(r"[0-9a-f]{32}", re.ASCII),
    "stayput-boot": re.compile(r"[0-9a-f]{0,32}", re.ASCII),
    "stayput-body-sha256": re.compile(r"[0-9a-f]{64}", re.ASCII),
    "stayput-signature": re.compile(r"[0-9a-f]{128}", re.ASCII),
}


def new_boot() -> str:
    """The name of a coordinator's process, for as long as it lives."""
    return secrets.token_hex(16)


def sign_request(
    key: SigningKey, method: str, target: str, body_sha256: str, *, boot: str, now: float, nonce: str | None = None
) -> dict[str, str]:
    """The headers that make a request the key's owner's. `target` is the raw path with its query."""
    parts = {
        "stayput-protocol": str(PROTOCOL),
        "stayput-key": key.key_id,
        "stayput-time": str(max(round(now * 1000), 0)),
        "stayput-nonce": nonce or secrets.token_hex(16),
        "stayput-boot": boot,
        "stayput-body-sha256": body_sha256,
    }
    return {**parts, "stayput-signature": key.sign(_signed_text(method, target, parts)).hex()}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who made a request that may be made. Everything is authorised by this, never by an id in a body."""

    key_id: str
    public_bytes: bytes
    name: str
    role: Role
    body_sha256: str
    """What the body must hash to."""

    def check_body(self, digest: str) -> None:
        """Refuse a body that is not the signed one."""
        if not hmac.compare_digest(digest, self.body_sha256):
            raise AccessDenied("altered-body", "body: its SHA-256 is not the signed one; send the request again")


@dataclass(frozen=True, slots=True)
class RequestVerifier:
    """Decides, from a request's headers alone, who sent it and whether it may be made."""

    boot: str
    keys: Callable[[str], KnownKey | None]
    clock: Callable[[], float]
    """Seconds since 1970; taken from the system once and then counted monotonically, so that it never steps back."""
    nonces: NonceMemory
    window_s: float = WINDOW_SECONDS

    def verify(
        self, method: str, target: str, headers: Mapping[str, str], *, roles: Collection[Role] = (Role.CLIENT,)
    ) -> Caller:
        """The caller, or `AccessDenied`. The memory of nonces is touched only for signatures that hold."""
        parts = read_headers(headers)
        key_id = parts["stayput-key"]
        key = self.keys(key_id)
        if key is None:
            raise AccessDenied("unknown-key", f"key {key_id}: not enrolled here; enrol it with a token (stayput join)")
        _check_signature(key.public_bytes, method, target, parts)
        now = self.clock()
        _check_standing(key_id, key, roles, now)
        self._check_freshness(parts, now)
        self.nonces.remember(key_id, parts["stayput-nonce"], int(parts["stayput-time"]) / 1000, now)
        return Caller(key_id, key.public_bytes, key.name, key.role, parts["stayput-body-sha256"])

    def verify_newcomer(self, method: str, target: str, headers: Mapping[str, str], public_bytes: bytes) -> Caller:
        """The caller of an enrolment, whose key is in the body: that it is the caller's own is what is checked.

        Strangers' nonces are not remembered, or they could fill the memory; what makes an enrolment count once is its
        token.
        """
        parts = read_headers(headers)
        key_id = parts["stayput-key"]
        if not hmac.compare_digest(public_key_id(public_bytes), key_id):
            raise AccessDenied("bad-signature", "key: the request is signed with another key than the one it enrols")
        _check_signature(public_bytes, method, target, parts)
        self._check_freshness(parts, self.clock())
        return Caller(key_id, public_bytes, "", Role.CLIENT, parts["stayput-body-sha256"])

    def _check_freshness(self, parts: Mapping[str, str], now: float) -> None:
        if parts["stayput-boot"] != self.boot:
            raise AccessDenied("stale-boot", "boot: not this process of the coordinator; sign again with the one given")
        time = int(parts["stayput-time"]) / 1000
        if abs(time - now) > self.window_s:
            where = "ahead of" if time > now else "behind"
            raise AccessDenied(
                "clock-skew",
                f"time: {abs(time - now):.0f} s {where} the coordinator's clock: must be "
                f"within {self.window_s:.0f} s; sign again with the time given",
            )


class ClientClock:
    """A client's idea of the coordinator's time: its own clock and what the coordinator said of the difference."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.offset = 0.0

    def now(self) -> float:
        """The coordinator's time, as far as is known."""
        return self._clock() + self.offset

    def learn(self, server_time: float, sent_at: float, received_at: float) -> None:
        """Take the coordinator's time from an answer; sending and receiving are timed by this client's own clock."""
        self.offset = server_time - (sent_at + received_at) / 2


def read_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The parts of a signature, each of the right form; names in lower case."""
    parts = {}
    for name, form in _HEADERS.items():
        value = headers.get(name)
        if value is None:
            raise AccessDenied("no-credentials", f"{name}: missing; every request must be signed by an enrolled key")
        if not form.fullmatch(value):
            raise AccessDenied("no-credentials", f"{name}: must match {form.pattern}")
        parts[name] = value
    protocol = int(parts["stayput-protocol"])
    if not OLDEST_PROTOCOL <= protocol <= PROTOCOL:
        side = "this side" if protocol > PROTOCOL else "the other side"
        raise ProtocolMismatch(
            f"protocol={protocol}: this side speaks {OLDEST_PROTOCOL} to {PROTOCOL}; upgrade stayput on {side}"
        )
    return parts


def _check_standing(key_id: str, key: KnownKey, roles: Collection[Role], now: float) -> None:
    if key.revoked:
        raise AccessDenied("revoked-key", f"key {key_id} ({key.name}): was revoked by the coordinator's operator")
    if key.expires_at is not None and now >= key.expires_at:
        raise AccessDenied("expired-key", f"key {key_id} ({key.name}): expired; enrol a new one with a new token")
    if key.role not in roles:
        raise AccessDenied("wrong-role", f"key {key_id} ({key.name}): role {key.role} may not do this")


def _check_signature(public_bytes: bytes, method: str, target: str, parts: Mapping[str, str]) -> None:
    signature = bytes.fromhex(parts["stayput-signature"])
    if not signature_holds(public_bytes, signature, _signed_text(method, target, parts)):
        raise AccessDenied("bad-signature", "signature: does not hold over this request; was it altered on its way?")


def _signed_text(method: str, target: str, parts: Mapping[str, str]) -> bytes:
    lines = (
        f"stayput-request-{parts['stayput-protocol']}",
        method.upper(),
        target,
        parts["stayput-body-sha256"],
        parts["stayput-nonce"],
        parts["stayput-time"],
        parts["stayput-boot"],
    )
    # A line end in one part could pass for the border to the next.
    if any("\n" in line for line in lines):
        raise AccessDenied("bad-signature", "request: no part of what is signed may hold a line end")
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")
