"""What a server keeps beside the model: tensors shaped like the weights, in float64, which clients are not sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from stayput.core.tensors import WEIGHTS, Groups, Tensors


def beside_weights(begin: Mapping[str, float]) -> Callable[[Groups], Groups]:
    """`init` of an algorithm whose state has further groups: for each its name, and the value it is filled with."""

    def init(model: Groups) -> Groups:
        return {**model, **{group: filled_like(model[WEIGHTS], value) for group, value in begin.items()}}

    return init


def apart_from(*groups: str) -> Callable[[Groups], Groups]:
    """`broadcast` of an algorithm whose clients are not sent these groups of the state."""
    return lambda state: {group: tensors for group, tensors in state.items() if group not in groups}


def filled_like(weights: Tensors, value: float) -> dict[str, Tensor]:
    """Tensors shaped like the weights, in float64: the server adds them up over many rounds."""
    return {name: torch.full_like(weight, value, dtype=torch.float64) for name, weight in weights.items()}


def scaled(tensors: Tensors, factor: float) -> dict[str, Tensor]:
    """Each tensor times a number."""
    return {name: factor * tensor for name, tensor in tensors.items()}
