"""Metrics: what is measured on test examples, as one value per example whose mean is reported.

A metric of your own is `Metric("name", function)`, the function from (output, targets) to a value per example.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Metric:
    """A named measure of a model's output."""

    name: str
    per_example: Callable[[Tensor, Tensor], Tensor]
    """From output [batch, ...] and targets [batch, ...] to [batch]."""
    higher_is_better: bool = True


def _correct(output: Tensor, targets: Tensor) -> Tensor:
    correct = (output.argmax(dim=1) == targets).float()
    return correct if correct.dim() == 1 else correct.flatten(start_dim=1).mean(dim=1)


accuracy = Metric("accuracy", _correct)
"""The share of examples (or of an example's positions) whose largest logit is the label's."""
