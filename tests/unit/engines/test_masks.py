"""Dropout from counters: a name decides on its mask, whatever shares the batch; the Triton kernel draws the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from stayput.core.seeds import Purpose, stream_key, words_of
from stayput.engines.masks import CALLS, FULL_GRADIENT, Draw, MaskStream, exchange_dropout, plain_noise, stream_name

NAMES = torch.tensor([stream_name(3, 1, 0), stream_name(3, 1, 12), stream_name(2**40 + 1, 7, 0)])
GRADIENTS = torch.tensor([0, 5, FULL_GRADIENT + 1])
DRAWS = [
    Draw(0, 1, 2**15, 2.0, torch.float32),
    Draw(3, 1027, 2**14, 4 / 3, torch.float64),
    Draw(1, 2048, 6554, 1 / 0.9, torch.float32),
]


def in_stream(*names):
    stream = MaskStream(len(names), torch.device("cpu"))
    stream.begin_forward(torch.tensor(names), torch.zeros(len(names), dtype=torch.int64))
    return stream


def dropout(stream, layer=None):
    return exchange_dropout(layer or nn.Dropout(0.5), stream)


def test_each_value_is_decided_by_its_16_bits_of_philox():
    seed, client, round_number, gradient, draw = 3, 12, 1, 5, DRAWS[1]
    words = words_of(stream_key(seed, Purpose.DROPOUT), 257, (gradient * CALLS + draw.call, client, round_number))
    pieces = [(int(word) >> (16 * place)) & 0xFFFF for word in words for place in range(4)][: draw.values]
    kept = torch.tensor([piece >= draw.threshold for piece in pieces])
    noise = plain_noise(NAMES, GRADIENTS, draw)
    assert torch.equal(noise[1], kept.to(draw.dtype) * draw.scale)


def test_a_share_of_p_is_dropped_and_the_rest_scaled():
    x = torch.ones(1, 40_000)
    y = dropout(in_stream(stream_name(0, 1, 0)), nn.Dropout(0.25))(x)
    assert y.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert (y == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)


def test_a_lane_draws_what_it_would_draw_alone():
    names = [stream_name(0, 1, client) for client in range(3)]
    x = torch.ones(3 * 4, 5)
    together = dropout(in_stream(*names))(x).view(3, 4, 5)
    for lane, name in enumerate(names):
        assert torch.equal(together[lane], dropout(in_stream(name))(x[:4]))
    assert not torch.equal(together[0], together[1])


def test_dropouts_of_one_forward_pass_differ_and_the_next_pass_repeats():
    stream = in_stream(stream_name(0, 1, 0))
    layer, x = dropout(stream), torch.ones(1, 64)
    first, second = layer(x), layer(x)
    assert not torch.equal(first, second)
    stream.begin_forward(torch.tensor([stream_name(0, 1, 0)]), torch.zeros(1, dtype=torch.int64))
    assert torch.equal(layer(x), first)


def test_whole_channels_are_dropped_where_the_layer_does_so():
    y = dropout(in_stream(stream_name(0, 1, 0)), nn.Dropout2d(0.5))(torch.ones(2, 16, 3, 3))
    per_channel = y.flatten(start_dim=2)
    assert torch.equal(per_channel, per_channel[:, :, :1].expand_as(per_channel))
    assert 0 < (per_channel[:, :, 0] == 0).sum() < 32


@pytest.mark.parametrize(("p", "expected"), [(0.0, 1.0), (1.0, 0.0)])
def test_nothing_or_everything(p, expected):
    y = dropout(in_stream(stream_name(0, 1, 0)), nn.Dropout(p))(torch.ones(2, 3))
    assert torch.equal(y, torch.full((2, 3), expected))


def test_in_evaluation_nothing_is_dropped():
    layer, x = dropout(in_stream(stream_name(0, 1, 0))).eval(), torch.ones(2, 3)
    assert layer(x) is x


def test_a_dropout_of_ones_own_is_left_alone():
    class Mine(nn.Dropout):
        pass

    model = nn.Sequential(Mine(0.5), nn.Sequential(nn.Dropout(0.1)))
    assert type(exchange_dropout(model, in_stream(stream_name(0, 1, 0)))[0]) is Mine
    assert repr(model[1][0]) == "CountedDropout(p=0.1)"


def compare_kernel(device):
    from stayput.engines import masks_triton

    names, gradients = NAMES.to(device), GRADIENTS.to(device)
    for draw in DRAWS:
        assert torch.equal(masks_triton.noise(names, gradients, draw).cpu(), plain_noise(NAMES, GRADIENTS, draw))


def test_the_kernel_draws_the_same(device):
    if device.type == "cuda":
        compare_kernel(device)
        return
    # Triton reads the variable when it is imported, so its interpreter needs a process of its own.
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__))],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


if __name__ == "__main__":
    compare_kernel(torch.device("cpu"))
