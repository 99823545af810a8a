"""Images moved beside scipy.ndimage, and what stays as it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from pipeline.kernels.augmentation import moved_images

RNG = np.random.default_rng(20261123)


@pytest.mark.parametrize("shape", [(1, 1, 1), (8, 8, 1), (5, 12, 3), (1, 7, 2)])
def test_moved_images__are_scipys_affine_transform(shape: tuple[int, int, int]) -> None:
    images = RNG.normal(size=(40, *shape)).astype(np.float32)
    mirrored, degrees = RNG.random(40) < 0.5, RNG.uniform(-180, 180, 40)
    shifts = RNG.uniform(-3, 3, (40, 2))
    found = moved_images(images, mirrored, degrees, shifts)
    assert found.dtype == np.float32
    middle = (np.array(shape[:2]) - 1) / 2
    for at, image in enumerate(images):
        turned = np.deg2rad(degrees[at])
        matrix = np.array([[np.cos(turned), np.sin(turned)], [-np.sin(turned), np.cos(turned)]])
        given = image[:, ::-1] if mirrored[at] else image
        for channel in range(shape[2]):
            expected = ndimage.affine_transform(
                given[:, :, channel].astype(float), matrix, middle - matrix @ (middle + shifts[at]), order=1, mode="nearest"
            )
            np.testing.assert_allclose(found[at, :, :, channel], expected, atol=2e-5)


def test_a_turn__of_whole_quarters_is_numpys_rot90_and_whole_shifts_move_pixels() -> None:
    images = RNG.normal(size=(4, 9, 9, 2)).astype(np.float32)
    none, still = np.zeros(4, bool), np.zeros((4, 2))
    quarters = moved_images(images, none, np.arange(4) * 90.0, still)
    for at in range(4):
        np.testing.assert_allclose(quarters[at], np.rot90(images[at], at), atol=1e-6)
    moved = moved_images(images, none, np.zeros(4), np.tile([2, -3], (4, 1)))
    assert (moved[:, 2:, :-3] == images[:, :-2, 3:]).all()
    assert (moved[:, :2, :-3] == images[:, :1, 3:]).all()  # the edge, again and again
    assert (moved_images(images, none, np.zeros(4), still) == images).all()
    assert (moved_images(images, ~none, np.zeros(4), still) == images[:, :, ::-1]).all()
