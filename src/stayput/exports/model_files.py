"""Writing a trained model: one safetensors file, or a folder as Hugging Face lays it out. No pickle.

Both are written whole or not at all. The safetensors file alone is enough to load the model again: its metadata holds
the config, with a hash over every tensor.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from safetensors.torch import save

from stayput.errors import InvalidSetting
from stayput.exports.model_card import model_card
from stayput.exports.trained_model import TrainedModel, exists_already
from stayput.runs.durable_files import sync_folder, write_json, write_whole

MODEL = "model.safetensors"
CONFIG = "config.json"
CARD = "README.md"

METADATA_KEY = "stayput"
"""Where the config is in the metadata of a safetensors file."""


def export_model(model: TrainedModel, to: Path | str) -> list[Path]:
    """Write a model to a new folder, or to a new file if the name ends in .safetensors; returns what was written."""
    path = Path(to)
    if exists_already(path):
        raise InvalidSetting(
            f"to={str(path)!r}: is there already and must be new, or an empty folder (choose another name, or remove "
            f"it first)"
        )
    try:
        return _written(model, path)
    except OSError as error:
        raise InvalidSetting(
            f"to={str(path)!r}: cannot be written ({error.strerror or error}; choose another place, or make room there)"
        ) from error


def _written(model: TrainedModel, path: Path) -> list[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".safetensors":
        write_whole(path, _safetensors(model))
        return [path]
    working = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(working, ignore_errors=True)
    try:
        working.mkdir()
        write_whole(working / MODEL, _safetensors(model))
        write_json(working / CONFIG, finite(model.config()))
        write_whole(working / CARD, model_card(model).encode())
        working.replace(path)
    finally:
        shutil.rmtree(working, ignore_errors=True)
    sync_folder(path.parent)
    return [path / name for name in (MODEL, CONFIG, CARD)]


def finite(data: object) -> object:
    """The same, with null for what JSON cannot hold: a loss that is no number."""
    if isinstance(data, float) and (data != data or data in (float("inf"), float("-inf"))):  # noqa: PLR0124 - NaN
        return None
    if isinstance(data, dict):
        return {name: finite(value) for name, value in data.items()}
    return [finite(value) for value in data] if isinstance(data, list | tuple) else data


def _safetensors(model: TrainedModel) -> bytes:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.tensors.items()}
    config = json.dumps(finite(model.config()), allow_nan=False)
    return save(tensors, metadata={"format": "pt", METADATA_KEY: config})
