"""One layer of an LSTM with peepholes and one bias per gate (Gers, Schraudolph and Schmidhuber 2002).

The paper's parameter counts fix the cell (section 3): `nn.LSTM` has two biases per gate and no peepholes, TensorFlow's
`LSTMCell(use_peepholes=True)` has one and three. Both language models are made of it.

    i = σ(W_i x + R_i h + p_i · c + b_i)         input gate
    f = σ(W_f x + R_f h + p_f · c + b_f)         forget gate
    g = tanh(W_g x + R_g h + b_g)                candidate
    c' = f · c + i · g
    o = σ(W_o x + R_o h + p_o · c' + b_o)        output gate, which sees the new cell
    h' = o · tanh(c')

The rows of `weight_ih` (W), `weight_hh` (R) and `bias` (b) hold the gates in torch's order, i, f, g, o; those of
`peepholes` (p) i, f, o. Must not import anything of stayput but `models`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from stayput.models.initialisation import unit_scaling_


class PeepholeLstm(nn.Module):
    """From [batch, time, inputs] to [batch, time, hidden], beginning with h = c = 0.

    Initialised as TensorFlow's cell of 2016: weights uniform within ±sqrt(3 / (inputs + hidden)), biases 0 but the
    forget gate's 1, so that the cell begins by remembering. Peepholes begin at 0, where the cell is a plain LSTM.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.inputs, self.hidden = inputs, hidden
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden, inputs))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden, hidden))
        self.bias = nn.Parameter(torch.empty(4 * hidden))
        self.peepholes = nn.Parameter(torch.empty(3, hidden))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial weights."""
        for weight in (self.weight_ih, self.weight_hh):
            unit_scaling_(weight, self.inputs + self.hidden)
        nn.init.zeros_(self.peepholes)
        with torch.no_grad():
            self.bias.zero_()
            self.bias[self.hidden : 2 * self.hidden] = 1

    def forward(self, sequence: Tensor) -> Tensor:
        """The hidden state after every step."""
        # The part that no step waits for is one product for all of them.
        driven = sequence @ self.weight_ih.T + self.bias
        hidden = cell = sequence.new_zeros(len(sequence), self.hidden)
        peep_input, peep_forget, peep_output = self.peepholes
        states = []
        for step in driven.unbind(dim=1):
            i, f, g, o = (step + hidden @ self.weight_hh.T).chunk(4, dim=1)
            admitted = torch.sigmoid(i + peep_input * cell) * torch.tanh(g)
            cell = torch.sigmoid(f + peep_forget * cell) * cell + admitted
            hidden = torch.sigmoid(o + peep_output * cell) * torch.tanh(cell)
            states.append(hidden)
        return torch.stack(states, dim=1)

    def extra_repr(self) -> str:
        """What `print` shows of it."""
        return f"{self.inputs}, {self.hidden}"
