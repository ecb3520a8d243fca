"""Examples as they lie on a machine of a fleet: two columns, in a folder or in one file. Must not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stayput.data.federated_data import Examples
from stayput.errors import DeploymentError, EmptyClient


def examples_in(path: Path) -> Examples:
    """A client's examples: a folder with `inputs.npy` and `targets.npy`, or an .npz file that holds the two."""
    names = ("inputs", "targets")
    try:
        if path.is_dir():
            columns: Mapping[str, Any] = {name: np.load(path / f"{name}.npy", mmap_mode="r") for name in names}
        else:
            with np.load(path) as archive:
                columns = {name: archive[name] for name in names}
    except (OSError, ValueError, KeyError) as error:
        raise DeploymentError(
            f"data {path}: must be a folder with inputs.npy and targets.npy, or an .npz file with both ({error})"
        ) from error
    examples = Examples(columns["inputs"], columns["targets"])
    if not len(examples):
        raise EmptyClient(
            f"data {path}: holds no examples: must have at least one, as its weight in the average is n_k"
        )
    return examples
