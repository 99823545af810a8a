"""Sums of chi-squares: the saddle point of the tail's integrand, and the integral through it, value by value."""

from __future__ import annotations

from math import atan2, cosh, log, log1p, pi, sinh, sqrt
from typing import Any

import numpy as np

from pipeline.kernels.compiled.jit import compiled

_STEP, _TERMS, _LEAST_BEND = 0.24, 28, 0.05
_LARGE = 1e100  # squared size of a product that is taken into its logarithm


@compiled
def saddle_points(rows: Any, value: Any, pole: bool, found: Any) -> None:
    """Where K(z) - z q (less log |z| with `pole`) is least on the real axis: above 0 for values above the mean, else below.

    `rows: float64[b, m]` are weights, the greatest of each row 1; `value` and `found: float64[b]`.
    """
    for row in range(len(rows)):
        weights, q = rows[row], value[row]
        mean = weights.sum()
        upper = q >= mean
        low, high = (0.0, 0.5) if upper else (-(len(weights) + 2) / q - 2, 0.0)
        if not pole:  # nothing keeps it from 0
            low, high = min(low, -1e-3), high if upper else 1e-3
        edge = 1e-3 * (high - low)
        at = min(max(0.25 if upper else -0.5 * (mean + 2) / q, low + edge), high - edge)
        for _ in range(100):
            slope, bend = -q, 0.0
            for weight in weights:
                share = weight / (1 - 2 * weight * at)
                slope += share
                bend += 2 * share * share
            if pole:
                slope -= 1 / at
                bend += 1 / (at * at)
            if slope > 0:
                high = at
            else:
                low = at
            newer = at - slope / bend
            if newer <= low or newer >= high:
                newer = (low + high) / 2
            settled = abs(newer - at) <= 1e-6 * min(abs(newer) + 1e-9, 0.5 - newer)  # the next step would be the square of it
            at = newer
            if settled:
                break
        found[row] = at


@compiled
def tails(rows: Any, value: Any, saddle: Any, found: Any) -> None:
    """The tail by the integral along z = s + i v + c v^2, v = sinh(t) / sqrt(curvature), through the saddle points s.

    A factor 1 - 2 w z turns clockwise by less than half a turn, so the logarithm of their product needs one arc tangent and the number of
    times that the product passed from below the real axis to above it.
    """
    for row in range(len(rows)):
        weights, q, at = rows[row], value[row], saddle[row]
        curvature, third, top = 1 / at**2, -2 / at**3, -at * q
        for weight in weights:
            share = weight / (1 - 2 * weight * at)
            curvature += 2 * share**2
            third += 8 * share**3
            top -= 0.5 * log1p(-2 * weight * at)
        unit = 1 / sqrt(curvature)
        bend = max(third / (6 * curvature), _LEAST_BEND / unit)
        total = 0.0
        for term in range(_TERMS):
            step = (term + 0.5) * _STEP
            v = sinh(step) * unit
            z = complex(at + bend * v * v, v)
            product, size, turns = complex(1.0, 0.0), 0.0, 0
            for weight in weights:
                after = product * (1 - 2 * weight * z)
                if product.imag < 0 and after.imag >= 0:
                    turns += 1
                squared = after.real**2 + after.imag**2
                if squared > _LARGE:
                    size += 0.5 * log(squared)
                    after /= sqrt(squared)
                product = after
            size += 0.5 * log(product.real**2 + product.imag**2)
            angle = atan2(product.imag, product.real) - 2 * pi * turns
            raised = np.exp(complex(-0.5 * size, -0.5 * angle) - z * q - top)
            total += (raised / z * cosh(step) * unit * complex(2 * bend * v, 1.0)).imag
        tail = total * _STEP / pi * np.exp(top)
        found[row] = min(max(tail if at > 0 else 1 + tail, 0.0), 1.0)
