"""Tail probabilities of weighted sums of chi-squares, the null distribution of variance-component tests such as SKAT.

For Q = sum of w_j X_j, X_j independent chi-squares of one degree of freedom and w_j > 0, with K(z) = -1/2 sum of log(1 - 2 w_j z):

    P(Q > q) = 1 / (2 pi i) integral of exp(K(z) - z q) / z dz

over a path from below to above the real axis that crosses it between 0 and the first singularity, 1 / (2 max w); to the left of 0 the
integral is less by 1. Davies (1980, Applied Statistics 29:323) integrates the characteristic function along the imaginary axis, where it
oscillates and falls slowly for few weights. Here the path goes through the saddle point and bends to the right, along the steepest descent
near it (Rice 1980, SIAM J Sci Stat Comput 1:438): the integrand falls like a Gaussian, some thirty terms of the trapezoidal rule are right
to five digits of the probability itself, however small it is. Davies' published examples agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SADDLE_BELOW = 1e-5
"""Probabilities under this are Kuonen's, as in the programs that biobanks use."""


def mixture_tail(weights: Floats, value: Floats) -> Floats:
    """P(sum of weights x chi-square > value): `weights: float64[b, m]` (or `[m]`), at least one above 0, `value: float64[b]`.

    Right to a relative 1e-4 in either tail. 1 where the value is not above 0. Raises ValueError for a weight below 0 or a row without one.
    """
    rows, value = _checked(weights, value)
    found = np.ones(len(value))
    some = np.flatnonzero(value > 0)
    found[some] = _inverted(rows[some], value[some])
    return found


def saddle_point_logarithm(weights: Floats, value: Floats) -> Floats:
    """-log10 of the same by the saddle-point approximation of Kuonen (1999, Biometrika 86:929), its error some percent for a single weight.

    However small the probability is.
    """
    rows, value = _checked(weights, value)
    found = np.zeros(len(value))
    some = np.flatnonzero(value > 0)
    rows, value = rows[some], value[some]
    at = _saddle(rows, value, pole=False)
    shrunk = 1 - 2 * rows * at[:, None]
    height = -0.5 * np.log(shrunk).sum(axis=1)
    w = np.sign(at) * np.sqrt(np.maximum(2 * (at * value - height), 0))
    v = at * np.sqrt(2 * ((rows / shrunk) ** 2).sum(axis=1))
    near = abs(w) < 1e-4  # the mean, where the formula is 0 / 0
    w, v = np.where(near, 1, w), np.where(near, 1, v)
    from scipy.special import log_ndtr

    logarithm = log_ndtr(-(w + np.log(v / w) / w))
    logarithm[near] = np.log(_inverted(rows[near], value[near]))
    found[some] = 0.0 - logarithm / np.log(10)
    return found


def quadratic_form_logarithm(weights: Floats, value: Floats) -> Floats:
    """-log10 p of quadratic forms: by inversion, or Kuonen's approximation where p is under `SADDLE_BELOW`. Shapes as `mixture_tail`."""
    p = mixture_tail(weights, value)
    small = np.flatnonzero(p < SADDLE_BELOW)
    found: Floats = 0.0 - np.log10(np.maximum(p, SADDLE_BELOW))
    if small.size:
        rows, value = _checked(weights, value)
        found[small] = saddle_point_logarithm(rows[small], value[small])
    return found


def _checked(weights: Any, value: Any) -> tuple[Floats, Floats]:
    """Weights `[b, m]` and values `[b]` in units of each row's greatest weight."""
    value = np.atleast_1d(np.asarray(value, np.float64))
    rows = np.broadcast_to(np.asarray(weights, np.float64), (len(value), np.shape(weights)[-1]))
    top = rows.max(axis=1, initial=0)
    if (top <= 0).any() or (rows < 0).any():
        raise ValueError("The weights of a sum of chi-squares are 0 or more, and at least one is more.")
    return rows / top[:, None], value / top


def _saddle(rows: Floats, value: Floats, *, pole: bool) -> Floats:
    """Where K(z) - z q (less log |z| with `pole`) is least on the real axis."""
    from pipeline.kernels.compiled.quadratic_forms import saddle_points

    found = np.empty(len(value))
    saddle_points(np.ascontiguousarray(rows), value, pole, found)
    return found


def _inverted(rows: Floats, value: Floats) -> Floats:
    """The tail by the integral."""
    from pipeline.kernels.compiled.quadratic_forms import tails

    found = np.empty(len(value))
    tails(np.ascontiguousarray(rows), value, _saddle(rows, value, pole=True), found)
    return found
