"""Values of an option at many prices, one after another."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled

Floats = NDArray[np.float64]


@compiled
def fill_values(log_prices: Floats, prices: Floats, sign: float, terms: tuple[float, float, float, float], found: Floats) -> None:
    """Write the values at prices `float64[n]`; `terms` are those of the option."""
    shift, spread, price_factor, discounted = terms
    root = math.sqrt(0.5)
    for at in range(len(prices)):
        d1 = (log_prices[at] + shift) / spread
        own, strike = math.erfc(-sign * d1 * root), math.erfc(-sign * (d1 - spread) * root)
        found[at] = sign * 0.5 * (prices[at] * price_factor * own - discounted * strike)
