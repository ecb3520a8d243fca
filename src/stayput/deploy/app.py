"""The routes of a coordinator: who may call each, what it reads, what it answers. Thin: decisions are the machine's.

Requests are judged by their headers before a byte of the body is read; bodies are bounded in size and time. Every
refusal is a `Problem` with a code, a sentence, and the coordinator's time and boot, so that a client with a wrong clock
or an old boot can sign again. Must not import torch.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from stayput.deploy.messages import Problem
from stayput.deploy.schemas import encode
from stayput.deploy.service import Unavailable
from stayput.deploy.signed_requests import Caller
from stayput.deploy.strict_json import MAX_BYTES
from stayput.deploy.uploads import UploadsFull
from stayput.errors import AccessDenied, DeploymentError, MalformedMessage, ProtocolMismatch, StoreFailed

logger = logging.getLogger("stayput.deploy")

BODY_SECONDS = 60.0
"""A body that is not there after this long is not waited for."""
BODY_BUDGET = 64 << 20
"""Bytes of bodies that may be in memory at a time."""
SMALL_BODY = 16 << 10
"""Bodies up to this size are read however full it is: heartbeats and polls pass while uploads wait."""
RETRY_SECONDS = 1.0
"""When to come back to a coordinator that cannot take changes now."""

FULL = "so many uploads are under way that this one has to wait"

_STATUS_OF_CODE = {"too-many-requests": 429, "wrong-role": 403, "revoked-key": 403, "used-token": 403, "used-key": 403}


@dataclass(frozen=True, slots=True)
class Authority:
    """What every route needs: who called, and what the coordinator says of itself."""

    boot: str
    clock: Callable[[], float]


class BodyTooSlow(DeploymentError):
    """A body did not come in time."""


class BodyTooLarge(DeploymentError):
    """A body is longer than its route allows, or than it said."""


class BodyBudget:
    """How many bytes of bodies may be in memory at a time, of all requests together.

    A body's place is taken before its first byte is read, by what it may become at most. Small ones always fit: they
    are bounded by the number of connections.
    """

    def __init__(self, most: int = BODY_BUDGET) -> None:
        self._most, self.taken = most, 0

    @contextlib.contextmanager
    def place(self, size: int) -> Iterator[None]:
        """A place for a body, or `UploadsFull`."""
        if size > SMALL_BODY and self.taken + size > self._most:
            raise UploadsFull
        self.taken += size
        try:
            yield
        finally:
            self.taken -= size


async def read_body(request: Request, limit: int) -> bytes:
    """A body of at most `limit` bytes, in bounded time and, with all others, in bounded memory."""
    said = request.headers.get("content-length")
    if said is not None and (not said.isascii() or not said.isdigit() or int(said[:20]) > limit):
        raise BodyTooLarge(f"content-length={said[:32]}: must be at most {limit} here")
    budget: BodyBudget = request.app.state.bodies
    with budget.place(limit if said is None else int(said)):
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await _whole_body(request, limit)
        except TimeoutError:
            raise BodyTooSlow(f"body: must come within {BODY_SECONDS:.0f} s") from None


async def _whole_body(request: Request, limit: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise BodyTooLarge(f"body: must be at most {limit} bytes here")
        parts.append(part)
    return b"".join(parts)


async def signed_body(request: Request, caller: Caller, limit: int = MAX_BYTES) -> bytes:
    """A body that is the one that was signed."""
    body = await read_body(request, limit)
    caller.check_body(hashlib.sha256(body).hexdigest())
    return body


_ANSWERS: tuple[tuple[tuple[type[Exception], ...], str, int, float | None], ...] = (
    ((ProtocolMismatch,), "protocol", 426, None),
    ((MalformedMessage,), "malformed", 400, None),
    ((BodyTooLarge,), "too-large", 413, None),
    ((BodyTooSlow,), "too-slow", 408, None),
    ((UploadsFull,), "busy", 429, RETRY_SECONDS),
    ((Unavailable, StoreFailed), "unavailable", 503, RETRY_SECONDS),
    ((OSError,), "storage", 503, RETRY_SECONDS),
    ((DeploymentError,), "refused", 400, None),
    ((Exception,), "internal", 500, None),
)
"""Code, status and when to come back for each kind of error; the first that fits."""


def problem(authority: Authority, error: Exception) -> Response:
    """A refusal as an answer."""
    if isinstance(error, AccessDenied):
        code, status = error.code, _STATUS_OF_CODE.get(error.code, 401)
        retry_after = RETRY_SECONDS if status == 429 else None
    else:
        _, code, status, retry_after = next(answer for answer in _ANSWERS if isinstance(error, answer[0]))
    text = "the coordinator failed to answer; its log says why" if status == 500 else str(error)
    message = Problem(code, (text or FULL)[:2000], authority.boot, authority.clock(), retry_after)
    headers = {"Connection": "close"} if status in {408, 413} else {}  # the rest of the body is not read
    if retry_after is not None:
        headers["Retry-After"] = str(max(round(retry_after), 1))
    return Response(encode(message), status, headers, media_type="application/json")


Handler = Callable[[Request], Awaitable[Response]]


def guarded(authority: Authority, handler: Handler) -> Handler:
    """A handler whose refusals are answers."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except (DeploymentError, UploadsFull) as error:
            return problem(authority, error)
        except ClientDisconnect:
            return Response(status_code=400)
        except OSError as error:
            logger.warning("storage: %s", error)
            return problem(authority, error)
        except Exception as error:
            logger.exception("a bug in an answer to %s %s", request.method, request.url.path)
            return problem(authority, error)

    return handle


def steady_clock() -> Callable[[], float]:
    """Seconds since 1970 that never step back: the system's clock once, then counted."""
    began_at, began = time.time(), time.monotonic()
    return lambda: began_at + time.monotonic() - began


def make_app(authority: Authority, routes: list[tuple[str, str, Handler]]) -> Starlette:
    """The application of these (method, path, handler)."""
    app = Starlette(
        routes=[Route(path, guarded(authority, handler), methods=[method]) for method, path, handler in routes]
    )
    app.state.bodies = BodyBudget()
    return app
