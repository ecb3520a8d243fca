from __future__ import annotations

import pytest
import torch

from stayput.core.seeds import Purpose
from stayput.core.tensor_streams import ExampleStreams, philox, tensor_key, uniform

KNOWN = [  # the authors' own test vectors for philox4x32, 10 rounds: counter, key, words
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_philox_gives_its_authors_words(counter, key, words):
    tensors = [torch.tensor(word) for word in counter]
    assert tuple(word.item() for word in philox(key, tensors)) == words


def test_counters_and_keys_go_in_batches():
    counters = [torch.tensor([known[0][word] for known in KNOWN]) for word in range(4)]
    keys = tuple(torch.tensor([known[1][word] for known in KNOWN]) for word in range(2))
    words = torch.stack(philox(keys, counters), dim=1)
    assert words.tolist() == [list(known[2]) for known in KNOWN]


def test_an_examples_numbers_do_not_depend_on_its_company():
    key = tensor_key(3, Purpose.AUGMENTATION)
    rows = torch.tensor([5, 9, 700])
    together = ExampleStreams(key, (rows, 2, 8))
    alone = ExampleStreams(key, (rows[1:2], 2, 8))
    assert together(5)[1].tolist() == alone(5)[0].tolist()
    assert together(3)[1].tolist() == alone(3)[0].tolist()


def test_each_experiment_has_numbers_of_its_own_in_one_batch():
    keys = [tensor_key(seed, Purpose.AUGMENTATION) for seed in (0, 1)]
    stacked = (torch.tensor([keys[0][0], keys[1][0]]), torch.tensor([keys[0][1], keys[1][1]]))
    both = ExampleStreams(stacked, (torch.tensor([4, 4]), 1, torch.tensor([7, 7])))(6)
    assert both[0].tolist() == ExampleStreams(keys[0], (torch.tensor([4]), 1, 7))(6)[0].tolist()
    assert both[1].tolist() == ExampleStreams(keys[1], (torch.tensor([4]), 1, 7))(6)[0].tolist()
    assert both[0].tolist() != both[1].tolist()


def test_every_word_of_the_name_counts_and_asking_again_gives_fresh_numbers():
    key = tensor_key(0, Purpose.AUGMENTATION)
    row = torch.tensor([1])
    streams = [ExampleStreams(key, names) for names in ((row, 1, 1), (row + 1, 1, 1), (row, 2, 1), (row, 1, 2))]
    first = [tuple(stream(4)[0].tolist()) for stream in streams]
    second = [tuple(stream(4)[0].tolist()) for stream in streams]
    assert len({*first, *second}) == 8


def test_the_numbers_are_uniform():
    numbers = ExampleStreams(tensor_key(0, Purpose.AUGMENTATION), (torch.arange(20_000), 0, 1))(5)
    assert 0 <= float(numbers.min()) < 1e-4
    assert 1 - 1e-4 < float(numbers.max()) < 1
    shares = torch.histc(numbers, bins=20, min=0, max=1) / numbers.numel()
    assert torch.allclose(shares, torch.full((20,), 0.05), atol=0.003)  # four deviations
    assert abs(torch.corrcoef(numbers.T) - torch.eye(5)).max() < 0.03


def test_the_largest_word_stays_below_one():
    assert uniform(torch.tensor(0xFFFFFFFF)) < 1
