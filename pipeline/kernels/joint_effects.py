"""Effects of variants given one another, from their own effects and linkage: conditional and joint analysis.

Yang et al. 2012 (Nat Genet 44:369-375). All is done in correlations: that of a variant with the trait follows from its t, that of two
variants from a panel, and a regression on several variants is one of correlations. A variant's variance comes from its standard error and
n, not from its frequency, so that with the linkage of the scan's own people, none of whose calls is missing, and no covariates, effects,
errors and p-values are those of the regression itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.p_values import t_test_p_values

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_ALIKE = 1e-10
"""A variant whose variance beside others is less of its own is a sum of them."""


@dataclass(frozen=True)
class Marginal:
    """Of v variants of a locus: t of each alone `float64[v]`, the people of each `n: float64[v]`, and `r: float64[v, v]` of their calls."""

    t: Floats
    n: Floats
    r: Floats

    @property
    def correlation(self) -> Floats:
        """Of each variant with the trait, `float64[v]`."""
        return np.asarray(self.t / np.sqrt(self.t**2 + self.n - 2))


@dataclass(frozen=True)
class Given:
    """Of v variants, each beside the others chosen: correlations' effect, its standard error, t and -log10 p, `float64[v]`; NaN where none.

    `tolerance` is the share of a variant's variance that the others leave.
    """

    effect: Floats
    error: Floats
    t: Floats
    p_value: Floats
    neg_log_10: Floats
    tolerance: Floats


def joint_effects(locus: Marginal, chosen: Places) -> Given:
    """Of the `chosen` k variants, all in one regression: `float64[k]`. Raises LinAlgError where one is a sum of others."""
    inverse = np.linalg.inv(locus.r[np.ix_(chosen, chosen)])
    if len(chosen) and not 0 < inverse.diagonal().max() < 1 / _ALIKE:
        raise np.linalg.LinAlgError("a variant is a sum of others")
    own = locus.correlation[chosen]
    effect = inverse @ own
    n = float(locus.n[chosen].min()) if len(chosen) else 0.0
    return _given(effect, 1 - own @ effect, inverse.diagonal(), np.full(len(chosen), n - len(chosen) - 1))


def conditional_effects(locus: Marginal, chosen: Places) -> Given:
    """Of every variant in a regression with the `chosen`: `float64[v]`; NaN for those, and for one that is a sum of them."""
    own, between = locus.correlation, locus.r[:, chosen]
    weights = np.linalg.solve(locus.r[np.ix_(chosen, chosen)], np.column_stack([own[chosen], between.T]))
    left = 1 - (between * weights[:, 1:].T).sum(axis=1)
    left = np.where(left > _ALIKE, left, np.nan)
    left[chosen] = np.nan
    rest = own - between @ weights[:, 0]
    effect = rest / left
    n = np.minimum(locus.n, locus.n[chosen].min()) if len(chosen) else locus.n
    return _given(effect, 1 - own[chosen] @ weights[:, 0] - rest * effect, 1 / left, n - len(chosen) - 2)


def _given(effect: Floats, unexplained: Any, inflation: Any, freedom: Any) -> Given:
    """From what is unexplained of the trait's variance, and how the others inflate a variant's error; none where nothing is left."""
    sound = (np.broadcast_to(unexplained, effect.shape) > 0) & (freedom > 0)
    error = np.sqrt(np.where(sound, unexplained * inflation / np.where(sound, freedom, 1), np.nan))
    t = effect / error
    p_value, neg_log_10 = t_test_p_values(t, freedom)
    return Given(np.where(sound, effect, np.nan), error, t, p_value, neg_log_10, 1 / inflation)


def selected(locus: Marginal, max_p: float, collinearity: float, most: int = 1_000) -> Places:
    """Variants that act beside one another, in the order of the locus, chosen step by step.

    The variant of the least p beside those chosen joins them while that is at most `max_p`, unless they explain `collinearity` of its
    variance, or with it of that of one of them; then of all together those whose p is above `max_p` leave, the weakest first. What left
    does not come back.
    """
    chosen, gone = np.empty(0, np.int64), np.zeros(len(locus.t), np.bool_)
    least = -np.log10(max_p)
    for _ in range(most):
        found = conditional_effects(locus, chosen)
        open_to = ~gone & (found.tolerance > 1 - collinearity) & (found.neg_log_10 >= least)
        if not open_to.any():
            break
        best = int(np.argmax(np.where(open_to, found.neg_log_10, -np.inf)))
        joined = np.append(chosen, best)
        if joint_effects(locus, joined).tolerance.min() <= 1 - collinearity:
            gone[best] = True
            continue
        chosen = _kept(locus, joined, least)
        gone[np.setdiff1d(joined, chosen)] = True
    return np.sort(chosen)


def _kept(locus: Marginal, chosen: Places, least: float) -> Places:
    """Those that stay when the weakest leave one by one."""
    while len(chosen):
        strength = np.nan_to_num(joint_effects(locus, chosen).neg_log_10)
        weakest = int(strength.argmin())
        if strength[weakest] >= least:
            break
        chosen = np.delete(chosen, weakest)
    return chosen
