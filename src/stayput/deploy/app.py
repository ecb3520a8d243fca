"""The routes of a coordinator: who may call each, what it reads, what it answers. Thin: decisions are the machine's.

Requests are judged by their headers before a byte of the body is read; bodies are bounded in size and time. Every
refusal is a `Problem` with a code, a sentence, and the coordinator's time and boot, so that a client with a wrong clock
or an old boot can sign again. Must not import torch.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from stayput.deploy.database import StoreFailed
from stayput.deploy.messages import Problem
from stayput.deploy.schemas import encode
from stayput.deploy.service import Unavailable
from stayput.deploy.signed_requests import Caller
from stayput.deploy.strict_json import MAX_BYTES
from stayput.deploy.uploads import UploadsFull
from stayput.errors import AccessDenied, DeploymentError, MalformedMessage, ProtocolMismatch

logger = logging.getLogger("stayput.deploy")

BODY_SECONDS = 60.0
"""A body that is not there after this long is not waited for."""
RETRY_SECONDS = 1.0
"""When to come back to a coordinator that cannot take changes now."""

_STATUS_OF_CODE = {"too-many-requests": 429, "wrong-role": 403, "revoked-key": 403, "used-token": 403}


@dataclass(frozen=True, slots=True)
class Authority:
    """What every route needs: who called, and what the coordinator says of itself."""

    boot: str
    clock: Callable[[], float]


class BodyTooLarge(DeploymentError):
    """A body is longer than its route allows, or than it said."""


async def read_body(request: Request, limit: int) -> bytes:
    """A body of at most `limit` bytes, in bounded time."""
    said = request.headers.get("content-length")
    if said is not None and (not said.isascii() or not said.isdigit() or int(said) > limit):
        raise BodyTooLarge(f"content-length={said[:32]}: must be at most {limit} here")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > limit:
                    raise BodyTooLarge(f"body: must be at most {limit} bytes here")
    except TimeoutError:
        raise DeploymentError(f"body: must come within {BODY_SECONDS:.0f} s") from None
    return bytes(body)


async def signed_body(request: Request, caller: Caller, limit: int = MAX_BYTES) -> bytes:
    """A body that is the one that was signed."""
    body = await read_body(request, limit)
    caller.check_body(hashlib.sha256(body).hexdigest())
    return body


def problem(authority: Authority, error: Exception) -> Response:
    """A refusal as an answer."""
    code, status, retry_after = "refused", 400, None
    if isinstance(error, AccessDenied):
        code, status = error.code, _STATUS_OF_CODE.get(error.code, 401)
        retry_after = RETRY_SECONDS if status == 429 else None
    elif isinstance(error, ProtocolMismatch):
        code, status = "protocol", 426
    elif isinstance(error, MalformedMessage):
        code = "malformed"
    elif isinstance(error, BodyTooLarge):
        code, status = "too-large", 413
    elif isinstance(error, UploadsFull):
        code, status, retry_after = "busy", 429, RETRY_SECONDS
    elif isinstance(error, Unavailable | StoreFailed):
        code, status, retry_after = "unavailable", 503, RETRY_SECONDS
    elif isinstance(error, OSError):
        code, status, retry_after = "storage", 503, RETRY_SECONDS
    text = str(error) or "so many uploads are under way that this one has to wait"
    message = Problem(code, text[:2000], authority.boot, authority.clock(), retry_after)
    headers = {"Connection": "close"} if status == 413 else {}  # the rest of the body is not read
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

    return handle


def steady_clock() -> Callable[[], float]:
    """Seconds since 1970 that never step back: the system's clock once, then counted."""
    began_at, began = time.time(), time.monotonic()
    return lambda: began_at + time.monotonic() - began


def make_app(authority: Authority, routes: list[tuple[str, str, Handler]]) -> Starlette:
    """The application of these (method, path, handler)."""
    return Starlette(
        routes=[Route(path, guarded(authority, handler), methods=[method]) for method, path, handler in routes]
    )
