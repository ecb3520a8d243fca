"""Answers as JSON that a browser reads, whatever the files of a run hold.

A number that is none (`NaN`, `Infinity`: Python reads and writes them, browsers do not) is null there, and a folder's
name that is no text is escaped: one odd run does not take the page away from all the others.
"""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.responses import JSONResponse

_MOST_DIGITS = 15


class Answer(JSONResponse):
    """An answer in JSON."""

    def render(self, content: Any) -> bytes:  # noqa: ANN401 - whatever JSON can hold
        """As bytes."""
        return json_text(content).encode()


def json_text(content: Any) -> str:  # noqa: ANN401 - the same
    """One line of JSON, in ASCII."""
    try:
        return json.dumps(content, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(content), allow_nan=False)


def _finite(content: Any) -> Any:  # noqa: ANN401 - the same
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def number_in(text: str) -> int | None:
    """A whole number that a request names; None if it names none."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None
