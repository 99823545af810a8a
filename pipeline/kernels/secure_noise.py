"""Chance that nobody can repeat or foretell: drawn from the system's entropy, by no seed."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy.special import ndtri

Array = np.ndarray[Any, Any]


def uniforms(count: int) -> Array:
    """Numbers between 0 and 1, neither of them, `float64[count]`."""
    whole = np.frombuffer(os.urandom(8 * count), np.uint64) >> np.uint64(11)
    return (whole.astype(np.float64) + 0.5) * 2.0**-53


def normals(count: int) -> Array:
    """Numbers of a normal distribution with mean 0 and deviation 1, `float64[count]`."""
    found: Array = ndtri(uniforms(count))
    return found
