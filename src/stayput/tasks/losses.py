"""Losses: from a model's output and the targets to one value per example, [batch].

One value per example, not their mean: engines take the mean over a minibatch themselves, and so can pad batches,
weight them, and evaluate a test set exactly. A loss of your own is any such function.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

Loss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(output: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of logits [batch, classes, ...] with labels [batch, ...], averaged over what follows batch."""
    losses = functional.cross_entropy(output, targets, reduction="none")
    return losses if losses.dim() == 1 else losses.flatten(start_dim=1).mean(dim=1)


def mean_squared_error(output: Tensor, targets: Tensor) -> Tensor:
    """Squared error, averaged over an example's outputs."""
    return (output - targets).square().flatten(start_dim=1).mean(dim=1)
