"""One minibatch for every lane, folded, and each lane's mean loss over what counts of it.

Shape suffixes: L lane, B example of a minibatch, N = L*B.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from stayput.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Minibatches:
    """What all lanes train on in a step."""

    inputs: Tensor
    """Of all lanes' examples, [N, ...]."""
    targets: Tensor
    count_L: Tensor
    """How many of each lane's examples are not padding."""
    share_LB: Tensor
    """Of each example in its lane's mean loss; padding has none."""
    mask_name_L4: Tensor
    """What names each lane's dropout masks (`masks.stream_name`)."""
    gradient_L: Tensor
    """How many gradients each lane's client has computed before."""


def shares(task: Task, targets: Tensor, count_L: Tensor, batch_length: int, dtype: torch.dtype) -> Tensor:
    """Each example's share, [L, B]: a smaller last minibatch is padded, and what is padding counts nothing."""
    position_B = torch.arange(batch_length, device=count_L.device)
    used_LB = (position_B < count_L[:, None]).to(dtype)
    weight_N = task.weights(targets)
    if weight_N is None:
        return used_LB / count_L.clamp(min=1)[:, None]
    used_LB = used_LB * weight_N.to(dtype).reshape(used_LB.shape)
    total_L = used_LB.sum(dim=1, keepdim=True)
    return used_LB / torch.where(total_L > 0, total_L, 1)


def mean_losses(task: Task, output: Tensor, targets: Tensor, share_LB: Tensor) -> Tensor:
    """Each lane's mean loss, [L]."""
    losses_LB = task.loss(output.to(share_LB.dtype), targets).reshape(share_LB.shape)
    # Where the share is 0 a loss may be anything, even infinite, and must not spoil the sum.
    return torch.where(share_LB > 0, losses_LB * share_LB, 0).sum(dim=1)
