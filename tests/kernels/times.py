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


CHROMOSOMES, OF_CHROMOSOME, BLOCK = 3, 20, 7
SHOWN = (0, 50, 51, 100, 149, 200, 239)
# regenie 4.1.2, `--step 1 --t2e --bsize 7 --threads 1` of the people of times_cohort and these calls: penalties and the folds' deviances,
# and what all chromosomes but the one, and all (its row of a chromosome without variants), predict of the people shown.
LEVEL_1 = ((105.66, 9.56058), (3.34128, 9.45932), (0.10566, 9.68668), (0.00334128, 10.0466), (0.00010566, 10.1457))
LEFT_OUT = (
    (0.0784785, -0.0704175, 0.0490032, -0.0873155, 0.0355625, -0.0229998, 0.0506313),
    (0.040786, 0.148496, -0.17622, -0.167514, 0.0932505, 0.115235, 0.0386152),
    (0.00760203, 0.168789, -0.189928, -0.273412, 0.0324523, 0.211026, 0.0280584),
    (0.0634333, 0.123434, -0.158573, -0.264121, 0.0806327, 0.151631, 0.0586525),
)


def wide_calls() -> NDArray[np.uint8]:
    """Calls `uint8[60, n]` of three chromosomes, of the people of `times_cohort`: four in ten variants lean on what was predicted."""
    rng, predicted = np.random.default_rng(43), times_cohort().predictions
    variants = CHROMOSOMES * OF_CHROMOSOME
    frequency = rng.uniform(0.1, 0.9, (variants, 1))
    lean = rng.normal(0, 1, (variants, 1)) * (rng.random((variants, 1)) < 0.4)
    calls = rng.binomial(2, 1 / (1 + np.exp(-(np.log(frequency / (1 - frequency)) + 1.2 * lean * predicted)))).astype(np.uint8)
    calls[rng.random(calls.shape) < 0.02] = 3
    return calls
