"""P-values of normal statistics, each in one go."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pipeline.kernels.compiled.jit import compiled

_TINY_P, _MOST = 1e-280, 1e150
_LOG_10, _LOG_OF_2, _LOG_OF_2_PI = math.log(10), math.log(2), math.log(2 * math.pi)


@compiled
def _fill(z: Any, p_value: Any, neg_log_10: Any) -> None:
    """Writes two-sided p-values and -log10 of them; NaN for NaN."""
    for place in range(len(z)):
        size = abs(z[place])
        p = math.erfc(size * math.sqrt(0.5))
        p_value[place] = p
        if p > _TINY_P:
            neg_log_10[place] = 0.0 - math.log10(p)
        elif math.isinf(size):
            neg_log_10[place] = np.inf
        elif math.isnan(size):
            neg_log_10[place] = np.nan
        else:
            # Mills' ratio (NIST DLMF 7.12.1): beyond 35 the terms that are left out are below 1e-14.
            far = min(size, _MOST)
            x = 1 / far / far
            series = 1 - x * (1 - 3 * x * (1 - 5 * x * (1 - 7 * x)))
            neg_log_10[place] = (far * far / 2 + math.log(far) + _LOG_OF_2_PI / 2 - _LOG_OF_2 - math.log(series)) / _LOG_10


def z_p_values(z: Any) -> tuple[Any, Any]:
    """Two-sided p-value and -log10 of it of standard normal statistics, in the shape of `z: float64`."""
    p_value, neg_log_10 = np.empty(z.shape), np.empty(z.shape)
    _fill(np.ascontiguousarray(z).reshape(-1), p_value.reshape(-1), neg_log_10.reshape(-1))
    return p_value, neg_log_10
