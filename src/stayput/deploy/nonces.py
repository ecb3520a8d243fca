"""The memory of nonces: each request counts once.

A nonce is remembered until its request's time leaves the window in which requests are taken at all; so nothing that is
still acceptable is ever forgotten. The memory is bounded: where it is full, for one key or in total, a request is
refused rather than an older nonce forgotten. Must not import torch or a web framework.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

from stayput.errors import AccessDenied


class NonceMemory:
    """Which nonces were seen, by the second of their requests' times."""

    def __init__(self, window_s: float, *, capacity: int = 400_000, per_key: int = 4_000) -> None:
        self._window_s = window_s
        self._capacity = capacity
        self._per_key = per_key
        self._seen: dict[int, dict[bytes, str]] = {}  # second of the request's time -> nonces, with their keys
        self._of_key: Counter[str] = Counter()
        self._oldest = -(2**62)

    def __len__(self) -> int:
        return self._of_key.total()

    def remember(self, key_id: str, nonce: str, time: float, now: float) -> None:
        """Take a nonce, or refuse one that was seen, or that there is no room for. `time` is within the window."""
        self._forget_before(int(now - self._window_s) - 1)
        second = self._seen.setdefault(int(time), {})
        mark = blake2b(f"{key_id}:{nonce}".encode(), digest_size=16).digest()
        if mark in second:
            raise AccessDenied("replayed-nonce", "nonce: seen before; every request needs a new one")
        if self._of_key[key_id] >= self._per_key or len(self) >= self._capacity:
            raise AccessDenied(
                "too-many-requests", f"key {key_id}: too many requests in {2 * self._window_s:.0f} s; come back later"
            )
        second[mark] = key_id
        self._of_key[key_id] += 1

    def _forget_before(self, oldest: int) -> None:
        if oldest <= self._oldest:
            return
        self._oldest = oldest
        for second in [second for second in self._seen if second < oldest]:
            self._of_key.subtract(self._seen.pop(second).values())
        self._of_key = +self._of_key  # keys without nonces leave no trace
