"""How far two distributions lie apart: of counts over the same bins, and of two samples of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def population_stability_index(expected: Any, found: Any) -> float:
    """Sum of (p - q) ln(p / q) over the bins, q of the expected counts and p of those found; 0 where they are alike.

    Every bin has half a count more, for an empty one would make it infinite. NaN where either side has no counts.
    """
    q, p = (_shares(np.asarray(counts, np.float64) + 0.5 * (np.sum(counts) > 0)) for counts in (expected, found))
    return float(np.sum((p - q) * np.log(p / q)))


def jensen_shannon(expected: Any, found: Any) -> float:
    """Jensen and Shannon's distance of two sets of counts over the same bins, from 0 (alike) to 1 (nothing in common).

    The root of the divergence to the base 2 (Lin 1991, IEEE Trans Inf Theory 37:145-151). NaN where either side has no counts.
    """
    q, p = _shares(expected), _shares(found)
    middle = (p + q) / 2
    return float(np.sqrt(max((_relative_entropy(p, middle) + _relative_entropy(q, middle)) / 2, 0.0)))


def kolmogorov_smirnov(expected: tuple[Floats, Any], found: tuple[Floats, Any]) -> float:
    """The largest difference of two cumulative distributions, of distinct values in order with their counts; NaN where one is empty."""
    values = np.union1d(expected[0], found[0])
    if not (len(expected[0]) and len(found[0])):
        return float("nan")
    lower, upper = (_cumulative(*side, values) for side in (expected, found))
    return float(abs(lower - upper).max())


def quantile_edges(values: Floats, counts: Any, bins: int) -> Floats:
    """Upper ends of at most `bins` bins of about equal counts, the last one open: distinct values in order, `float64[b - 1]`.

    Where there are no more values than bins, every value has a bin of its own.
    """
    if len(values) <= bins:
        return values[:-1]
    ends = np.cumsum(counts)
    places = np.searchsorted(ends, ends[-1] * np.arange(1, bins) / bins)
    edges: Floats = np.unique(values[places])
    inner: Floats = edges[edges < values[-1]]
    return inner


def binned(values: Floats, counts: Any, edges: Floats) -> Floats:
    """Counts in the bins that `edges` are the upper ends of, `float64[len(edges) + 1]`."""
    return np.asarray(np.bincount(np.searchsorted(edges, values), weights=counts, minlength=len(edges) + 1), np.float64)


def _shares(counts: Any) -> Floats:
    whole = np.asarray(counts, np.float64)
    shares: Floats = whole / whole.sum() if whole.sum() else np.full(whole.shape, np.nan)
    return shares


def _relative_entropy(p: Floats, q: Floats) -> float:
    some = ~(p == 0)
    return float(np.sum(p[some] * np.log2(p[some] / q[some])))


def _cumulative(own: Floats, counts: Any, values: Floats) -> Floats:
    ends = np.concatenate([[0.0], np.cumsum(np.asarray(counts, np.float64))])
    return np.asarray(ends[np.searchsorted(own, values, side="right")] / ends[-1])
