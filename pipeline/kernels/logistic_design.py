"""What a logistic genome scan needs of its samples, worked out once: orthonormal covariates, and each trait's model without a variant."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations_with_replacement, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module
from pipeline.errors import DataError
from pipeline.kernels.design import Design
from pipeline.kernels.genotypes import MISSING, Array, unpack

CODINGS = ((0.0, 1.0), (1.0, 2.0))
"""How a binary trait may be written: controls, then cases."""

MOST_STEPS = 25
CONVERGED = 1e-13
"""Newton's method ends where a step promises less than half of this much log likelihood: 3e-7 of a standard error."""

_LARGEST_STEP = 4.0
_HELD_PAIRS, _PAIRS_AT_A_TIME = 64 << 20, 1 << 20  # bytes


@dataclass(frozen=True)
class NullModel:
    """A trait's logistic regression on intercept and covariates, of n people; what every variant's own regression starts from."""

    basis: Array
    """`float64[k, n]`: intercept and covariates, orthonormal rows."""
    signs: Array
    """`float64[n]`: 1 for cases, -1 for controls."""
    coefficients: Array
    """`float64[k]`."""

    @property
    def xp(self) -> Any:
        """The module of its arrays, numpy or cupy."""
        return array_module(self.basis)

    @cached_property
    def signed(self) -> Array:
        """The basis times the signs, `float64[k, n]`: a person's log odds of what he is are `coefficients @ signed`."""
        return self.basis * self.signs

    @cached_property
    def missed(self) -> Array:
        """Probability of what a person is not, `float64[n]`."""
        xp = self.xp
        return 1 / (1 + xp.exp(xp.minimum(self.coefficients @ self.signed, 700)))

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
        xp = self.xp
        return xp.linalg.inv(xp.linalg.cholesky((self.basis * self.weights) @ self.basis.T))

    @cached_property
    def _held(self) -> Array:
        return _pair_products(self.basis)

    def pair_blocks(self) -> Iterator[tuple[slice, Array]]:
        """Blocks of people, and the products of each two rows i <= j of their basis, `float64[k (k + 1) / 2, people]`.

        The pairs are in the order of NumPy's `triu_indices`. Those of all people are held where they are small.
        """
        rows, people = self.basis.shape
        per_person = 4 * rows * (rows + 1)
        if people * per_person <= _HELD_PAIRS:
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


@dataclass(frozen=True)
class LogisticDesign:
    """Samples, covariates and binary traits of a scan. All traits share the `used` samples that have every trait and every covariate."""

    n_samples: int
    used: int
    """Samples with all values."""
    mask: Array
    """`uint8[ceil(n_samples / 4)]`: both bits of the used samples' calls are set."""
    people: Array
    """`int64[used]`: places of the used samples; other arrays have their order."""
    basis: Array
    """`float64[k, used]`: intercept and covariates, orthonormal rows."""
    signs: Array
    """`float64[t, used]`: 1 for cases, -1 for controls."""
    coefficients: Array
    """`float64[t, k]`: of the traits' null models."""
    trait_names: tuple[str, ...]

    @property
    def xp(self) -> Any:
        """The module of its arrays, numpy or cupy."""
        return array_module(self.basis)

    @property
    def columns(self) -> int:
        """Columns k of covariates and intercept."""
        return len(self.basis)

    @classmethod
    def build(
        cls, covariates: Array, traits: Array, covariate_names: Sequence[str] = (), trait_names: Sequence[str] = ()
    ) -> LogisticDesign:
        """From covariates `float64[n, k - 1]` (no intercept) and traits `float64[n, t]` of 0 and 1 or of 1 and 2, NaN where unknown.

        Raises DataError where a trait has other values or only one of them, where the covariates separate cases from controls, and for
        all that `Design.build` refuses.
        """
        xp = array_module(covariates, traits)
        names = tuple(trait_names) or tuple(f"trait {number}" for number in range(1, traits.shape[1] + 1))
        outcomes = xp.stack([binary_trait(name, traits[:, place]) for place, name in enumerate(names)], axis=1)
        design = Design.build(covariates, outcomes, covariate_names, names)
        people = xp.nonzero(unpack(design.mask[None, :], design.n_samples)[0] == MISSING)[0]
        basis = xp.concatenate([xp.full((1, design.used), design.used**-0.5), design.basis[people].T])
        signs = xp.ascontiguousarray(2 * outcomes[people].T - 1)
        coefficients = xp.stack([_null_coefficients(name, basis, row) for name, row in zip(names, signs, strict=True)])
        return cls(design.n_samples, design.used, design.mask, people, basis, signs, coefficients, names)

    def beside(self, array: Array) -> LogisticDesign:
        """This design where `array` lives: in CuPy arrays on its GPU, or as it is."""
        xp = array_module(array)
        places = ("mask", "people", "basis", "signs", "coefficients")
        return replace(self, **{name: xp.asarray(getattr(self, name)) for name in places})

    def null(self, trait: int) -> NullModel:
        """The null model of a trait by its place."""
        return NullModel(self.basis, self.signs[trait], self.coefficients[trait])


def binary_trait(name: str, values: Array) -> Array:
    """A trait as 0 (control), 1 (case) and NaN, `float64[n]`, from 0 and 1 or from 1 and 2 (as PLINK writes it).

    Raises DataError for any other value, where three are given, and where there is only one.
    """
    xp = array_module(values)
    known = xp.unique(values[~xp.isnan(values)]).tolist()
    if len(known) == 1:
        raise DataError(f"Trait {name!r} is constant: {known[0]:g} wherever it is known. Leave it out.")
    for control, case in CODINGS:
        if {*known} <= {control, case}:
            return values - control
    shown = ", ".join(f"{value:g}" for value in known[:5]) + (", ..." if len(known) > 5 else "")
    raise DataError(
        f"Trait {name!r} has {len(known)} values ({shown}), and a binary trait is 0 (control) and 1 (case), or 1 and 2. "
        "Make codes such as 0 or -9 for unknown null, or recode the column with derive."
    )


def _null_coefficients(name: str, basis: Array, signs: Array) -> Array:
    """Maximum likelihood of a trait on the basis, `float64[k]`, by Newton's method."""
    xp = array_module(basis)
    cases, controls = int((signs > 0).sum()), int((signs < 0).sum())
    signed = basis * signs
    coefficients = xp.zeros(len(basis))
    coefficients[0] = math.log(cases / controls) * basis.shape[1] ** 0.5
    for _ in range(MOST_STEPS):
        missed = 1 / (1 + xp.exp(xp.minimum(coefficients @ signed, 700)))
        gradient = signed @ missed
        gram = (basis * (missed * (1 - missed))) @ basis.T
        if not bool(xp.linalg.eigvalsh(gram)[0] > 0):
            break
        step = xp.linalg.solve(gram, gradient)
        coefficients = coefficients + step * min(1.0, _LARGEST_STEP / max(float(abs(step @ signed).max()), 1e-300))
        if float(gradient @ step) < CONVERGED / 1000:
            return coefficients
    raise DataError(
        f"Trait {name!r}: the covariates tell (nearly) all of its {cases} cases from its {controls} controls, so their effects have no "
        "finite estimate. Use fewer covariates."
    )
