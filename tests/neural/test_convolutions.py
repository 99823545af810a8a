"""Images in a network: forward and a step as NumPy has them, patch by patch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.neural.front import Picture
from pipeline.neural.mesh import Task
from pipeline.neural.perceptron import Perceptron, Shape, initial
from pipeline.neural.predicting import rows_at_once, rows_to_watch
from tests.neural.batches import assert_close, on_one_device, rule

pytestmark = pytest.mark.long  # JAX compiles its programs

ROWS, HEIGHT, WIDTH, CHANNELS = 4, 6, 5, 2


def _patches(images: Any, size: int) -> Any:
    """Float64 [rows, height, width, size x size x channels]: what a filter of that size sees, 0 beyond the edges."""
    low, high = (size - 1) // 2, size // 2
    padded = np.pad(images, ((0, 0), (low, high), (low, high), (0, 0)))
    height, width = images.shape[1:3]
    seen = [padded[:, down : down + height, across : across + width] for down in range(size) for across in range(size)]
    return np.stack(seen, axis=3).reshape(*images.shape[:3], -1)


def _greatest(values: Any, pool: int) -> tuple[Any, Any]:
    """The greatest of each pool, and which values those are."""
    rows, height, width, filters = values.shape
    found, chosen = np.zeros((rows, height // pool, width // pool, filters)), np.zeros(values.shape, bool)
    for place in np.ndindex(found.shape):
        row, down, across, one = place
        of = values[row, down * pool : (down + 1) * pool, across * pool : (across + 1) * pool, one]
        y, x = np.unravel_index(of.argmax(), of.shape)
        found[place] = of[y, x]
        chosen[row, down * pool + y, across * pool + x, one] = True
    return found, chosen


@pytest.mark.parametrize(("size", "pool"), [(3, 2), (2, 1), (5, 3)])
def test_a_step_with_a_convolution__is_the_one_by_hand(size: int, pool: int) -> None:
    pixels = HEIGHT * WIDTH * CHANNELS
    shape = Shape(pixels + 1, (), (), 1, "tanh", (), Picture(HEIGHT, WIDTH, CHANNELS, ((3, size, pool),)))
    rng = np.random.default_rng(size)
    numbers, targets = rng.normal(size=(ROWS, pixels + 1)).astype(np.float32), np.array([1.0, 0.0, 0.0, 1.0], np.float32)
    ones = np.ones(ROWS, np.float32)
    batch: dict[str, Any] = {"numbers": numbers, "codes": np.zeros((ROWS, 0), np.int32), "targets": targets, "real": ones}
    batch |= {"weighs": ones / ROWS, "keys": np.zeros(ROWS, np.uint32)}
    found, losses = on_one_device(Task(Perceptron(shape), "binary", rule(), None), [batch])

    start: dict[str, Any] = {name: value.astype(np.float64) for name, value in initial(shape, 3, []).items()}
    filters, shift = (start[f"picture/convolutions_0/{kind}"] for kind in ("kernel", "bias"))
    kernel, images = start["layers_0/kernel"], numbers[:, :pixels].astype(np.float64).reshape(ROWS, HEIGHT, WIDTH, CHANNELS)
    patches = _patches(images, size)
    active = np.tanh(patches @ filters.reshape(-1, 3) + shift)
    pooled, chosen = _greatest(active, pool)
    values = np.hstack([pooled.reshape(ROWS, -1), numbers[:, pixels:]])
    chance = 1 / (1 + np.exp(-(values @ kernel + start["layers_0/bias"])[:, 0]))
    apart = (chance - targets)[:, None] / ROWS
    down = np.zeros(active.shape)
    back = (apart @ kernel.T)[:, :-1].reshape(pooled.shape).repeat(pool, axis=1).repeat(pool, axis=2)
    down[:, : back.shape[1], : back.shape[2]] = back
    down = down * chosen * (1 - active**2)
    gradients = {
        "picture/convolutions_0/kernel": np.einsum("rhwp,rhwf->pf", patches, down).reshape(filters.shape),
        "picture/convolutions_0/bias": down.sum(axis=(0, 1, 2)),
        "layers_0/kernel": values.T @ apart,
        "layers_0/bias": apart.sum(axis=0),
    }
    assert_close(found, {name: (start[name] - 0.1 * gradients[name]).astype(np.float32) for name in gradients}, 1e-6)
    assert losses[0] == pytest.approx(-np.where(targets == 1, np.log(chance), np.log(1 - chance)).sum(), rel=1e-6)


def test_rows_at_once__are_fewer_where_an_image_is_large() -> None:
    large = Picture(224, 224, 3, ((64, 3, 2), (128, 3, 2)))
    assert [rows_at_once(Shape(9, (), (), 1, picture=picture)) for picture in (None, Picture(8, 8, 1, ((16, 3, 2),)), large)] == [
        4_096,
        4_096,
        2**24 // (224 * 224 * 64),
    ]


def test_rows_to_watch__are_those_of_an_image_that_there_are_up_to_a_power_of_two() -> None:
    small, large = (Shape(9, (), (), 1, picture=Picture(side, side, 1, ((16, 3, 2),))) for side in (8, 224))
    assert [rows_to_watch(small, rows) for rows in (0, 1, 24, 32, 33, 5_000)] == [1, 1, 32, 32, 64, 4_096]
    assert rows_to_watch(large, 500) == rows_at_once(large) < 500
    assert rows_to_watch(Shape(9, (), (), 1), 24) == rows_at_once(Shape(9, (), (), 1))
