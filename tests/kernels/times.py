"""A simulated cohort of times to an event, and what regenie 4.1.2 printed for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PEOPLE, VARIANTS = 240, 12


class Times(NamedTuple):
    """Calls `uint8[v, n]` (3: missing), covariates `float64[n, 2]`, signed times `float64[n]` with ties, predictions `float64[n]`."""

    calls: NDArray[np.uint8]
    covariates: NDArray[np.float64]
    signed: NDArray[np.float64]
    predictions: NDArray[np.float64]


def times_cohort() -> Times:
    """Twelve variants, common and rare, with 3 % of calls missing; whole months, so that many end at one time; a third have the event."""
    rng = np.random.default_rng(41)
    frequency = np.array([0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.03, 0.9, 0.75, 0.6, 0.45, 0.15])
    calls = rng.binomial(2, frequency[:, None], (VARIANTS, PEOPLE)).astype(np.uint8)
    covariates = np.column_stack([rng.normal(50, 8, PEOPLE).round(2), rng.integers(0, 2, PEOPLE)])
    predictions = rng.normal(0, 0.5, PEOPLE).round(4)
    log_hazard = 0.03 * (covariates[:, 0] - 50) + 0.4 * covariates[:, 1] + predictions + calls[[1, 5, 6]].T @ np.array([0.4, 1.0, 1.5])
    event, seen = rng.exponential(20, PEOPLE) * np.exp(-log_hazard), rng.exponential(9, PEOPLE)
    months = np.ceil(np.minimum(event, seen))
    calls[rng.random(calls.shape) < 0.03] = 3
    return Times(calls, covariates, np.where(event <= seen, months, -months), predictions)
