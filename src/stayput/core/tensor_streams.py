"""Random numbers for every example of a batch, made where the batch is, from counter-based streams.

`core.seeds` makes a choice on the host, one stream a choice. What differs from example to example and from step to step
(augmentation, dropout) is too much for that, so the same idea is done here in tensor arithmetic: Philox4x32-10 (Salmon
et al. 2011), a function of a key and a counter alone. The key is a hash of (run seed, purpose); the counter names what
the numbers are for, such as (round, step, row). So they depend neither on the device, nor on which other examples are
in the batch, nor on what was drawn before, and many experiments' numbers can be made in one go, each with its own key.

Words are whole numbers in [0, 2^32) held in int64, since torch computes with no unsigned type everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from stayput.core.seeds import Purpose, stream_key

ROUNDS = 10
"""Of the cipher; what its authors recommend."""

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_INCREMENTS = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF

Draws = Callable[[int], Tensor]
"""From a number of draws to as many uniform numbers in [0, 1) for each example of a batch, [batch, number]; asked a
second time it gives fresh ones."""


def tensor_key(seed: int, purpose: Purpose) -> tuple[int, int]:
    """The two words of a stream's key."""
    key = stream_key(seed, purpose)
    return key & _MASK, (key >> 32) & _MASK


def philox(key: tuple[Tensor | int, Tensor | int], counter: Sequence[Tensor | int]) -> tuple[Tensor, ...]:
    """Four random words for every counter; the words of key and counter broadcast against each other."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = _product(_MULTIPLIERS[0], c0)
        high1, low1 = _product(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _INCREMENTS[0]) & _MASK, (k1 + _INCREMENTS[1]) & _MASK
    words: Sequence[Tensor] = torch.broadcast_tensors(*map(torch.as_tensor, (c0, c1, c2, c3)))  # type: ignore[no-untyped-call]
    return tuple(words)


def uniform(word: Tensor) -> Tensor:
    """A word as a number in [0, 1), by its upper 24 bits, which float32 holds exactly."""
    return (word >> 8).to(torch.float32) * 2.0**-24


class ExampleStreams:
    """A stream for each example of a batch: numbers for as long as one asks. It is a `Draws`.

    `key` is one for all, or tensors that broadcast to [batch]; so are the three words of `names`, the last three of the
    counter. The first counts the draws.
    """

    def __init__(self, key: tuple[Tensor | int, Tensor | int], names: tuple[Tensor | int, ...]) -> None:
        self._key = tuple(_column(word) for word in key)
        self._names = tuple(_column(word) for word in names)
        self._blocks = 0

    def __call__(self, count: int) -> Tensor:
        """Uniform numbers, [batch, count]."""
        blocks = -(-count // 4)
        device = next(word.device for word in (*self._names, *self._key) if isinstance(word, Tensor))
        numbers = torch.arange(self._blocks, self._blocks + blocks, device=device)
        self._blocks += blocks
        words = torch.stack(philox((self._key[0], self._key[1]), (numbers, *self._names)), dim=-1)
        return uniform(words.flatten(start_dim=-2)[..., :count])


def _product(multiplier: int, word: Tensor | int) -> tuple[Tensor | int, Tensor | int]:
    """The upper and the lower 32 bits of a product of 64; int64 wraps around, which leaves the bits right."""
    product = multiplier * word
    return (product >> 32) & _MASK, product & _MASK


def _column(word: Tensor | int) -> Tensor | int:
    return word.reshape(-1, 1) if isinstance(word, Tensor) else word
