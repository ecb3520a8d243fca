"""The large-scale next-word model (section 3): one LSTM layer of 256 over 10,000 words, 4,950,544 parameters.

1,920,000 (input embedding, 192 a word) + 460,544 (a layer with peepholes) + 2,570,000 (softmax over 257 inputs, the
bias among them). The text says that the output embedding has 192 dimensions too; with that the count could not be.
"""

from __future__ import annotations

from torch import Tensor, nn

from stayput.models.initialisation import unit_scaling_, unit_scaling_layer_
from stayput.models.peephole_lstm import PeepholeLstm

WORDS = 10_000


class WordLstm(nn.Module):
    """Embedding 192 -> LSTM 256 -> 10,000, initialised as TensorFlow did in 2016."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 192)
        self.lstm = PeepholeLstm(192, 256)
        self.output = nn.Linear(256, WORDS)
        unit_scaling_(self.embedding.weight, WORDS)
        unit_scaling_layer_(self.output)

    def forward(self, words: Tensor) -> Tensor:
        """Logits [batch, 10,000, time] for what follows each of `words` [batch, time]."""
        logits: Tensor = self.output(self.lstm(self.embedding(words)))
        return logits.transpose(1, 2)
