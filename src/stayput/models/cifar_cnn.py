"""The CIFAR-10 CNN of the TensorFlow tutorial of 2016 (section 3, "CIFAR experiments"): 1,068,298 parameters.

conv 5x5, 64 -> ReLU -> max pool 3/2 -> normalisation -> conv 5x5, 64 -> ReLU -> normalisation -> max pool 3/2 -> 384
-> 192 -> 10, on 24x24 crops, everything padded as TensorFlow's "SAME": 24 -> 12 -> 6. Initial weights are the
tutorial's: truncated normal numbers of deviation 0.05 (convolutions), 0.04 (fully connected) and 1/192 (output), biases
0, 0.1, 0.1, 0.1, 0. Its weight decay, 0.004 · |w|²/2 on the two fully connected layers, belongs to its loss and is not
in this module: the task leaves it out (decision 0010).
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from stayput.models.initialisation import truncated_normal_

_NORM_RADIUS = 4
"""Channels on each side that a channel is normalised with."""


class CifarCnn(nn.Module):
    """24x24x3 -> conv 64 -> conv 64 -> 384 -> 192 -> 10, initialised as the tutorial does."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, kernel_size=5, padding=2)
        self.conv2 = nn.Conv2d(64, 64, kernel_size=5, padding=2)
        self.hidden1 = nn.Linear(6 * 6 * 64, 384)
        self.hidden2 = nn.Linear(384, 192)
        self.output = nn.Linear(192, 10)
        scales: tuple[tuple[nn.Conv2d | nn.Linear, float, float], ...] = (
            (self.conv1, 0.05, 0.0),
            (self.conv2, 0.05, 0.1),
            (self.hidden1, 0.04, 0.1),
            (self.hidden2, 0.04, 0.1),
            (self.output, 1 / 192, 0.0),
        )
        for layer, deviation, bias in scales:
            truncated_normal_(layer.weight, deviation)
            if layer.bias is not None:
                nn.init.constant_(layer.bias, bias)

    def forward(self, images: Tensor) -> Tensor:
        """Logits [batch, 10] of whitened images [batch, 3, 24, 24]."""
        features = _normalised(_pooled(self.conv1(images).relu()))
        features = _pooled(_normalised(self.conv2(features).relu()))
        hidden = self.hidden1(features.flatten(start_dim=1)).relu()
        logits: Tensor = self.output(self.hidden2(hidden).relu())
        return logits


def _pooled(features: Tensor) -> Tensor:
    """Max pooling 3/2 with "SAME" padding, which for an even size is one row below and one column to the right."""
    return functional.max_pool2d(functional.pad(features, (0, 1, 0, 1)), kernel_size=3, stride=2)


def _normalised(features: Tensor) -> Tensor:
    """`tf.nn.lrn(features, 4, bias=1, alpha=0.001/9, beta=0.75)`; torch divides its alpha by the window's size."""
    size = 2 * _NORM_RADIUS + 1
    return functional.local_response_norm(features, size, alpha=0.001, beta=0.75, k=1.0)
