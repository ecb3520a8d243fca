"""Values to sweep over, as a command line gives them.

0.01:1.0:13     13 values from 0.01 to 1.0, each the same multiple of the one before
0.05,0.1,0.2    these values
10,50,all       these, for a batch size
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stayput.errors import InvalidSetting

FORMS = "values with commas between them (0.05,0.1,0.2), or first:last:count for a multiplicative grid (0.01:1.0:13)"

MOST_VALUES = 100_000
"""Of one setting: more is a slip of the pen, and would fill the memory."""


def numbers(name: str, text: str) -> list[float]:
    """Numbers of a grid, or of a list."""
    if ":" not in text:
        return _listed(name, text, float)
    try:
        first, last, count = text.split(":")
        low, high, steps = float(first), float(last), int(count)
    except ValueError as error:
        raise _unreadable(name, text) from error
    if not (0 < low < high < float("inf") and 2 <= steps <= MOST_VALUES):
        raise InvalidSetting(
            f"{name}={text!r}: must go from a positive number to a larger one in 2 to {MOST_VALUES} values"
        )
    return [float(f"{low * (high / low) ** (step / (steps - 1)):.6g}") for step in range(steps)]


def whole_numbers(name: str, text: str) -> list[int]:
    """Whole numbers of a list, or of a range `0:9:10`, which is then an even one."""
    if ":" not in text:
        return _listed(name, text, int)
    try:
        first, last, count = (int(part) for part in text.split(":"))
    except ValueError as error:
        raise _unreadable(name, text) from error
    if count < 2 or (last - first) % (count - 1) != 0 or last <= first:
        raise InvalidSetting(f"{name}={text!r}: must cut first to last into count whole numbers at even distances")
    if count > MOST_VALUES:
        raise InvalidSetting(f"{name}={text!r}: must be at most {MOST_VALUES} values")
    return list(range(first, last + 1, (last - first) // (count - 1)))


def batch_sizes(name: str, text: str) -> list[Any]:
    """Whole numbers and "all"."""
    return _listed(name, text, lambda value: value if value == "all" else int(value))


def _listed(name: str, text: str, read: Callable[[str], Any]) -> list[Any]:
    try:
        return [read(value.strip()) for value in text.split(",")]
    except ValueError as error:
        raise _unreadable(name, text) from error


def _unreadable(name: str, text: str) -> InvalidSetting:
    return InvalidSetting(f"{name}={text!r}: must be {FORMS}")


GRIDS: dict[str, Callable[[str, str], list[Any]]] = {
    "client_fraction": numbers,
    "local_epochs": whole_numbers,
    "batch_size": batch_sizes,
    "learning_rate": numbers,
    "learning_rate_decay": numbers,
    "seed": whole_numbers,
}
"""The settings that a sweep can vary, and how their values are read."""
