"""JSON from strangers: bounded in size and depth, without NaN, without duplicate keys, without huge numbers.

Python's parser accepts `NaN`, numbers of any length and keys that come twice (the last one wins, so two readers may see
two messages). Everything that comes over the wire is read here instead. Must not import torch or a web framework.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from stayput.errors import MalformedMessage

MAX_BYTES = 256 * 1024
MAX_DEPTH = 8
MAX_WHOLE = 2**53 - 1
"""The largest whole number that every JSON reader has exactly."""

_STRINGS = re.compile(rb'"(?:[^"\\]+|\\.)*+"?', re.DOTALL)  # possessive, and an open end matches: never tried twice
_NOT_BRACKETS = re.compile(rb"[^\[\]{}]+")
_LONGEST_NUMBER = 40


def parse_object(
    data: bytes | bytearray | memoryview, *, what: str, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> dict[str, Any]:
    """The JSON object that `data` is, or `MalformedMessage` saying why it is none."""
    if len(data) > max_bytes:
        raise MalformedMessage(f"{what}: {len(data)} bytes: must be at most {max_bytes}")
    data = bytes(data)
    if _depth(data) > max_depth:
        raise MalformedMessage(f"{what}: nested deeper than {max_depth}")
    try:
        parsed = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_int=_whole,
            parse_float=_number,
        )
    except _Refused as refused:
        raise MalformedMessage(f"{what}: {refused}") from None
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(f"{what}: not JSON ({error})") from None
    if not isinstance(parsed, dict):
        raise MalformedMessage(f"{what}: must be a JSON object, is {shown(parsed)}")
    return parsed


def shown(value: object, longest: int = 60) -> str:
    """A value for an error message: short, in one line, without what a terminal would act on."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    text = ascii(value)
    return text if len(text) <= longest else f"{text[:longest]}..."


class _Refused(Exception):
    """What the hooks of the parser raise; never leaves this module."""


def _depth(data: bytes) -> int:
    depth = deepest = 0
    for bracket in _NOT_BRACKETS.sub(b"", _STRINGS.sub(b"", data)):
        if bracket in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Refused("a key comes twice")
    return found


def _constant(text: str) -> NoReturn:
    raise _Refused(f"{text} is not a number")


def _whole(text: str) -> int:
    if len(text) > _LONGEST_NUMBER or abs(number := int(text)) > MAX_WHOLE:
        raise _Refused(f"the number {shown(text)} is too large")
    return number


def _number(text: str) -> float:
    if len(text) > _LONGEST_NUMBER or not math.isfinite(number := float(text)):
        raise _Refused(f"the number {shown(text)} is too large")
    return number
