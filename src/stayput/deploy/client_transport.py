"""A client's way to its coordinator: signed requests over TLS 1.3, on connections that are kept.

What the coordinator says of itself (its boot, its time) is taken from its answers and refusals, and a request that was
refused for either is signed again and repeated once. Must not import torch or the web framework.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import urlsplit

import aiohttp

from stayput.deploy import messages as m
from stayput.deploy.certificates import client_context
from stayput.deploy.identity import SigningKey
from stayput.deploy.schemas import Message, decode, encode
from stayput.deploy.signed_requests import ClientClock, sign_request
from stayput.deploy.strict_json import MAX_BYTES
from stayput.errors import (
    AccessDenied,
    Away,
    CertificateMismatch,
    DeploymentError,
    InvalidSetting,
    ProtocolMismatch,
    TransferFailed,
)

M = TypeVar("M", bound=Message)

CONNECT_SECONDS = 10.0
SIGN_AGAIN = frozenset({"stale-boot", "clock-skew", "replayed-nonce"})
"""Refusals of a signature that was right when it was made."""
ANSWER_SECONDS = 60.0
"""An answer that is not there after this long, beyond the time that a poll is held, is not waited for."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a coordinator is, and what it is known by."""

    url: str
    fingerprint: str | None = None
    """Of its certificate; None to trust the system's authorities, or `ca_file`."""
    ca_file: Path | None = None
    identity: Path | None = None
    """A certificate and its key, for a coordinator that asks for one (mTLS)."""


def check_url(url: str) -> None:
    """Refuse an address that is none, or whose requests, tokens among them, anybody on the way could read."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0 and not parts.query
    except ValueError:  # a port that is none
        fits = False
    if not fits:
        raise InvalidSetting(f"url={url!r}: must be https://HOST:PORT, as `stayput serve` says where it listens")


def connector_to(address: Address) -> aiohttp.TCPConnector:
    """Connections to a coordinator, whose certificate is checked before anything is sent."""
    check_url(address.url)
    how: ssl.SSLContext | aiohttp.Fingerprint
    if address.fingerprint is None:
        how = client_context(ca_file=address.ca_file, identity=address.identity)
    elif address.identity is None:
        how = aiohttp.Fingerprint(bytes.fromhex(address.fingerprint))
    else:
        raise DeploymentError(
            "a pinned fingerprint and a certificate of one's own (mTLS): must be one of the two "
            "(give the authority that signed the coordinator's certificate with --ca-file)"
        )
    return aiohttp.TCPConnector(ssl=how, limit=4, keepalive_timeout=75)


class Connection:
    """Signed requests of one client."""

    def __init__(self, address: Address, key: SigningKey) -> None:
        self._address, self._key = address, key
        self._clock = ClientClock(time.time)
        self._boot = ""
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=connector_to(self._address),
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS),
            auto_decompress=False,
        )
        # aiohttp would send a GET or PUT again by itself where a kept connection turns out to be cut, under the same
        # nonce: a chunk would travel in vain, and then once more. What is repeated is this client's to decide.
        self._session._retry_connection = False  # noqa: SLF001 - there is no other way to say so
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def clock_offset(self) -> float:
        """What to add to this machine's clock to have the coordinator's."""
        return self._clock.offset

    async def hello(self) -> m.Hello:
        """Who the coordinator is; its boot and time are known from here on."""
        sent_at = time.time()
        body, _ = await self._exchange("GET", "/v1/hello", b"", {}, ANSWER_SECONDS)
        hello = decode(m.Hello, body)
        self._boot = hello.boot
        self._clock.learn(hello.time, sent_at, time.time())
        return hello

    async def ask(
        self, method: str, target: str, message: Message, expected: type[M] | tuple[type[M], ...], *, wait: float = 0.0
    ) -> M:
        """The answer to a message."""
        body = await self.send(method, target, encode(message), wait=wait)
        return decode(expected, body)

    async def send(
        self, method: str, target: str, body: bytes = b"", *, wait: float = 0.0, limit: int = MAX_BYTES
    ) -> bytes:
        """The bytes that answer a signed request."""
        if not self._boot:
            await self.hello()
        digest = hashlib.sha256(body).hexdigest()
        for attempt in (1, 2):
            headers = sign_request(self._key, method, target, digest, boot=self._boot, now=self._clock.now())
            sent_at = time.time()
            answer, status = await self._exchange(method, target, body, headers, wait + ANSWER_SECONDS, limit)
            if status < 400:
                return answer
            refusal = decode(m.Problem, answer)
            if attempt == 1 and refusal.code in SIGN_AGAIN:
                self._boot = refusal.boot
                self._clock.learn(refusal.server_time, sent_at, time.time())
                continue
            raise _error_of(refusal, status)
        raise AssertionError("unreachable: the second refusal is raised")

    async def _exchange(
        self, method: str, target: str, body: bytes, headers: dict[str, str], seconds: float, limit: int = MAX_BYTES
    ) -> tuple[bytes, int]:
        assert self._session is not None  # noqa: S101 - used inside `async with`
        try:
            async with (
                asyncio.timeout(seconds),
                self._session.request(
                    method, self._address.url.rstrip("/") + target, data=body or None, headers=headers,
                    allow_redirects=False,
                ) as response,
            ):  # fmt: skip
                content = bytearray()
                async for part in response.content.iter_any():
                    content += part
                    if len(content) > limit:
                        raise TransferFailed(f"{target}: an answer of more than {limit} bytes")
                return bytes(content), response.status
        except aiohttp.ServerFingerprintMismatch as error:
            raise CertificateMismatch(
                f"{self._address.url}: its certificate is not the pinned one ({error.got.hex()}): either this is not "
                "the coordinator, or its operator gave it a new certificate (then join again with a new token)"
            ) from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise CertificateMismatch(
                f"{self._address.url}: its certificate is not trusted here ({error.certificate_error}) (join with the "
                "token, which carries its fingerprint, or give --ca-file)"
            ) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Away(f"{self._address.url}: {type(error).__name__}: {error}") from error


def _error_of(refusal: m.Problem, status: int) -> DeploymentError:
    if status in {429, 502, 503, 504} or refusal.code == "replayed-nonce":
        return Away(refusal.message, refusal.retry_after_s)
    if refusal.code == "protocol":
        return ProtocolMismatch(refusal.message)
    if status in {401, 403}:
        return AccessDenied(refusal.code, refusal.message)
    return TransferFailed(refusal.message)
