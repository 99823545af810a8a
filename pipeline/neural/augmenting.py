"""Images of a training batch, changed by chance: an image's own chance in each epoch, whatever batch or place it comes in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.kernels.augmentation import moved_images
from pipeline.kernels.key_hash import splitmix

Array = Any

NAMES = "names"
"""What an image is known by, uint64 [rows], among the arrays of a batch."""
_DRAWS = 5  # of an image in an epoch


@dataclass(frozen=True)
class Augmenting:
    """How far images `height` x `width` x `channels`, the first of a row's numbers, are changed.

    `mirror`: every other one, left for right. `degrees` it is turned at most, and `shift` of its height and of its width it is moved at
    most, either way. `brightness`: what is added to all its numbers, which are standardized, at most, either way.
    """

    height: int
    width: int
    channels: int
    mirror: bool
    degrees: float
    shift: float
    brightness: float

    def changed(self, numbers: Array, names: Array, seed: int, epoch: int) -> Array:
        """Numbers float32 [rows, numbers] of the images of these names, uint64 [rows], as they are in this epoch."""
        draws = self.draws(names, seed, epoch)
        size = self.height * self.width * self.channels
        images = numbers[:, :size].reshape(-1, self.height, self.width, self.channels)
        if self.mirror or self.degrees or self.shift:
            mirrored = self.mirror & (draws[:, 0] < 0.5)
            either = 2 * draws[:, 1:4] - 1
            images = moved_images(images, mirrored, self.degrees * either[:, 0], self.shift * either[:, 1:] * (self.height, self.width))
        brighter = (self.brightness * (2 * draws[:, 4] - 1)).astype(np.float32)
        images = images + brighter[:, None, None, None]
        return np.concatenate([images.reshape(len(numbers), size), numbers[:, size:]], axis=1)

    @staticmethod
    def draws(names: Array, seed: int, epoch: int) -> Array:
        """Numbers in [0, 1) of each image in an epoch, float64 [rows, 5], by splitmix64 of its name, the epoch and the draw's place."""
        places = np.tile(np.arange(_DRAWS, dtype=np.uint64), (len(names), 1))
        words = [np.broadcast_to(values, places.shape).reshape(-1) for values in (names[:, None], np.uint64(epoch), places)]
        return (splitmix(words, seed) >> np.uint64(11)).reshape(places.shape) * 2.0**-53
