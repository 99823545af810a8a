"""Variance components of binary traits: scores whose variances are what tests that hold for few cases make of them. Not a stage.

Zhao et al. 2020 (Am J Hum Genet 106:3-12): the variance of a variant's score becomes what gives it the chi-square of Firth's or the saddle
point's test, the correlations stay; and where that of the weighted burden is still less than its own test says, all grow alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.logistic_regression import SCORE
from pipeline.kernels.p_values import z_test_p_values
from pipeline.kernels.predicted_binary import PredictedMethod, associate_predicted_binary
from pipeline.kernels.predicted_binary_design import PredictedBinary
from pipeline.kernels.set_scores import binary_set_scores, weighted_burdens

How = tuple[PredictedMethod, float]
"""How what has a p-value of at most so much in the score test is tested."""
_ABOUT = 1.001
"""More than rounding moves a p-value by: who is near `screen` is looked at, too."""
_NUMBERS = ("beta", "standard_error", "statistic", "effect_allele_frequency", "n", "p_value", "neg_log_10_p_value", "test")


def binary_tests(rows: Any, model: PredictedBinary, how: How, *, in_set: bool = False, summed: Any = None) -> dict[str, Any]:
    """Numbers `[k, t]` of single tests of counts `[k, n]` (-1: missing), on the host; the rest as in `associate_predicted_binary`."""
    xp = array_module(rows)
    block = GenotypeBlock(None, xp.where(rows < 0, xp.nan, rows).astype(xp.float32), rows.shape[1])
    found = associate_predicted_binary(block, model, *how, in_set=in_set, summed=summed)
    return {name: np.stack([to_host(getattr(one, name)) for one in found], axis=1) for name in _NUMBERS}


def binary_scores(rows: Any, model: PredictedBinary, how: How) -> tuple[Any, Any]:
    """Scores `[v, t]` and their covariances `[t, v, v]`. Firth's test is of everybody, not of carriers alone, however rare a variant is."""
    scores, covariances = binary_set_scores(rows, model)
    plain = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2)).T
    with np.errstate(divide="ignore", invalid="ignore"):
        alone = abs(scores) / plain
    notable = np.flatnonzero((z_test_p_values(alone)[0] <= _ABOUT * how[1]).any(axis=1))
    if len(notable):
        again = abs(binary_tests(rows[array_module(rows).asarray(notable)], model, how, in_set=True)["statistic"])
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(again > 0, alone[notable] / again, 1.0)
        ratio = np.ones(scores.shape).T
        ratio[:, notable] = np.nan_to_num(found, nan=1.0).T
        covariances = covariances * ratio[:, :, None] * ratio[:, None, :]
    return scores, covariances


def burden_growth(rows: Any, weights: Any, moments: tuple[Any, Any], model: PredictedBinary, how: How) -> Any:
    """By how much the covariances of sets grow for the sake of their burdens, `float64[k, t]`, of `weights: float64[k, v]` (0: not in it).

    `moments` are the scores and covariances of `binary_scores`.
    """
    scores, covariances = moments
    found = binary_tests(weighted_burdens(rows, weights, model), model, how, in_set=True)
    own = np.einsum("kv,tvw,kw->kt", weights, covariances, weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = (weights @ scores) ** 2 / found["statistic"] ** 2 / own
    return np.where((found["test"] != SCORE) & np.isfinite(wanted), np.maximum(wanted, 1.0), 1.0)
