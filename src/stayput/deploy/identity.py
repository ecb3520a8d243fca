"""Who a client is: an Ed25519 key of its own, enrolled once with a one-time token.

The id of a key, the only id that ever authorises anything, is a hash of its public half; a name such as "clinic-7" is a
label for people. Keys and tokens come from the operating system's generator. A token is kept as a hash, like a
password, and compared in constant time. No secret is in a `repr`, an error or a log. Must not import torch or a web
framework.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from stayput.errors import AccessDenied, DeploymentError
from stayput.runs.durable_files import sync_folder

KEY_ID_LENGTH = 32
_TOKEN = re.compile(r"stayput\.([0-9a-f]{16})\.([A-Za-z0-9_-]{43})(?:\.([0-9a-f]{64}))?", re.ASCII)


class Role(StrEnum):
    """What a key is for."""

    CLIENT = "client"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class KnownKey:
    """What a coordinator keeps of an enrolled key."""

    public_bytes: bytes
    name: str
    role: Role = Role.CLIENT
    expires_at: float | None = None
    revoked: bool = False


class SigningKey:
    """The private half of a key. It shows its id and nothing else."""

    __slots__ = ("_private", "key_id", "public_bytes")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public_bytes = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.key_id = public_key_id(self.public_bytes)

    def __repr__(self) -> str:
        return f"SigningKey(key_id={self.key_id!r})"

    @classmethod
    def generate(cls) -> SigningKey:
        """A new key from the operating system's generator."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> SigningKey:
        """The key in a file, which nobody but its owner may read."""
        return cls(_parsed(path, read_secret(path)))

    def save(self, path: Path) -> None:
        """Write the key into a new file that only its owner may read."""
        write_secret(path, self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    def sign(self, message: bytes) -> bytes:
        """The signature of a message: 64 bytes."""
        return self._private.sign(message)


def public_key_id(public_bytes: bytes) -> str:
    """The id of a key: the first half of the SHA-256 of its public bytes, as hex."""
    return hashlib.sha256(public_bytes).hexdigest()[:KEY_ID_LENGTH]


def signature_holds(public_bytes: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the key's owner signed the message."""
    try:
        Ed25519PublicKey.from_public_bytes(public_bytes).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class StoredToken:
    """What a coordinator keeps of an enrolment token: enough to recognise it, too little to make it."""

    token_id: str
    digest: bytes = field(repr=False)
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class ParsedToken:
    """The parts of a token's text."""

    token_id: str
    secret: str = field(repr=False)
    fingerprint: str | None = None
    """The fingerprint of the coordinator's certificate, where the token carries it."""


def new_token(*, expires_at: float | None = None, fingerprint: str | None = None) -> tuple[str, StoredToken]:
    """The text of a new one-time token, shown once, and what is kept of it."""
    token_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    text = f"stayput.{token_id}.{secret}" + (f".{fingerprint}" if fingerprint else "")
    return text, StoredToken(token_id, _digest(secret), expires_at)


def parse_token(text: str) -> ParsedToken:
    """The parts of a token; the secret stays out of the error."""
    match = _TOKEN.fullmatch(text.strip())
    if match is None:
        raise AccessDenied(
            "bad-token",
            "token: must be the text that `stayput token new` printed, stayput.<id>.<secret>[.<fingerprint>]",
        )
    return ParsedToken(match[1], match[2], match[3])


def check_token(token: ParsedToken, stored: StoredToken | None, now: float) -> None:
    """Refuse a token that is not the stored one, or is too old. Takes as long for an id that does not exist."""
    digest = stored.digest if stored is not None else bytes(32)
    same = hmac.compare_digest(_digest(token.secret), digest)
    if stored is None or not same or stored.token_id != token.token_id:
        raise AccessDenied("bad-token", "token: unknown here; ask the coordinator's operator for a new one")
    if stored.expires_at is not None and now >= stored.expires_at:
        raise AccessDenied("expired-token", "token: expired; ask the coordinator's operator for a new one")


def write_secret(path: Path, content: bytes) -> None:
    """Write a new file, 0600 from its first moment, flushed with its folder; never over an existing one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def read_secret(path: Path) -> bytes:
    """The content of a file that only its owner may read, or a refusal."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if os.name == "posix" and mode & 0o077:
                raise DeploymentError(
                    f"{path}: mode {mode:04o}: must be readable by its owner alone (chmod 600 {path})"
                )
            return file.read(64 * 1024)
    except OSError as error:
        raise DeploymentError(f"{path}: cannot be read ({error.strerror})") from None


def _parsed(path: Path, content: bytes) -> Ed25519PrivateKey:
    try:
        private = load_pem_private_key(content, password=None)
    except (ValueError, TypeError):
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise DeploymentError(f"{path}: must hold an Ed25519 private key in PEM") from None
    return private


def _digest(secret: str) -> bytes:
    return hashlib.sha256(b"stayput-token-1\n" + secret.encode()).digest()
