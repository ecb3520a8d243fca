"""The stacked character LSTM for Shakespeare (section 3): two layers of 256, 866,578 parameters.

258 symbols: the 256 bytes, and two more, which the count fixes and the text does not name; `data/shakespeare.py` says
what they are for. 2,064 (embedding) + 271,360 + 768 + 525,312 + 768 (two layers with peepholes) + 66,306 (softmax).
"""

from __future__ import annotations

from torch import Tensor, nn

from stayput.models.initialisation import unit_scaling_, unit_scaling_layer_
from stayput.models.peephole_lstm import PeepholeLstm

SYMBOLS = 258


class CharLstm(nn.Module):
    """Embedding 8 -> LSTM 256 -> LSTM 256 -> 258, initialised as TensorFlow did in 2016."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 8)
        self.lstm1 = PeepholeLstm(8, 256)
        self.lstm2 = PeepholeLstm(256, 256)
        self.output = nn.Linear(256, SYMBOLS)
        # Unit scale for a table: as if one symbol in 258 were looked up by a product, which is what TensorFlow did.
        unit_scaling_(self.embedding.weight, SYMBOLS)
        unit_scaling_layer_(self.output)

    def forward(self, symbols: Tensor) -> Tensor:
        """Logits [batch, 258, time] for what follows each of `symbols` [batch, time]."""
        hidden = self.lstm2(self.lstm1(self.embedding(symbols)))
        logits: Tensor = self.output(hidden)
        return logits.transpose(1, 2)
