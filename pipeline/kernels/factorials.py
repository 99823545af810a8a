"""Logarithms of factorials, as tables: made on the host by SciPy, whose last digits a GPU's function does not have."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module

Array = Any


def log_factorials(most: int, like: Array) -> Array:
    """log 0! to log most!, `float64[most + 1]`, where `like` lives. Whoever writes to it spoils it for others: do not."""
    return array_module(like).asarray(_table(most))


@lru_cache(maxsize=16)
def _table(most: int) -> Array:
    from scipy.special import gammaln

    return gammaln(np.arange(1, most + 2, dtype=np.float64))
