"""The columns that a linear model has coefficients for: a number each, and one for each code of a category but the most frequent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.stages.models._linear.summary import Summary

Array = Any

IN_CACHE, ON_DEVICE = 1 << 17, 1 << 24  # numbers of a block: what a core has beside it, and what a GPU takes at once


@dataclass(frozen=True)
class Category:
    """A feature of codes: its place among the features, the base, and every other code that training rows have."""

    place: int
    base: int
    codes: tuple[int, ...]


@dataclass(frozen=True)
class Design:
    """`c` columns of features by their `names`, less their mean and in units of their standard deviation over the training rows.

    `places int[c]` are the features', `codes float[c]` the code that a column is 1 for, NaN for a number; `means`, `scales` `float[c]`.
    `flat` are places of features that have no column: they do not vary.
    """

    names: tuple[str, ...]
    places: np.ndarray[Any, Any]
    codes: np.ndarray[Any, Any]
    means: np.ndarray[Any, Any]
    scales: np.ndarray[Any, Any]
    categories: tuple[Category, ...]
    flat: tuple[int, ...]

    @classmethod
    def of(cls, names: Sequence[str], categorical: Sequence[str], summary: Summary) -> Design:
        """Of features and what is known of them."""
        moments, rows = summary.moments, summary.total or 1.0
        found: list[tuple[int, float, float, float]] = []
        categories, flat = [], []
        for place, name in enumerate(names):
            if name in categorical:
                category = _category(place, summary.trained[name])
                shares = [(code, summary.trained[name][code] / rows) for code in category.codes]
                found += [(place, float(code), share, float(np.sqrt(share * (1 - share)))) for code, share in shares]
                categories.append(category)
            elif moments.least[place] < moments.greatest[place] and moments.squares[place] > 0:
                found.append((place, np.nan, moments.mean[place], float(np.sqrt(moments.squares[place] / rows))))
            if not found or found[-1][0] != place:
                flat.append(place)
        columns = np.array(found, float).reshape(-1, 4)
        places, codes, means, scales = columns.T.copy()
        return cls(tuple(names), places.astype(np.int64), codes, means, scales, tuple(categories), tuple(flat))

    @property
    def columns(self) -> int:
        """How many there are."""
        return len(self.places)

    def kept(self, at: Sequence[int] | np.ndarray[Any, Any]) -> Design:
        """Some of the columns."""
        return replace(self, places=self.places[at], codes=self.codes[at], means=self.means[at], scales=self.scales[at])

    def named(self, at: int) -> str:
        """A column in words."""
        code = self.codes[at]
        return repr(self.names[self.places[at]]) + ("" if np.isnan(code) else f" (code {code:.0f})")

    def blocks(self, features: Array, rows: slice) -> Iterator[tuple[slice, Array]]:
        """Blocks `[n, c]` of the columns, of these rows of `features [rows, features]`, NaN where missing; one at least."""
        return ((at, self._block(features[at])) for at in self.steps(features, rows))

    def steps(self, features: Array, rows: slice) -> Iterator[slice]:
        """The rows of each block."""
        size = max(256, (IN_CACHE if array_module(features) is np else ON_DEVICE) // max(self.columns, 1))
        for start in range(rows.start, max(rows.stop, rows.start + 1), size):
            yield slice(start, min(start + size, rows.stop))

    def _block(self, features: Array) -> Array:
        """A missing number counts as the mean, a missing code as the base."""
        xp = array_module(features)
        codes, means, scales = (xp.asarray(values) for values in (self.codes, self.means, self.scales))
        values = features[:, xp.asarray(self.places)]
        values = xp.where(xp.isnan(codes), values, values == codes)
        return xp.where(xp.isnan(values), 0.0, (values - means) / scales)


def _category(place: int, counts: Mapping[int, float]) -> Category:
    """The most frequent code is the base, the least of several such: weights are compared as far as rounding leaves them the same."""
    if not counts:
        return Category(place, 0, ())
    base = min(counts, key=lambda code: (-float(f"{counts[code]:.12g}"), code))
    return Category(place, base, tuple(sorted(set(counts) - {base})))
