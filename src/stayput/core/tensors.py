"""Arithmetic over named tensors: weights, gradients, updates.

`Tensors` maps names to tensors. `Groups` maps the name of a group to such a map: what a server sends or a client
returns is one, {"weights": {...}} for FedAvg, and more groups for algorithms that carry more. Everything here
returns new tensors and maps under `torch.func.vmap`, so that an engine may stack many clients in one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

Tensors = Mapping[str, Tensor]
Groups = Mapping[str, Tensors]

WEIGHTS = "weights"
"""The group of the model's trainable parameters, w in the paper."""
BUFFERS = "buffers"
"""The group of what a model keeps beside its weights (BatchNorm's running statistics); engines carry it along."""
FULL_GRADIENT = "full_gradient"
"""The group of ∇F_k(w_t), for client programs that ask for it."""
MEMORY = "memory"
"""The group of what a client keeps from round to round, for client programs that have such a thing. It never leaves
the client."""


def descend(weights: Tensors, gradients: Tensors, learning_rate: float | Tensor) -> dict[str, Tensor]:
    """One step of gradient descent, w - η·g, written over the gradients' memory.

    The gradients must be the caller's own and are spent afterwards: fresh memory for every step's weights costs a
    fifth of a small model's training time. Lanes, with a tensor of rates, get new tensors.
    """
    if isinstance(learning_rate, Tensor):  # one rate per lane: it broadcasts, where `alpha` must be a number
        return {name: weight - per_lane(learning_rate, weight) * gradients[name] for name, weight in weights.items()}
    return {
        name: torch.sub(weight, gradients[name], alpha=learning_rate, out=gradients[name])
        for name, weight in weights.items()
    }


def per_lane(fact: float | Tensor, like: Tensor) -> float | Tensor:
    """A fact as a factor for a tensor: a number, or one per lane laid along the first dimension of stacked lanes."""
    if not isinstance(fact, Tensor):
        return fact
    return fact.to(like.dtype).reshape(-1, *[1] * (like.dim() - 1)) if fact.dim() else fact.to(like.dtype)


def difference(minuend: Groups, subtrahend: Groups) -> dict[str, dict[str, Tensor]]:
    """What leads from `subtrahend` to `minuend`, over the groups of the latter."""
    return {
        group: {name: minuend[group][name] - tensor for name, tensor in tensors.items()}
        for group, tensors in subtrahend.items()
    }


def add_in_own_dtype(state: Groups, change: Groups) -> dict[str, dict[str, Tensor]]:
    """`state` + `change`, computed in the dtype of `change` (a float64 mean) and rounded once, at the end.

    Whole-number tensors (BatchNorm's counters) take the nearest whole number. Groups that `change` does not
    mention stay as they are.
    """
    return {
        group: {
            name: _rounded_like(tensor, tensor.to(change[group][name].dtype) + change[group][name])
            for name, tensor in tensors.items()
        }
        if group in change
        else dict(tensors)
        for group, tensors in state.items()
    }


def flatten(groups: Groups) -> dict[str, Tensor]:
    """{"weights": {"fc.bias": t}} as {"weights/fc.bias": t}, the form of files and of the wire."""
    return {f"{group}/{name}": tensor for group, tensors in groups.items() for name, tensor in tensors.items()}


def unflatten(flat: Tensors) -> dict[str, dict[str, Tensor]]:
    """The inverse of `flatten`."""
    groups: dict[str, dict[str, Tensor]] = {}
    for key, tensor in flat.items():
        group, _, name = key.partition("/")
        groups.setdefault(group, {})[name] = tensor
    return groups


def to_device(groups: Groups, device: torch.device) -> dict[str, dict[str, Tensor]]:
    """The same tensors on a device."""
    return {group: {name: tensor.to(device) for name, tensor in tensors.items()} for group, tensors in groups.items()}


def fingerprint(groups: Groups) -> str:
    """SHA-256 over names, dtypes, shapes and bytes: equal exactly when every bit is."""
    digest = hashlib.sha256()
    for key, tensor in sorted(flatten(groups).items()):
        digest.update(f"{key}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        # Viewed as bytes, since NumPy has no bfloat16; copied when a stride would hide the true order.
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def all_finite(groups: Groups) -> bool:
    """Whether no tensor holds a NaN or an infinity."""
    floating = [t for tensors in groups.values() for t in tensors.values() if t.is_floating_point()]
    # One answer for all: on a GPU each question would wait for the device.
    return not floating or bool(torch.stack([torch.isfinite(tensor).all() for tensor in floating]).all())


def _rounded_like(tensor: Tensor, value: Tensor) -> Tensor:
    return value.to(tensor.dtype) if tensor.is_floating_point() else value.round().to(tensor.dtype)
