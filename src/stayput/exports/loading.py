"""`load_model`: an exported model as a torch module again, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from stayput.core.seeds import Purpose, torch_stream
from stayput.errors import CorruptCheckpoint, InvalidSetting, ModelMisfit, SpecTooNew
from stayput.exports.model_files import METADATA_KEY, MODEL
from stayput.exports.trained_model import FORMAT, FORMAT_VERSION, sha256_of
from stayput.tasks.catalogue import NAMED_TASKS


def load_model(path: Path | str, *, model: Callable[[], nn.Module] | None = None) -> nn.Module:
    """The module that `stayput export` wrote, in evaluation mode, on the CPU.

    `path` is the folder or the safetensors file. `model` makes the module, as in `Task`; models of named tasks need
    none. Inputs are what the task's `prepare` makes of stored ones, as for `run.model`.
    """
    path = Path(path)
    file = path / MODEL if path.is_dir() else path
    if not file.is_file():
        raise InvalidSetting(
            f"{path}: holds no exported model (no {file.name}; `stayput export RUN --to FOLDER` writes one)"
        )
    config, tensors = _read(file)
    module = _fresh(config, model, file)
    _fill(module, tensors, file)
    return module.eval()


def _read(file: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(file, framework="pt") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - not a mapping
        config: dict[str, Any] = json.loads(metadata.get(METADATA_KEY, "{}"))
    except (SafetensorError, OSError, ValueError) as error:
        raise CorruptCheckpoint(f"{file}: not a whole exported model ({error}; export it again)") from error
    if config.get("format") != FORMAT:
        raise InvalidSetting(
            f"{file}: format={config.get('format')!r}: must be {FORMAT!r} (was it written by stayput?)"
        )
    if config["format_version"] > FORMAT_VERSION:
        raise SpecTooNew(
            f"{file}: format_version={config['format_version']}: this stayput reads versions up to {FORMAT_VERSION} "
            f"(upgrade stayput: pip install --upgrade stayput)"
        )
    if config["sha256"] != sha256_of(tensors):
        raise CorruptCheckpoint(f"{file}: its content is not what was written (sha256 differs; export it again)")
    return config, tensors


def _fresh(config: dict[str, Any], model: Callable[[], nn.Module] | None, file: Path) -> nn.Module:
    if model is None:
        if config["task"] not in NAMED_TASKS:
            raise InvalidSetting(
                f"{file}: task={config['task']!r}: the model's code is the user's own (pass model=MyNet, the "
                f"class that it was trained with)"
            )
        model = NAMED_TASKS[config["task"]].task.model
    with torch_stream(0, Purpose.INITIAL_WEIGHTS):  # the caller's own generators stay as they are
        return model()


def _fill(module: nn.Module, tensors: dict[str, Tensor], file: Path) -> None:
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    if own.keys() != tensors.keys():
        absent, foreign = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
        raise ModelMisfit(
            f"{file}: does not fit {type(module).__name__}: {absent or 'nothing'} missing, {foreign or 'nothing'} too "
            f"many (pass the class that it was trained with)"
        )
    with torch.no_grad():
        for name, tensor in own.items():
            saved = tensors[name]
            if (tensor.shape, tensor.dtype) != (saved.shape, saved.dtype):
                raise ModelMisfit(
                    f"{file}: {name} is {_shape(saved)}, in {type(module).__name__} it is {_shape(tensor)} (pass the "
                    f"class that it was trained with)"
                )
            tensor.copy_(saved)


def _shape(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
