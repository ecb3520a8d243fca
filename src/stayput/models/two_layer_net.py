"""The MNIST 2NN (section 3): two hidden layers of 200 ReLU units, 199,210 parameters."""

from __future__ import annotations

from torch import Tensor, nn

from stayput.models.initialisation import initialise_


class TwoLayerNet(nn.Module):
    """784 -> 200 -> 200 -> 10, initialised as named in `initialisation`."""

    def __init__(self, initialisation: str = "torch") -> None:
        super().__init__()
        self.hidden1 = nn.Linear(28 * 28, 200)
        self.hidden2 = nn.Linear(200, 200)
        self.output = nn.Linear(200, 10)
        initialise_(self, initialisation)

    def forward(self, images: Tensor) -> Tensor:
        """Logits [batch, 10] of images [batch, 28, 28]."""
        hidden = self.hidden1(images.flatten(start_dim=1)).relu()
        hidden = self.hidden2(hidden).relu()
        logits: Tensor = self.output(hidden)
        return logits
