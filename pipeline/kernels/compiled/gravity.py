"""Pulls and potentials of bodies: one body after another upon a few at a time, whose sums lie beside one another in registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.kernels.compiled.jit import compiled

_TOGETHER = 64


@compiled
def add_pulls(first: int, places: Any, pull: Any, softening: float, found: Any) -> None:
    """Fill `found: float64[b, 3]` with the accelerations of bodies from the first on; `places: float64[n, 3]`, `pull: float64[n]`."""
    own, sums = np.empty((3, _TOGETHER)), np.empty((3, _TOGETHER))
    for start in range(0, len(found), _TOGETHER):
        size = min(_TOGETHER, len(found) - start)
        for body in range(size):
            for way in range(3):
                own[way, body], sums[way, body] = places[first + start + body, way], 0.0
        x, y, z = own
        to_x, to_y, to_z = sums
        for other in range(len(places)):
            its_x, its_y, its_z, mass = places[other, 0], places[other, 1], places[other, 2], pull[other]
            for body in range(size):
                dx, dy, dz = its_x - x[body], its_y - y[body], its_z - z[body]
                square = dx * dx + dy * dy + dz * dz + softening**2
                weight = mass / (square * np.sqrt(square)) if other != first + start + body else 0.0
                to_x[body] += weight * dx
                to_y[body] += weight * dy
                to_z[body] += weight * dz
        for body in range(size):
            for way in range(3):
                found[start + body, way] = sums[way, body]


@compiled
def add_potentials(first: int, places: Any, pull: Any, softening: float, found: Any) -> None:
    """Fill `found: float64[b]` with the potentials at the bodies from the first on, each without its own."""
    for body in range(len(found)):
        own, total = first + body, 0.0
        for other in range(len(places)):
            if other != own:
                square = softening**2
                for way in range(3):
                    square += (places[other, way] - places[own, way]) ** 2
                total -= pull[other] / np.sqrt(square)
        found[body] = total
