"""A binary trait's model without a variant: what every variant's regression starts from, and products of its covariates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations_with_replacement, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.genotypes import Array

MOST_STEPS = 25
CONVERGED = 1e-13
"""Newton's method ends where a step promises less than half of this much log likelihood: 3e-7 of a standard error."""

_HELD_PAIRS, _PAIRS_AT_A_TIME = 64 << 20, 1 << 20  # bytes
_NEAR, _FAR = 1e-9, 10.0  # gains of a step of the penalized start


@dataclass(frozen=True)
class Start:
    """The model of a trait without a variant, n people and k covariates, from which one step leads to that with a variant."""

    coefficients: Array
    """`float64[k]`."""
    whitening: Array
    """`float64[k, k]`: whitening @ basis is orthonormal under the weights."""
    directions: Array
    """`float64[k + 1, n]`: the whitened basis times the weights, and residuals."""
    weights: Array
    """`float64[n]`."""


@dataclass(frozen=True)
class NullModel:
    """A trait's logistic regression on intercept and covariates, of n people; what every variant's own regression starts from."""

    basis: Array
    """`float64[k, n]`: intercept and covariates, orthonormal rows."""
    signs: Array
    """`float64[n]`: 1 for cases, -1 for controls."""
    coefficients: Array
    """`float64[k]`."""
    offset: Array | None = None
    """`float64[n]`: what is added to everybody's log odds; None is nothing."""

    @property
    def xp(self) -> Any:
        """The module of its arrays, numpy or cupy."""
        return array_module(self.basis)

    @cached_property
    def signed(self) -> Array:
        """The basis times the signs, `float64[k, n]`: a person's log odds of what he is are `coefficients @ signed + shift`."""
        signed = self.basis * self.signs
        return np.ascontiguousarray(signed) if self.xp is np else signed  # a copy more on a GPU, whose kernels take any order

    @cached_property
    def shift(self) -> Array:
        """The offset times the signs, `float64[n]`."""
        return self.xp.zeros(len(self.signs)) if self.offset is None else self.offset * self.signs

    @cached_property
    def missed(self) -> Array:
        """Probability of what a person is not, `float64[n]`."""
        xp = self.xp
        margins = self.coefficients @ self.signed
        if self.offset is not None:
            margins += self.shift
        return 1 / (1 + xp.exp(xp.minimum(margins, 700)))

    @property
    def residuals(self) -> Array:
        """1 or 0 less the fitted probability, `float64[n]`."""
        return self.signs * self.missed

    @property
    def weights(self) -> Array:
        """Variance of the trait, `float64[n]`."""
        return self.missed * (1 - self.missed)

    @cached_property
    def whitening(self) -> Array:
        """`float64[k, k]`, lower triangular: `whitening @ basis` is orthonormal under the weights."""
        # A few numbers, and a dozen launches on a GPU: on the host.
        gram = to_host((self.basis * self.weights) @ self.basis.T)
        return self.xp.asarray(np.linalg.inv(np.linalg.cholesky(gram)))

    @cached_property
    def start(self) -> Start:
        """Of regressions by maximum likelihood."""
        whitened = self.whitening @ self.basis
        directions = self.xp.concatenate([whitened * self.weights, self.residuals[None, :]])
        return Start(self.coefficients, self.whitening, directions, self.weights)

    @cached_property
    def penalized_start(self) -> Start:
        """Of regressions by Firth's: near the maximum without a variant; where that is not reached, that of maximum likelihood."""
        here, xp = self, self.xp
        for _ in range(MOST_STEPS):
            whitened = here.whitening @ self.basis
            residuals = here.residuals + here.weights * (whitened**2).sum(axis=0) * (here.missed - 0.5) * self.signs
            step = whitened @ residuals
            gain = float(step @ step)
            if gain < _NEAR:
                directions = xp.concatenate([whitened * here.weights, residuals[None, :]])
                return Start(here.coefficients, here.whitening, directions, here.weights)
            if not gain < _FAR:
                break
            here = replace(self, coefficients=here.coefficients + step @ here.whitening)
        return self.start

    @cached_property
    def _held(self) -> Array:
        return _pair_products(self.basis)

    @property
    def holds_pairs(self) -> bool:
        """The products of `pair_blocks` come as one block."""
        rows, people = self.basis.shape
        return bool(people * 4 * rows * (rows + 1) <= _HELD_PAIRS)

    def pair_blocks(self) -> Iterator[tuple[slice, Array]]:
        """Blocks of people, and the products of each two rows i <= j of their basis, `float64[k (k + 1) / 2, people]`.

        The pairs are in the order of NumPy's `triu_indices`. Those of all people are held where they are small.
        """
        rows, people = self.basis.shape
        per_person = 4 * rows * (rows + 1)
        if self.holds_pairs:
            yield slice(0, people), self._held
            return
        size = max(1, _PAIRS_AT_A_TIME // per_person)
        for start in range(0, people, size):
            block = slice(start, min(start + size, people))
            yield block, _pair_products(self.basis[:, block])

    @cached_property
    def _held_triples(self) -> Array:
        return _triple_products(self.basis)

    def triple_blocks(self) -> Iterator[tuple[slice, Array]]:
        """Blocks of people, and the products of each three rows i <= j <= l of their basis, `float64[k (k + 1) (k + 2) / 6, people]`.

        The triples are in the order of `combinations_with_replacement`. Those of all people are held where they are small.
        """
        rows, people = self.basis.shape
        per_person = 8 * max(1, rows * (rows + 1) * (rows + 2) // 6)
        if people * per_person <= _HELD_PAIRS:
            yield slice(0, people), self._held_triples
            return
        size = max(1, _PAIRS_AT_A_TIME // per_person)
        for start in range(0, people, size):
            block = slice(start, min(start + size, people))
            yield block, _triple_products(self.basis[:, block])


def _triple_products(basis: Array) -> Array:
    xp = array_module(basis)
    first, second, third = xp.asarray(np.array([*combinations_with_replacement(range(len(basis)), 3)]).T)
    return basis[first] * basis[second] * basis[third]


@cache
def triple_places(columns: int) -> NDArray[np.int64]:
    """Where the sum of columns a, b and c of k basis rows and a genotype is, `int64[k + 1, k + 1, k + 1]`.

    The sums are in the order of `triple_blocks`, then those with the genotype once (`pair_blocks`), twice, and three times.
    """
    places = np.empty((columns + 1,) * 3, np.int64)
    found = 0
    for genotypes in range(4):
        for basis in combinations_with_replacement(range(columns), 3 - genotypes):
            for order in permutations((*basis, *(columns,) * genotypes)):
                places[order] = found
            found += 1
    return places


def _pair_products(basis: Array) -> Array:
    first, second = array_module(basis).triu_indices(len(basis))
    return basis[first] * basis[second]
