"""Normal numbers tied together, and a step of Heston's model: each in one pass over the paths."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled

Floats = NDArray[np.float64]


@compiled
def add_times(total: Floats, values: Floats, factor: float) -> None:
    """Add to `total: float64[n]` so many times the values."""
    for at in range(len(total)):
        total[at] += values[at] * factor


@compiled
def step_variance(
    logs: Floats, variances: Floats, move: Floats, normal: Floats, terms: tuple[float, float, float, float, float, float, float]
) -> None:
    """Move logarithms of prices and their variances by a step, in place, all `float64[n]`."""
    growth, years, back, level, spread, along, apart = terms
    for at in range(len(logs)):
        held = max(variances[at], 0.0)
        root = math.sqrt(held * years)
        logs[at] += growth - held * (years * 0.5) + root * move[at]
        variances[at] += back * (level - held) + spread * root * (along * move[at] + apart * normal[at])
