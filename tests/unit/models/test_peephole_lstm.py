from __future__ import annotations

import math

import pytest
import torch

from stayput.models import PeepholeLstm


def by_hand(layer: PeepholeLstm, sequence: torch.Tensor) -> torch.Tensor:
    """The equations of the docstring, one unit at a time, in plain numbers."""
    weight_ih, weight_hh = layer.weight_ih.tolist(), layer.weight_hh.tolist()
    bias, (peep_i, peep_f, peep_o) = layer.bias.tolist(), layer.peepholes.tolist()
    size = layer.hidden

    def sigma(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    outputs = []
    for example in sequence.tolist():
        h, c = [0.0] * size, [0.0] * size
        states = []
        for x in example:
            drive = [
                bias[row]
                + sum(w * value for w, value in zip(weight_ih[row], x, strict=True))
                + sum(w * value for w, value in zip(weight_hh[row], h, strict=True))
                for row in range(4 * size)
            ]
            new_h, new_c = [], []
            for u in range(size):
                i = sigma(drive[u] + peep_i[u] * c[u])
                f = sigma(drive[size + u] + peep_f[u] * c[u])
                cell = f * c[u] + i * math.tanh(drive[2 * size + u])
                new_c.append(cell)
                new_h.append(sigma(drive[3 * size + u] + peep_o[u] * cell) * math.tanh(cell))
            h, c = new_h, new_c
            states.append(h)
        outputs.append(states)
    return torch.tensor(outputs, dtype=torch.float64)


@pytest.mark.parametrize(("inputs", "hidden", "steps"), [(3, 5, 4), (1, 1, 1), (4, 2, 7)])
def test_the_layer_is_its_equations(inputs, hidden, steps):
    torch.manual_seed(0)
    layer = PeepholeLstm(inputs, hidden).double()
    with torch.no_grad():
        layer.peepholes.normal_()
        layer.bias.normal_()
    sequence = torch.randn(2, steps, inputs, dtype=torch.float64)
    torch.testing.assert_close(layer(sequence), by_hand(layer, sequence))


def test_without_peepholes_it_is_torchs_own_lstm():
    torch.manual_seed(0)
    layer, plain = PeepholeLstm(3, 4).double(), torch.nn.LSTM(3, 4, batch_first=True).double()
    with torch.no_grad():
        plain.weight_ih_l0.copy_(layer.weight_ih)
        plain.weight_hh_l0.copy_(layer.weight_hh)
        plain.bias_ih_l0.copy_(layer.bias)
        plain.bias_hh_l0.zero_()
    sequence = torch.randn(2, 6, 3, dtype=torch.float64)
    torch.testing.assert_close(layer(sequence), plain(sequence)[0])


def test_its_gradients_are_right():
    torch.manual_seed(0)
    layer = PeepholeLstm(2, 3).double()
    with torch.no_grad():
        layer.peepholes.normal_()
    assert torch.autograd.gradcheck(layer, torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True))


def test_it_begins_as_tensorflow_did():
    layer = PeepholeLstm(8, 256)
    assert layer.bias.reshape(4, 256).mean(dim=1).tolist() == [0, 1, 0, 0]
    assert not layer.peepholes.any()
    bound = math.sqrt(3 / (8 + 256))
    for weight in (layer.weight_ih, layer.weight_hh):
        assert weight.abs().max() <= bound
        assert float(weight.detach().std()) == pytest.approx(1 / math.sqrt(8 + 256), rel=0.05)
