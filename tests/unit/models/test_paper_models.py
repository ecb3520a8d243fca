from __future__ import annotations

import pytest
import torch

from stayput.models import MnistCnn, TwoLayerNet


@pytest.mark.parametrize(("model", "parameters"), [(TwoLayerNet, 199_210), (MnistCnn, 1_663_370)])
def test_a_model_has_exactly_the_papers_parameters(model, parameters):
    assert sum(p.numel() for p in model().parameters()) == parameters


@pytest.mark.parametrize("model", [TwoLayerNet, MnistCnn])
@pytest.mark.parametrize("batch", [1, 7])
def test_a_model_gives_ten_logits_an_image(model, batch):
    output = model()(torch.rand(batch, 28, 28))
    assert output.shape == (batch, 10)
    assert not torch.allclose(output.sum(dim=1), torch.ones(batch))  # logits, not probabilities


def test_the_cnn_is_the_one_the_parameter_count_fixes():
    shapes = {name: tuple(p.shape) for name, p in MnistCnn().named_parameters()}
    assert shapes["conv1.weight"] == (32, 1, 5, 5)
    assert shapes["conv2.weight"] == (64, 32, 5, 5)
    assert shapes["hidden.weight"] == (512, 7 * 7 * 64)
