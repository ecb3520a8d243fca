"""Loss and metrics for padded sequences: what a language model says of the symbols that are there.

Targets are [batch, time]; where they are padding, nothing is asked. An example's loss and accuracy
are means over what it asks for, and it counts in a mean by how much that is (`Task.num_predictions`): so the loss of a
minibatch is the mean over its characters, and the accuracy on a test set the share of its characters.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from stayput.tasks.metrics import Metric


@dataclass(frozen=True)
class PaddedSequences:
    """The functions of a task over sequences in which some symbols ask for nothing."""

    nothing: tuple[int, ...]
    """The symbols that, as targets, ask for nothing: padding, and words that a vocabulary lacks."""

    def asked(self, targets: Tensor) -> Tensor:
        """Where something is asked, [batch, time]."""
        return torch.stack([targets != symbol for symbol in self.nothing]).all(dim=0)

    def num_predictions(self, targets: Tensor) -> Tensor:
        """How many symbols each example asks for, [batch]."""
        return self.asked(targets).sum(dim=1)

    def cross_entropy(self, output: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy of each example, [batch], from logits [batch, symbols, time]."""
        asked = self.asked(targets)
        losses = functional.cross_entropy(output, targets, reduction="none") * asked
        return losses.sum(dim=1) / asked.sum(dim=1).clamp(min=1)

    def correct(self, output: Tensor, targets: Tensor) -> Tensor:
        """The share of each example's symbols that are the likeliest, [batch]."""
        asked = self.asked(targets)
        right = (output.argmax(dim=1) == targets) & asked
        return right.sum(dim=1).to(torch.float32) / asked.sum(dim=1).clamp(min=1)

    @property
    def accuracy(self) -> Metric:
        """The metric of that name."""
        return Metric("accuracy", self.correct)


def symbols(inputs: Tensor) -> Tensor:
    """Stored symbols as an embedding wants them."""
    return inputs.long()
