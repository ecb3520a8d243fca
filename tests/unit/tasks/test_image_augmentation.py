from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from stayput.core.seeds import Purpose
from stayput.core.tensor_streams import ExampleStreams, tensor_key
from stayput.tasks.image_augmentation import augmented, centred


def plain(image, draw):
    """The TensorFlow tutorial's `distorted_inputs` for one image [H, W, 3], in float64 and plain loops."""
    height, width, _ = image.shape
    top, left = int(draw[0] * (height - 23)), int(draw[1] * (width - 23))
    crop = [[[float(image[top + y][left + x][c]) for c in range(3)] for x in range(24)] for y in range(24)]
    if draw[2] < 0.5:
        crop = [list(reversed(row)) for row in crop]
    brightness, contrast = -63 + draw[3] * 126, 0.2 + draw[4] * 1.6
    crop = [[[value + brightness for value in pixel] for pixel in row] for row in crop]
    means = [sum(pixel[c] for row in crop for pixel in row) / 576 for c in range(3)]
    crop = [[[(p[c] - means[c]) * contrast + means[c] for c in range(3)] for p in row] for row in crop]
    return whitened(crop)


def whitened(crop):
    values = [value for row in crop for pixel in row for value in pixel]
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    scale = max(deviation, 1 / math.sqrt(len(values)))
    return [[[(value - mean) / scale for value in pixel] for pixel in row] for row in crop]


@pytest.mark.parametrize("size", [(32, 32), (24, 27)])
def test_augmentation_is_the_tutorials_one_image_at_a_time(size):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (7, 3, *size), dtype=torch.uint8, generator=generator)
    images[3] = 9  # an image of one colour has no deviation to divide by

    def streams():
        return ExampleStreams(tensor_key(5, Purpose.AUGMENTATION), (torch.arange(7), 2, 1))

    draws = streams()(5).double().tolist()
    ours = augmented(images, streams())
    assert ours.shape == (7, 3, 24, 24)
    for image, draw, result in zip(images, draws, ours, strict=True):
        expected = np.array(plain(image.permute(1, 2, 0).numpy(), draw))
        np.testing.assert_allclose(result.permute(1, 2, 0).numpy(), expected, atol=2e-3)


def test_every_crop_and_both_flips_come():
    image = torch.arange(32 * 32, dtype=torch.int64).reshape(1, 1, 32, 32).expand(4000, 3, 32, 32)
    draws = ExampleStreams(tensor_key(1, Purpose.AUGMENTATION), (torch.arange(4000), 0, 1))
    seen = augmented(image.to(torch.float32), draws)
    flipped = (seen[:, 0, 0, 0] > seen[:, 0, 0, 1]).float().mean()
    assert abs(float(flipped) - 0.5) < 0.04
    fresh = ExampleStreams(tensor_key(1, Purpose.AUGMENTATION), (torch.arange(4000), 0, 1))(5)
    places = {(int(top * 9), int(left * 9)) for top, left in fresh[:, :2].tolist()}
    assert len(places) == 81


def test_a_test_image_is_its_centre_whitened():
    images = torch.randint(256, (2, 3, 32, 32), dtype=torch.uint8)
    for image, result in zip(images, centred(images), strict=True):
        crop = image[:, 4:28, 4:28].permute(1, 2, 0).tolist()
        np.testing.assert_allclose(result.permute(1, 2, 0).numpy(), np.array(whitened(crop)), atol=1e-4)
