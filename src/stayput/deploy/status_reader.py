"""A fleet's status, read over HTTPS with a token that reads. Must not import torch or the web framework."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from stayput.deploy.client_transport import Address, connector_to
from stayput.deploy.identity import parse_token
from stayput.errors import AccessDenied, Away, CertificateMismatch

LARGEST_STATUS = 256 << 20
SECONDS = 30.0
CLOSING_SECONDS = 0.1
"""A connection that was refused for its certificate needs a moment of the loop to be closed."""


def read_status(url: str, token: str, *, ca_file: Path | None = None, after: int = -1) -> dict[str, Any]:
    """What `GET /v1/status` says, the history after a round."""
    return asyncio.run(_read(url, token, ca_file, after))


async def _read(url: str, token: str, ca_file: Path | None, after: int) -> dict[str, Any]:
    fingerprint = None if ca_file is not None else parse_token(token).fingerprint
    connector = connector_to(Address(url, fingerprint, ca_file))
    target = f"{url.rstrip('/')}/v1/status?after={after}"
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=SECONDS)) as session,
            session.get(target, headers={"Authorization": f"Bearer {token}"}, allow_redirects=False) as response,
        ):
            found: dict[str, Any] = json.loads(await whole(response.content.iter_any()))
            if response.status >= 400:
                raise AccessDenied(str(found.get("code")), str(found.get("message")))
            return found
    except aiohttp.ServerFingerprintMismatch as error:
        await asyncio.sleep(CLOSING_SECONDS)
        raise CertificateMismatch(f"{url}: its certificate is not the one that the token names") from error
    except aiohttp.ClientConnectorCertificateError as error:
        await asyncio.sleep(CLOSING_SECONDS)
        raise CertificateMismatch(
            f"{url}: its certificate is not trusted here ({error.certificate_error}) (give the whole token, which "
            "carries its fingerprint, or --ca-file)"
        ) from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        raise Away(f"{url}: cannot be reached ({reason}) (is the coordinator running, and the port right?)") from error
    except ValueError as error:
        raise Away(f"{url}: does not answer as a coordinator does ({error}) (is the port right?)") from error


async def whole(parts: AsyncIterator[bytes]) -> bytes:
    """An answer that comes in parts, as every answer of more than a few KB does."""
    body = bytearray()
    async for part in parts:
        body += part
        if len(body) > LARGEST_STATUS:
            raise Away(f"the status: is more than {LARGEST_STATUS} bytes (ask for the rounds after a later one)")
    return bytes(body)
