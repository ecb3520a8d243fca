"""The paper's models, one file each; any other `nn.Module` works as well."""

from __future__ import annotations

from stayput.models.char_lstm import CharLstm
from stayput.models.cifar_cnn import CifarCnn
from stayput.models.mnist_cnn import MnistCnn
from stayput.models.peephole_lstm import PeepholeLstm
from stayput.models.two_layer_net import TwoLayerNet
from stayput.models.word_lstm import WordLstm

__all__ = ["CharLstm", "CifarCnn", "MnistCnn", "PeepholeLstm", "TwoLayerNet", "WordLstm"]
