"""Connections that send one byte a second, in a process of their own: python slow_senders.py URL HOW_MANY SECONDS.

Prints how many were closed by the other side.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from urllib.parse import urlsplit

from stayput.deploy.certificates import client_context

STARTS = (
    b"",  # not a byte of a request
    b"POST /v1/poll HTTP/1.1\r\nhost: x\r\nx-slow: ",  # headers without an end
    b"POST /v1/enrol HTTP/1.1\r\nhost: x\r\ncontent-length: 3000\r\n\r\n",  # a body without an end
)


async def trickle(url, context, start, stop):
    """A connection that sends one byte a second, again when it is closed; how often it was closed."""
    parts, closed = urlsplit(url), 0
    while not stop.is_set():
        with contextlib.suppress(OSError, ssl.SSLError):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=context)
            try:
                writer.write(start)
                while not stop.is_set() and not reader.at_eof() and not writer.transport.is_closing():
                    writer.write(b"x")
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1000), 1.0)
                closed += not stop.is_set()
            finally:
                writer.transport.abort()
        await asyncio.sleep(1)
    return closed


def say(what):
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def main(url, how_many, seconds):
    context, stop = client_context(pinned=True), asyncio.Event()
    slow = []
    for number in range(how_many):
        slow.append(asyncio.ensure_future(trickle(url, context, STARTS[number % len(STARTS)], stop)))
        await asyncio.sleep(0.005)
    say("all")
    await asyncio.sleep(seconds)
    stop.set()
    say(sum(await asyncio.gather(*slow)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
