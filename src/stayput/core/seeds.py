"""Every random choice of a run, from counter-based streams.

A choice (a cohort, a shuffle, a dropout mask, initial weights) is drawn from a stream of its own, named by
(run seed, purpose, round, client, epoch). There is no state that travels from one choice to the next: a resumed
run, a run with its clients in another order, on another engine or on other machines draws the same numbers.

The generator is Philox (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3"): a bijection of
(key, counter), where the key is a hash of (seed, purpose) and the counter holds (round, client, epoch). NumPy
promises Philox's raw words for ever, but not what its `Generator` makes of them, so permutations and samples
without replacement are made here from raw words. `generator` is for partitions, whose result is stored with a
fingerprint in the run folder.

Noise for privacy and keys for identity never come from here: they need the operating system's generator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stayput.core.rules import require_count

if TYPE_CHECKING:
    import torch

Indices = npt.NDArray[np.int64]
"""Positions of clients or examples."""


class Purpose(StrEnum):
    """What a stream is for. Two purposes never share numbers; the names are part of a run's result."""

    COHORT = "cohort"
    REPLACEMENT = "replacement clients"
    SHUFFLE = "shuffle"
    INITIAL_WEIGHTS = "initial weights"
    LOCAL_TRAINING = "local training"
    DROPOUT = "dropout"
    FULL_GRADIENT = "full gradient"
    PARTITION = "partition"
    TOY_DATA = "toy data"
    AUGMENTATION = "augmentation"
    AVAILABILITY = "availability"
    VIRTUAL_FLEET = "virtual fleet"


def raw_words(
    seed: int, purpose: Purpose, count: int, *, round_number: int = 0, client: int = 0, epoch: int = 0
) -> npt.NDArray[np.uint64]:
    """The first `count` words of a stream."""
    return _philox(seed, purpose, round_number, client, epoch).random_raw(count)


def words_of(key: npt.NDArray[np.uint64], count: int, name: tuple[int, int, int]) -> npt.NDArray[np.uint64]:
    """The first words of the stream that the two words of a `stream_key` and (epoch, client, round) name."""
    return np.random.Philox(key=key, counter=np.array([0, *name], dtype=np.uint64)).random_raw(count)


def permutation(
    seed: int, purpose: Purpose, size: int, *, round_number: int = 0, client: int = 0, epoch: int = 0
) -> Indices:
    """A uniformly random order of range(size): the order of as many random words."""
    words = raw_words(seed, purpose, size, round_number=round_number, client=client, epoch=epoch)
    return np.argsort(words, kind="stable").astype(np.int64, copy=False)


def distinct_integers(
    seed: int, purpose: Purpose, count: int, below: int, *, round_number: int = 0, epoch: int = 0
) -> Indices:
    """`count` different integers of range(below), sorted, every subset equally likely.

    Few out of many are drawn one after another, skipping repeats, so the cost depends on `count` alone: a cohort
    of 100 out of a million takes no longer than out of a thousand.
    """
    if 4 * count > below:
        return np.sort(permutation(seed, purpose, below, round_number=round_number, epoch=epoch)[:count])
    stream = _philox(seed, purpose, round_number, 0, epoch)
    accept_below = (2**64 // below) * below  # rejecting the words above it makes every integer equally likely
    chosen: dict[int, None] = {}
    while len(chosen) < count:
        for word in stream.random_raw(2 * count).tolist():
            if word < accept_below:
                chosen[word % below] = None
                if len(chosen) == count:
                    break
    return np.sort(np.fromiter(chosen, dtype=np.int64, count=count))


def generator(seed: int, purpose: Purpose) -> np.random.Generator:
    """A NumPy generator on a stream, for draws from named distributions."""
    return np.random.Generator(_philox(seed, purpose, 0, 0, 0))


def torch_seed(seed: int, purpose: Purpose, *, round_number: int = 0, client: int = 0) -> int:
    """A seed for torch's own generators, taken from a stream."""
    return int(raw_words(seed, purpose, 1, round_number=round_number, client=client)[0] >> np.uint64(1))


@contextmanager
def torch_stream(
    seed: int, purpose: Purpose, *, round_number: int = 0, client: int = 0, device: torch.device | None = None
) -> Iterator[None]:
    """Inside, torch's global generators (which initialisers and nn.Dropout use) run on a stream of ours.

    Outside they are as they were, so a caller's own randomness is neither used nor disturbed.
    """
    import torch  # late: a coordinator draws cohorts, and holds no tensors

    devices = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(torch_seed(seed, purpose, round_number=round_number, client=client))
        yield


def _philox(seed: int, purpose: Purpose, round_number: int, client: int, epoch: int) -> np.random.Philox:
    require_count("seed", seed, "every random choice of a run follows from it", least=0)
    counter = np.array([0, epoch, client, round_number], dtype=np.uint64)  # the stream itself counts in word 0
    return np.random.Philox(key=stream_key(seed, purpose), counter=counter)


@lru_cache(maxsize=1024)
def stream_key(seed: int, purpose: Purpose) -> int:
    """The 128 bits that name a seed and a purpose."""
    return int.from_bytes(hashlib.sha256(f"stayput:{purpose.value}:{seed}".encode()).digest()[:16], "little")
