"""The CIFAR-10 pipeline of the TensorFlow tutorial of 2016, on whole batches, where the batch is.

Training: a random crop of 24x24, a flip in half the cases, then brightness (± 63 of 255) and contrast (x 0.2 to 1.8),
then whitening. The paper says "adjusting the contrast, brightness and whitening" of the same steps; TensorFlow's order
of the two was the code's: brightness first. Testing: the centre crop and whitening. Each example takes five draws, from
its own stream.

Reference for every step, one image at a time: `tests/unit/tasks/test_image_augmentation.py`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from stayput.core.tensor_streams import Draws

CROP = 24
BRIGHTNESS = 63.0
"""The most that is added or taken away."""
CONTRAST = (0.2, 1.8)


def augmented(images: Tensor, draws: Draws) -> Tensor:
    """Training images, float32 [batch, 3, 24, 24], from stored bytes [batch, 3, H, W]."""
    top, left, mirrored, brighter, contrast = draws(5).unbind(dim=1)
    crops = _cropped(images, _place(top, images.shape[2]), _place(left, images.shape[3]), mirrored < 0.5).float()
    crops = crops + _each(brighter * (2 * BRIGHTNESS) - BRIGHTNESS)
    low, high = CONTRAST
    mean = crops.mean(dim=(2, 3), keepdim=True)  # of each channel, as tf.image.adjust_contrast does
    return whitened((crops - mean) * _each(low + contrast * (high - low)) + mean)


def centred(images: Tensor) -> Tensor:
    """Test images: the centre crop, whitened."""
    top, left = ((size - CROP) // 2 for size in images.shape[2:])
    return whitened(images[:, :, top : top + CROP, left : left + CROP].float())


def whitened(images: Tensor) -> Tensor:
    """Each image with mean 0 and deviation 1 over all its numbers, but divided by at least 1/sqrt of their count."""
    count = math.prod(images.shape[1:])
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    deviation = images.var(dim=(1, 2, 3), correction=0, keepdim=True).sqrt()
    return (images - mean) / deviation.clamp(min=1 / math.sqrt(count))


def _place(draw: Tensor, size: int) -> Tensor:
    """Where a crop begins: every place equally likely."""
    return (draw * (size - CROP + 1)).long()


def _cropped(images: Tensor, top: Tensor, left: Tensor, mirrored: Tensor) -> Tensor:
    steps = torch.arange(CROP, device=images.device)
    rows = top[:, None] + steps
    columns = left[:, None] + torch.where(mirrored[:, None], CROP - 1 - steps, steps)
    example = torch.arange(len(images), device=images.device)[:, None, None]
    # Indexed like this the channels come last: [batch, 24, 24, 3].
    return images[example, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _each(values: Tensor) -> Tensor:
    """A number for each image."""
    return values[:, None, None, None]
