"""Made-up posts in any number, to show what the size of the paper's data costs: 500,000 authors, 10 million posts.

They are no language, but have what a next-word model can learn and what makes clients differ: words follow a power law,
half of them are a fixed function of the word before, and each author has a topic that shifts the rest. Written row by
row into memory maps in the form of `posts`, so the whole is never in memory.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from stayput.core.rules import require_count
from stayput.core.seeds import Purpose, generator
from stayput.data.posts import NOTHING, UNROLL, VOCABULARY
from stayput.data.store import save_columns, working_folder

_CHUNK_ROWS = 1 << 19
_TEST_AUTHORS = 0.01
_FOLLOWS = 0.5
"""The share of words that follow from the word before."""


def generate(destination: Path, *, num_authors: int = 500_000, num_posts: int = 10_000_000, seed: int = 0) -> None:
    """Write posts into a folder that `posts.open_prepared` opens; one post is one stretch of at most ten words."""
    require_count("num_authors", num_authors, "K, clients that hold data", least=1)
    require_count("num_posts", num_posts, "each author writes at least one", least=num_authors)
    with working_folder(destination.parent, destination.name) as working:
        columns: dict[str, npt.NDArray[np.generic]] = {}
        test_authors = max(1, round(_TEST_AUTHORS * num_authors))
        test_posts = max(test_authors, round(_TEST_AUTHORS * num_posts))
        for part, authors, posts in (("train", num_authors, num_posts), ("test", test_authors, test_posts)):
            draw = generator(seed + (part == "test"), Purpose.TOY_DATA)
            author = _author_of_each_post(authors, posts, draw)
            words = np.lib.format.open_memmap(
                working / f"{part}.npy", mode="w+", dtype=np.int16, shape=(posts, UNROLL + 1)
            )
            for first in range(0, posts, _CHUNK_ROWS):
                mine = author[first : first + _CHUNK_ROWS]
                words[first : first + _CHUNK_ROWS] = _posts(mine, draw)
            columns[f"{part}_words"], columns[f"{part}_author"] = words, author
        save_columns(columns, destination, working=working, origin=f"generated, seed {seed}")


def _author_of_each_post(num_authors: int, num_posts: int, draw: np.random.Generator) -> npt.NDArray[np.int32]:
    """Authors in order, each with one post and a share of the rest that follows a power law."""
    shares = draw.pareto(1.5, num_authors) + 0.1
    extra = np.floor(shares / shares.sum() * (num_posts - num_authors)).astype(np.int64)
    extra[: num_posts - num_authors - int(extra.sum())] += 1  # what rounding down left over
    return np.repeat(np.arange(num_authors, dtype=np.int32), 1 + extra)


def _posts(author: npt.NDArray[np.int32], draw: np.random.Generator) -> npt.NDArray[np.int16]:
    rows = len(author)
    known = VOCABULARY - 2
    topic = (author.astype(np.int64) * 7919) % known
    words = np.full((rows, UNROLL + 1), NOTHING, dtype=np.int16)
    before = np.zeros(rows, dtype=np.int64)
    length = draw.integers(3, UNROLL + 1, rows)
    for position in range(1, UNROLL + 1):
        frequent = np.floor(known ** draw.random(rows)).astype(np.int64) - 1  # log-uniform: a power law of exponent 1
        own = np.where(draw.random(rows) < 0.2, (frequent + topic) % known, frequent)
        follows = draw.random(rows) < _FOLLOWS
        before = np.where(follows & (position > 1), (before * 31 + 17) % 997, own)
        words[:, position] = np.where(position <= length, before + 2, NOTHING)
    return words
