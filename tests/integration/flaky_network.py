"""A proxy between clients and their coordinator that cuts connections and holds pieces back."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from urllib.parse import urlsplit

import numpy as np


class FlakyProxy:
    """Forwards TCP, TLS and all. Cuts a connection after so many bytes from the client; may hold pieces back.

    A piece in a hundred that is held back for a moment is what a lost packet looks like from above TCP.
    """

    def __init__(self, url, *, cut_after=None, loss=0.0, loss_s=0.2, seed=0):
        parts = urlsplit(url)
        self._target = parts.hostname, parts.port
        self._draw = np.random.default_rng(seed)
        self._cut_after, self._loss, self._loss_s = cut_after, loss, loss_s
        self.cuts = self.held_back = self.passed = 0
        """Connections cut, pieces held back, bytes that clients sent."""
        self._open, self._transports = set(), set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error):
        self._server.close()
        for transport in list(self._transports):
            transport.abort()
        await asyncio.gather(*self._open, return_exceptions=True)

    def before(self, address):
        """The same coordinator, through this proxy."""
        port = self._server.sockets[0].getsockname()[1]
        return dataclasses.replace(address, url=f"https://127.0.0.1:{port}")

    async def _serve(self, reader, writer):
        self._open.add(asyncio.current_task())
        limit = None if self._cut_after is None else int(self._draw.integers(*self._cut_after))
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            self._transports |= {writer.transport, far_writer.transport}
            out = asyncio.ensure_future(self._pump(reader, far_writer, limit, outward=True))
            back = asyncio.ensure_future(self._pump(far_reader, writer, None, outward=False))
            try:
                await asyncio.wait({out, back}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (out, back):
                    task.cancel()
                await asyncio.gather(out, back, return_exceptions=True)
                for each in (writer, far_writer):
                    each.transport.abort()
        self._open.discard(asyncio.current_task())

    async def _pump(self, reader, writer, limit, *, outward):
        passed = 0
        while data := await reader.read(16 << 10):
            self.passed += outward * len(data)
            if limit is not None and passed + len(data) > limit:
                writer.write(data[: limit - passed])
                await writer.drain()
                self.cuts += 1
                return
            if self._draw.random() < self._loss:
                self.held_back += 1
                await asyncio.sleep(self._loss_s)
            passed += len(data)
            writer.write(data)
            await writer.drain()
