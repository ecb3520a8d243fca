from __future__ import annotations

import pytest
import torch

from stayput.models import CharLstm, CifarCnn, MnistCnn, TwoLayerNet, WordLstm
from stayput.models.cifar_cnn import _normalised, _pooled


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (TwoLayerNet, 199_210),
        (MnistCnn, 1_663_370),
        (CharLstm, 866_578),
        (WordLstm, 4_950_544),
        (CifarCnn, 1_068_298),
    ],
)
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


def test_the_char_lstm_has_the_papers_parts():
    counts = {
        name: sum(p.numel() for p in part.parameters() if p is not getattr(part, "peepholes", None))
        for name, part in CharLstm().named_children()
    }
    assert counts == {"embedding": 2_064, "lstm1": 271_360, "lstm2": 525_312, "output": 66_306}


def test_the_cifar_cnn_pools_and_normalises_as_the_tutorial_does():
    model = CifarCnn()
    images = torch.randn(3, 3, 24, 24)
    assert model(images).shape == (3, 10)
    # By hand: TensorFlow's "SAME" pads an even size after its end only, and its alpha is not divided by the window.
    features = model.conv1(images).relu()
    pooled = _pooled(features)
    expected = torch.stack(
        [
            torch.stack(
                [features[:, :, 2 * y : 2 * y + 3, 2 * x : 2 * x + 3].amax(dim=(2, 3)) for x in range(12)], dim=-1
            )
            for y in range(12)
        ],
        dim=-2,
    )
    torch.testing.assert_close(pooled, expected)
    squares = pooled.square()
    sums = torch.stack([squares[:, max(0, c - 4) : c + 5].sum(dim=1) for c in range(64)], dim=1)
    torch.testing.assert_close(_normalised(pooled), pooled / (1 + 0.001 / 9 * sums) ** 0.75)


@pytest.mark.parametrize(("model", "symbols"), [(CharLstm, 258), (WordLstm, 10_000)])
def test_a_language_model_gives_logits_for_what_follows_each_symbol(model, symbols):
    module = model()
    words = torch.randint(symbols, (2, 7))
    logits = module(words)
    assert logits.shape == (2, symbols, 7)
    words[:, 4:] = 0  # what comes later must not matter
    torch.testing.assert_close(module(words)[:, :, :4], logits[:, :, :4])
