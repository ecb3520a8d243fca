"""Connections that cost little, whatever comes over them: uvicorn's, with bounds where it has none.

uvicorn's parser takes headers of any size and waits for them for ever; a thousand clients that send one byte a second
would each hold memory and a place for as long as they like. Here a request's headers must be whole within a time and a
size, and a connection that has said nothing yet counts as one whose headers are late. Bodies are bounded where they are
read (`app.py`). Must not import torch.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0
"""From a connection, or the first byte of a later request, to the end of the headers."""
MAX_HEADER_BYTES = 16 * 1024


class GuardedConnection(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 over httptools, with a time and a size for headers."""

    header_seconds = HEADER_SECONDS
    max_header_bytes = MAX_HEADER_BYTES

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*arguments, **named)
        self._in_headers = True
        self._header_bytes = 0
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Start the clock for the first request's headers."""
        super().connection_made(transport)
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before the end of the headers."""
        if not self._in_headers:
            super().data_received(data)
            return
        if self._late is None:
            self._start_clock()  # the first byte of a later request on the same connection
        self._header_bytes += len(data)
        # What is over the bound may be body that came with the headers; then the parser is past them afterwards.
        super().data_received(data[: self.max_header_bytes])
        if self._headers_too_large():
            self._refuse()
        elif len(data) > self.max_header_bytes and not self.transport.is_closing():
            super().data_received(data[self.max_header_bytes :])

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_headers = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its headers are whole."""
        self._in_headers, self._header_bytes = False, 0
        self._stop_clock()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Its body is whole: what comes next are another request's headers."""
        self._in_headers, self._header_bytes = True, 0
        super().on_message_complete()

    def _headers_too_large(self) -> bool:
        return self._in_headers and self._header_bytes > self.max_header_bytes

    def _start_clock(self) -> None:
        self._stop_clock()
        self._late = self.loop.call_later(self.header_seconds, self._give_up)

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        if self._in_headers and not self.transport.is_closing():
            self.transport.abort()  # no answer: a slow sender may be as slow a reader

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(
                b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
            self.transport.close()
