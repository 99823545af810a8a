"""What the positions of a portfolio lose by the horizon, path by path, in whole numbers: so that sums are exact in any order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.memory import block_bytes
from pipeline.kernels.asset_paths import Market, log_prices
from pipeline.kernels.black_scholes import Option, option_values

Array = Any
BITS = 38
"""Of the greatest loss of a position that is expected; a unit is a power of two, one of 2^38 parts of it at most."""
BLOCK_BYTES = 4 << 20
"""What all arrays of a block come to on a CPU."""


class Position(NamedTuple):
    """So much (`quantity`, negative where it is owed) of an asset, by its place in the market, or of an option on it.

    `value` is what one is worth now, `option` the option as it will be at the horizon.
    """

    asset: int
    quantity: float
    value: float
    option: Option | None = None


@dataclass(frozen=True)
class Book:
    """A market, and the positions in it."""

    market: Market
    positions: tuple[Position, ...]


def path_blocks(first: int, last: int, book: Book, like: Array) -> Iterator[Array]:
    """The numbers `uint64[n]` of paths from `first` to `last`, not included, block by block, where the array `like` lives."""
    xp = array_module(like)
    rows = 3 * len(book.market.assets) + 2 * len(book.positions) + 8
    step = max(1024, min(block_bytes(like, BLOCK_BYTES) // (8 * rows), 1 << 20))
    for start in range(first, last, step):
        yield xp.arange(start, min(start + step, last), dtype=np.uint64)


def position_values(paths: Array, book: Book) -> Iterator[tuple[Position, Array]]:
    """Each position with what one of it is worth at the horizon, `float64[n]` of paths `uint64[n]`."""
    xp = array_module(paths)
    logs = log_prices(paths, book.market)
    prices = [xp.exp(values) for values in logs]
    for position in book.positions:
        price = prices[position.asset]
        yield position, price if position.option is None else option_values(logs[position.asset], price, position.option)


def greatest_loss(paths: Array, book: Book) -> float:
    """The greatest that a position gains or loses on any of these paths; 0 where none moves."""
    return max(
        (float(abs((position.value - values) * position.quantity).max()) for position, values in position_values(paths, book)), default=0.0
    )


def unit_of(greatest: float) -> float:
    """The unit of losses of which the greatest is this one: a power of two."""
    return 2.0 ** (math.frexp(greatest)[1] - BITS) if greatest > 0 else 1.0


def position_losses(paths: Array, book: Book, unit: float) -> Array:
    """Losses in units `int64[p, n]` of each position on paths `uint64[n]`; gains are negative.

    A loss of 2^62 units and more does not fit; it is 16 million times the greatest that was expected.
    """
    xp = array_module(paths)
    found = xp.empty((len(book.positions), len(paths)), np.int64)
    for at, (position, values) in enumerate(position_values(paths, book)):
        found[at] = xp.rint((position.value - values) * (position.quantity / unit))
    return found
