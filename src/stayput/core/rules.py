"""The rules settings are held to, each with its sentence: value, rule, way out.

Must not import anything of stayput but its errors.
"""

from __future__ import annotations

import math
from typing import Literal

from stayput.errors import InvalidSetting

BatchSize = int | Literal["all"]
"""B, the local minibatch size; "all" is the paper's B=∞, a client's whole data as one batch."""


def require_fraction(name: str, value: float, meaning_of_zero: str) -> None:
    """Refuse what is not in [0, 1]."""
    if not _is_number(value) or not 0 <= value <= 1:
        raise InvalidSetting(f"{name}={value!r}: must be in [0, 1] (0 {meaning_of_zero})")


def require_positive(name: str, value: float, way_out: str) -> None:
    """Refuse what is not a positive, finite number."""
    if not _is_number(value) or not value > 0 or math.isinf(value):
        raise InvalidSetting(f"{name}={value!r}: must be a positive number ({way_out})")


def require_at_least_zero(name: str, value: float, way_out: str) -> None:
    """Refuse what is not a finite number of at least 0."""
    if not _is_number(value) or value < 0 or math.isinf(value):
        raise InvalidSetting(f"{name}={value!r}: must be a number of at least 0 ({way_out})")


def require_below_one(name: str, value: float, way_out: str) -> None:
    """Refuse what is not in [0, 1): a share that is kept, of which something must be new."""
    if not _is_number(value) or not 0 <= value < 1:
        raise InvalidSetting(f"{name}={value!r}: must be at least 0 and less than 1 ({way_out})")


def require_count(name: str, value: object, way_out: str, *, least: int = 1) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidSetting(f"{name}={value!r}: must be a whole number of at least {least} ({way_out})")


def require_batch_size(name: str, value: object) -> None:
    """Refuse what is neither a positive whole number nor "all"."""
    if value != "all":
        require_count(name, value, 'or "all" for a client\'s whole data as one batch')


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
