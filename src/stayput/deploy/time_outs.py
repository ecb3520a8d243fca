"""The one concept of time in the deployment: something is due at an instant of a monotonic clock.

A round's deadline, a client's lease and a held poll are all entries here. Pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key")


class TimeOuts(Generic[Key]):
    """Instants by key; a key has one, and setting it again moves it."""

    def __init__(self) -> None:
        self._at: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._count = 0  # equal instants come in the order they were set; keys need no order of their own

    def set(self, key: Key, at: float) -> None:
        """`key` is due at `at`, and no longer when it was before."""
        known = self._at.get(key)
        if known == at:
            return
        self._at[key] = at
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, key))

    def cancel(self, key: Key) -> None:
        """`key` is not due any more."""
        self._at.pop(key, None)

    def at(self, key: Key) -> float | None:
        """When it is due, if it is."""
        return self._at.get(key)

    def next(self) -> float | None:
        """The earliest instant at which anything is due."""
        while self._heap and self._at.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # moved or cancelled since
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> Iterator[Key]:
        """Take out what is due, earliest first."""
        while (at := self.next()) is not None and at <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._at[key]
            yield key
