"""What a training batch makes of its images: by each one's name and epoch, and by nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.neural.augmenting import Augmenting
from pipeline.neural.training import Rows

RNG = np.random.default_rng(20261123)
SOME = Augmenting(8, 6, 2, mirror=True, degrees=20, shift=0.2, brightness=0.3)
NAMES = RNG.integers(0, 2**63, 50, dtype=np.uint64)


def rows(order: Any, batch: int, augmenting: Augmenting | None = SOME) -> Rows:
    """Fifty images, and a number beside them that says which one it is."""
    numbers = np.random.default_rng(1).normal(size=(50, 97)).astype(np.float32)
    numbers[:, -1] = np.arange(50)
    arrays: dict[str, Any] = {
        "numbers": numbers, "codes": np.zeros((50, 0), np.int32), "targets": np.arange(50, dtype=np.float32),
        "weighs": np.ones(50, np.float32), "names": NAMES,
    }  # fmt: skip
    if augmenting is None:
        del arrays["names"]
    return Rows({name: array[order] for name, array in arrays.items()}, batch, augmenting)


def seen(given: Rows, seed: int, epoch: int) -> np.ndarray[Any, Any]:
    """The numbers of an epoch, in the order of the images."""
    found = np.concatenate([batch["numbers"][batch["weighs"] > 0] for batch in given.batches(seed, epoch)])
    ordered: np.ndarray[Any, Any] = found[np.argsort(found[:, -1])]
    return ordered


def test_an_image__is_changed_alike_in_any_order_and_batch_and_anew_in_every_epoch() -> None:
    first = seen(rows(np.arange(50), 50), 3, 0)
    assert (seen(rows(RNG.permutation(50), 7), 3, 0) == first).all()
    plain = seen(rows(np.arange(50), 50, None), 3, 0)
    for other in (plain, seen(rows(np.arange(50), 50), 3, 1), seen(rows(np.arange(50), 50), 4, 0)):
        assert (np.abs(first[:, :96] - other[:, :96]).max(axis=1) > 1e-3).all()
        assert (first[:, 96] == other[:, 96]).all()


def test_names__do_not_reach_the_network() -> None:
    assert all("names" not in batch for batch in rows(np.arange(50), 16).batches(1, 0))


def test_draws__are_spread_evenly_and_apart() -> None:
    draws = np.stack([SOME.draws(np.arange(4_000, dtype=np.uint64), 5, epoch) for epoch in range(5)])
    assert draws.min() >= 0
    assert draws.max() < 1
    share = np.histogram(draws, 20, (0, 1))[0] / draws.size
    np.testing.assert_allclose(share, 0.05, atol=0.004)
    flat = draws.transpose(1, 0, 2).reshape(4_000, -1)
    assert np.abs(np.corrcoef(flat.T) - np.eye(25)).max() < 0.08


def test_mirror_and_brightness__alone_keep_every_pixel() -> None:
    images = RNG.normal(size=(50, 96)).astype(np.float32)
    mirrored = replace(SOME, degrees=0, shift=0, brightness=0).changed(images, NAMES, 1, 0)
    turned = images.reshape(50, 8, 6, 2)[:, :, ::-1].reshape(50, 96)
    was = (mirrored == turned).all(axis=1)
    assert (was | (mirrored == images).all(axis=1)).all()
    assert 15 <= was.sum() <= 35
    brighter = replace(SOME, mirror=False, degrees=0, shift=0).changed(images, NAMES, 1, 0) - images
    assert np.ptp(brighter, axis=1).max() < 1e-6
    assert 0.25 < np.abs(brighter).max() <= 0.3


def test_shift_and_degrees__go_as_far_as_they_may_and_no_further() -> None:
    ramp = np.broadcast_to(np.arange(40.0, dtype=np.float32)[:, None], (40, 40)).reshape(1, -1).repeat(50, axis=0)
    moved = Augmenting(40, 40, 1, mirror=False, degrees=0, shift=0.1, brightness=0).changed(ramp, NAMES, 1, 0)
    by = moved.reshape(50, 40, 40)[:, 20, 20] - 20
    assert by.min() < -3.5
    assert by.max() > 3.5
    assert np.abs(by).max() <= 4
