"""Posts by author, for predicting the next word (section 3, "Large-scale LSTM experiments").

Any parquet or JSONL file with an author and a text per row becomes columns that are mapped into memory. An example is a
stretch of ten words of one post (the unroll) with the word before it, as int16 [n, 11]: the first ten are what the
model reads, the last ten what it should say. Words are numbered by how frequent they are among the training authors:

    0   the beginning of a post; as a target, nothing is asked: padding, or a word that is not in the vocabulary
    1   a word that is not in the vocabulary, as an input
    2.. the most frequent words

so that a model of 10,000 outputs knows 9,998 words. An author's words are cut at 5,000. Test posts are by authors that
no client is: a random 5% of them, or fewer once they have written 100,000 posts.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stayput.core.seeds import Purpose, permutation
from stayput.data.data_set import DataSet, Location, Split
from stayput.data.federated_data import Examples
from stayput.data.fetching import Columns, Progress, silent
from stayput.data.places import cache_folder, data_folder, find_file
from stayput.data.store import (
    MANIFEST,
    file_sha256,
    open_columns,
    save_columns,
    stored_bytes,
    verify_columns,
    working_folder,
)
from stayput.errors import CorruptData, DataUnavailable

NAME = "posts"
VOCABULARY = 10_000
"""Of the paper; numbers 0 and 1 are among them."""
UNROLL = 10
WORDS_A_CLIENT = 5_000
TEST_POSTS = 100_000
TEST_SHARE = 0.05
NOTHING, UNKNOWN = 0, 1

FILES = ("posts.parquet", "posts.jsonl", "posts.jsonl.gz", "blogs.parquet")
COLUMNS = {f"{part}_{column}" for part in ("train", "test") for column in ("words", "author")}
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def load(data_dir: str | Path | None = None, *, fetch: bool = True, progress: Progress | None = None) -> Split:
    """Stretches of words, with the key "author"; a file is prepared once and then opened from the cache."""
    del fetch  # nobody but the user has it
    location = locate(data_dir)
    if location is None:
        raise _absent()
    if location.path.is_file():
        return open_prepared(_prepared_once(location.path, progress or silent))
    return open_prepared(location.path)


def open_prepared(folder: Path) -> Split:
    """Prepared columns, mapped into memory: nothing is read but what is used."""
    columns = open_columns(folder)
    if not set(columns) >= COLUMNS:
        raise CorruptData(f"{folder}: holds {sorted(columns)}: must hold {sorted(COLUMNS)} (prepare it again)")
    return Split(*(_examples(columns, part) for part in ("train", "test")))


def locate(data_dir: str | Path | None = None) -> Location | None:
    """A folder of prepared columns named `posts`, or a file of posts."""
    folder = data_folder(data_dir)
    for root in [] if folder is None else [folder / NAME, folder]:
        if (root / MANIFEST).is_file():
            return Location("folder", root, stored_bytes(root), ("author",))
    path = None if folder is None else find_file(FILES, (folder,))
    return None if path is None else Location("folder", path, path.stat().st_size, ("author",))


def fetch(data_dir: str | Path | None = None, progress: Progress | None = None) -> Location:
    """Say where it is: posts are the user's own. A file is prepared, so that the next run need not wait."""
    location = locate(data_dir)
    if location is None:
        raise _absent()
    if location.path.is_file():
        _prepared_once(location.path, progress or silent)
    return location


def verify(location: Location) -> None:
    """Read every byte of prepared columns; a file is what it is."""
    if location.path.is_dir():
        verify_columns(location.path)


def columns_of(posts: Iterable[tuple[object, str]]) -> Columns:
    """Columns from (author, text), in any order; authors are numbered as they first appear."""
    numbers: dict[object, int] = {}
    texts: dict[int, list[list[str]]] = {}
    for author, text in posts:
        texts.setdefault(numbers.setdefault(author, len(numbers)), []).append(_WORD.findall(text.lower()))
    if len(texts) < 2:
        raise CorruptData(f"posts by {len(texts)} authors: must be by at least two, one of them to test on")
    capped = {author: list(_capped(written)) for author, written in texts.items()}
    testing = _test_authors({author: len(written) for author, written in capped.items()})
    counts: Counter[str] = Counter()
    for author, written in capped.items():
        if author not in testing:
            for words in written:
                counts.update(words)
    # Equally frequent words in the order of the alphabet, so that the order of posts does not matter.
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[: VOCABULARY - 2]
    known = {word: number for number, word in enumerate(frequent, start=2)}
    parts = {"train": [a for a in capped if a not in testing], "test": sorted(testing)}
    columns: dict[str, npt.NDArray[np.generic]] = {"vocabulary": np.array([word.encode() for word in frequent])}
    for part, authors in parts.items():
        encoded = {author: _stretches(capped[author], known) for author in authors}
        kept = [author for author in authors if len(encoded[author])]
        columns[f"{part}_words"] = np.concatenate([encoded[author] for author in kept])
        sizes = [len(encoded[author]) for author in kept]
        columns[f"{part}_author"] = np.repeat(np.array(kept, dtype=np.int32), sizes)
    return columns


