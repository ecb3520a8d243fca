"""The status is read whole, however many parts it comes in."""

from __future__ import annotations

import asyncio

import pytest

from stayput.deploy import status_reader
from stayput.errors import Away


async def parts():
    for part in (b'{"history": [', b"1, ", b"2]}"):
        await asyncio.sleep(0)
        yield part


def test_an_answer_in_parts_is_read_to_its_end():
    assert asyncio.run(status_reader.whole(parts())) == b'{"history": [1, 2]}'


def test_an_answer_without_end_is_not(monkeypatch):
    monkeypatch.setattr(status_reader, "LARGEST_STATUS", 14)
    with pytest.raises(Away, match="more than 14 bytes"):
        asyncio.run(status_reader.whole(parts()))
