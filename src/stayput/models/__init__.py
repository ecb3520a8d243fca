"""The paper's models, one file each; any other `nn.Module` works as well.

Room is left for the CIFAR-10 CNN and the two LSTMs.
"""

from __future__ import annotations

from stayput.models.mnist_cnn import MnistCnn
from stayput.models.two_layer_net import TwoLayerNet

__all__ = ["MnistCnn", "TwoLayerNet"]