def read_posts(path: Path) -> Iterator[tuple[object, str]]:
    """(author, text) of every row of a parquet or JSONL file."""
    if path.suffix == ".parquet":
        try:
            import pyarrow.parquet as pq
        except ImportError as error:
            raise DataUnavailable(f"{path}: needs pyarrow to be read (pip install 'stayput[data]')") from error
        file = pq.ParquetFile(path)
        if not {"author", "text"} <= set(file.schema_arrow.names):
            raise CorruptData(f"{path}: has columns {file.schema_arrow.names}: must have 'author' and 'text'")
        for batch in file.iter_batches(columns=["author", "text"]):
            yield from zip(batch["author"].to_pylist(), batch["text"].to_pylist(), strict=True)
        return
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                yield row["author"], row["text"]
            except (ValueError, KeyError, TypeError) as error:
                raise CorruptData(
                    f'{path}, line {number}: must be {{"author": ..., "text": ...}} ({error!r})'
                ) from error


def prepare(path: Path, destination: Path, progress: Progress = silent) -> None:
    """A file of posts as a folder of columns."""
    progress(f"preparing {path.name}", 0, None)
    columns = columns_of(read_posts(path))
    with working_folder(destination.parent, destination.name) as working:
        save_columns(columns, destination, working=working, origin=f"{path.name}, sha256 {file_sha256(path)}")


def _prepared_once(path: Path, progress: Progress) -> Path:
    destination = cache_folder() / f"{NAME}-{file_sha256(path)[:12]}"
    if not (destination / MANIFEST).is_file():
        prepare(path, destination, progress)
    return destination


def _capped(written: Sequence[Sequence[str]]) -> Iterator[Sequence[str]]:
    """An author's posts up to the 5,000th word."""
    left = WORDS_A_CLIENT
    for words in written:
        if left <= 0:
            return
        yield words[:left]
        left -= len(words)


def _test_authors(num_posts: Mapping[int, int]) -> set[int]:
    authors = sorted(num_posts)
    chosen: set[int] = set()
    held_out, most = 0, max(1, round(TEST_SHARE * len(authors)))
    for position in permutation(0, Purpose.PARTITION, len(authors)).tolist():
        if len(chosen) == most or held_out >= TEST_POSTS:
            break
        chosen.add(authors[position])
        held_out += num_posts[authors[position]]
    return chosen


def _stretches(written: Sequence[Sequence[str]], known: Mapping[str, int]) -> npt.NDArray[np.int16]:
    """An author's posts as rows of the word before and ten words."""
    rows = []
    for words in written:
        numbers = [NOTHING, *(known.get(word, UNKNOWN) for word in words)]
        for first in range(0, len(words), UNROLL):
            row = numbers[first : first + UNROLL + 1]
            rows.append(row + [NOTHING] * (UNROLL + 1 - len(row)))
    return np.array(rows, dtype=np.int16).reshape(-1, UNROLL + 1)


def _examples(columns: Columns, part: str) -> Examples:
    words = columns[f"{part}_words"]
    # Two views of one map; the model is never asked for an unknown word (`tasks.catalogue` masks both).
    return Examples(words[:, :-1], words[:, 1:], {"author": columns[f"{part}_author"]})


def _absent() -> DataUnavailable:
    return DataUnavailable(
        f"{NAME}: is not here: stayput cannot fetch it (put {FILES[0]} or {FILES[1]}, with an author and a text in "
        f"each row, into a folder and pass the folder as data_dir or in the environment variable STAYPUT_DATA)"
    )


POSTS = DataSet(
    name=NAME,
    summary="posts by author as stretches of ten words; your own file of posts",
    licence="the user's own",
    download_bytes=None,
    locate=locate,
    fetch=fetch,
    verify=verify,
    load=load,
)
