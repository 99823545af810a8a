"""Normal numbers tied together, and a step of Heston's model: each in one pass over the paths."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled

Floats = NDArray[np.float64]
SOME = 256  # paths whose numbers stay in the cache next to the processor


@compiled
def tie(normals: Floats, loadings: Floats, found: Floats) -> None:
    """Write `found: float64[a, n]`, for each asset the sum of the normal numbers `float64[a, n]` times its loadings, up to its own."""
    for start in range(0, normals.shape[1], SOME):
        for asset in range(len(found)):
            total, first = found[asset, start : start + SOME], loadings[asset, 0]
            values = normals[0, start : start + SOME]
            for at in range(len(total)):
                total[at] = values[at] * first
            for other in range(1, asset + 1):
                values, factor = normals[other, start : start + SOME], loadings[asset, other]
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
