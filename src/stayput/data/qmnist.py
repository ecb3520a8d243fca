"""Who wrote each digit of MNIST, from QMNIST (Yadav and Bottou 2019, arXiv:1905.10498).

QMNIST found out where MNIST's digits come from. Its label files have a row for each image: column 0 the
digit, column 2 the writer. Rows are in MNIST's order; the test file goes on after MNIST's 10,000. With it,
MNIST has natural clients: 539 train writers with 19 to 131 digits each. stayput does not fetch the files: no
package index carries them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from stayput.data import idx
from stayput.data.federated_data import Array
from stayput.data.places import find_file
from stayput.errors import CorruptData

FILES = {"train": "qmnist-train-labels-idx2-int", "test": "qmnist-test-labels-idx2-int"}
ADDRESS = "https://github.com/facebookresearch/qmnist"
_DIGIT, _WRITER = 0, 2


def file_of(part: str, folders: Iterable[Path]) -> Path | None:
    """The label file of "train" or "test", if a folder has it, unzipped or not."""
    return find_file((FILES[part], f"{FILES[part]}.gz"), folders)


def writers(path: Path, digits: Array) -> Array:
    """The writer of each of these digits, after a check that the file is about the same digits."""
    table = idx.read(path)
    if table.ndim != 2 or table.shape[0] < len(digits) or table.shape[1] <= _WRITER:
        raise CorruptData(
            f"{path}: holds a table of shape {table.shape}: must have a row for each of {len(digits)} "
            f"digits, with the writer in column {_WRITER} (bring the file from {ADDRESS})"
        )
    table = table[: len(digits)]
    differing = np.flatnonzero(table[:, _DIGIT] != digits)
    if len(differing):
        raise CorruptData(
            f"{path}: says {table[differing[0], _DIGIT]} of digit number {differing[0]}, which is "
            f"{digits[differing[0]]} ({len(differing)} such rows): must be in MNIST's order (bring it from "
            f"{ADDRESS})"
        )
    return np.ascontiguousarray(table[:, _WRITER])


def how_to_get(part: str, folder: Path) -> str:
    """What to do to have the key "writer"."""
    return (
        f"needs QMNIST's {FILES[part]}.gz, which stayput does not fetch (download it from {ADDRESS} and put "
        f"it into {folder} or the folder that data_dir or STAYPUT_DATA names)"
    )
