"""Settings that change over rounds, such as E or B: the paper's "decay the amount of local computation".

A schedule is a plain value, or values with the round each holds from: 20 for ever, or {1: 20, 50: 5, 100: 1} for
20 in rounds 1 to 49, 5 in rounds 50 to 99, then 1. On a command line that is `20,50:5,100:1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from stayput.core.rules import BatchSize
from stayput.errors import InvalidSetting

ScheduledCount = int | Mapping[int, int]
ScheduledBatchSize = BatchSize | Mapping[int, BatchSize]

Value = TypeVar("Value", int, BatchSize)


def at_round(schedule: Value | Mapping[int, Value], round_number: int) -> Value:
    """The value that holds in a round."""
    if not isinstance(schedule, Mapping):
        return schedule
    return schedule[max(start for start in schedule if start <= round_number)]


def values_of(name: str, schedule: object) -> list[object]:
    """Every value of a schedule, after a check that it says what holds from round 1 on."""
    if not isinstance(schedule, Mapping):
        return [schedule]
    whole = all(isinstance(start, int) and not isinstance(start, bool) for start in schedule)
    if not whole or not schedule or min(schedule) != 1:
        raise InvalidSetting(
            f"{name}={dict(schedule)!r}: must map rounds to values and begin with round 1 "
            f"(such as {{1: 20, 50: 5}}, on a command line 20,50:5)"
        )
    return list(schedule.values())


def parse_schedule(name: str, text: str) -> object:
    """`20,50:5,100:1` as {1: 20, 50: 5, 100: 1}; a plain `20` or `all` as itself."""
    entries = [entry.strip() for entry in text.split(",")]
    if len(entries) == 1 and ":" not in entries[0]:
        return _parse_value(name, text, entries[0])
    schedule: dict[int, object] = {}
    for position, entry in enumerate(entries):
        start, colon, value = entry.rpartition(":")
        if not colon and position > 0:
            raise _unreadable(name, text)
        try:
            schedule[int(start) if colon else 1] = _parse_value(name, text, value)
        except ValueError as error:
            raise _unreadable(name, text) from error
    return schedule


def _parse_value(name: str, text: str, value: str) -> int | str:
    if value == "all":
        return value
    try:
        return int(value)
    except ValueError as error:
        raise _unreadable(name, text) from error


def _unreadable(name: str, text: str) -> InvalidSetting:
    return InvalidSetting(
        f"{name}={text!r}: must be one value, or values with the round each holds from (such as 20,50:5,100:1)"
    )
