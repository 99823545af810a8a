"""Student's t copula: what turns correlated normal numbers into ones whose tails depend on one another.

X = Z sqrt(v / W) with W of a chi-square distribution of v degrees of freedom, one for all assets of a path, has a t distribution of v; the
normal number of the same probability keeps the copula and gives the margins back (Demarta & McNeil 2005, Int Stat Rev 73:111-129).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtri_exp

from pipeline.backend.arrays import array_module
from pipeline.kernels.philox import normals_of, uniforms_of

Array = Any
STREAM = 2
NODES, FURTHEST = 2048, 16.0  # nodes of a unit of the table, and where it ends


def chi_square(paths: Array, degrees: int, key: tuple[int, int]) -> Array:
    """A chi-square number of so many degrees of freedom for each path `uint64[n]`: `float64[n]`.

    Of two degrees it is -2 log of a uniform number; an odd one is a normal number's square.
    """
    xp = array_module(paths)
    halves, found = degrees // 2, xp.zeros(len(paths))
    if halves:
        uniforms = uniforms_of(paths, range((halves + 1) // 2), STREAM, key)
        for at in range(halves):
            found -= 2 * xp.log(uniforms[at % 2, at // 2])
    if degrees % 2:
        found += normals_of(paths, 1, halves, STREAM, key)[0] ** 2
    return found


@cache
def _ratios(degrees: int) -> Array:
    """At each node of w = sqrt(v log(1 + x^2 / v)), the normal number of x's probability, over w."""
    from scipy.stats import t  # half a second, which other copulas do without

    w = np.arange(int(NODES * FURTHEST) + 2) / NODES
    w[0] = 1e-4
    x = np.sqrt(degrees * np.expm1(w * w / degrees))
    upper = t.logsf(x, degrees)
    found: Array = -ndtri_exp(upper) / w
    return found


def normal_of_student(x: Array, degrees: int) -> Array:
    """Normal numbers `float64[...]` of the probabilities that numbers of a t distribution have; exact to nine digits."""
    xp = array_module(x)
    w = xp.sqrt(degrees * xp.log1p(x * x / degrees))
    place = xp.minimum(w, FURTHEST) * NODES
    node = place.astype(np.int64)
    ratios = xp.asarray(_ratios(degrees))
    left = ratios[node]
    return xp.copysign(w * (left + (place - node) * (ratios[node + 1] - left)), x)
