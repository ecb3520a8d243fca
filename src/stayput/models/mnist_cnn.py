"""The MNIST CNN (section 3): two 5x5 convolutions and a fully connected layer, 1,663,370 parameters.

The convolutions have 32 and 64 channels, each followed by 2x2 max pooling; the layer after them 512 ReLU units.
The count fixes what the text leaves open: 'same' padding, so that 28x28 becomes 7x7 after two poolings.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import max_pool2d

from stayput.models.initialisation import initialise_


class MnistCnn(nn.Module):
    """28x28 -> conv 32 -> pool -> conv 64 -> pool -> 512 -> 10, initialised as named in `initialisation`."""

    def __init__(self, initialisation: str = "torch") -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, kernel_size=5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=5, padding=2)
        self.hidden = nn.Linear(7 * 7 * 64, 512)
        self.output = nn.Linear(512, 10)
        initialise_(self, initialisation)

    def forward(self, images: Tensor) -> Tensor:
        """Logits [batch, 10] of images [batch, 28, 28]."""
        features = max_pool2d(self.conv1(images.unsqueeze(1)).relu(), 2)
        features = max_pool2d(self.conv2(features).relu(), 2)
        logits: Tensor = self.output(self.hidden(features.flatten(start_dim=1)).relu())
        return logits
