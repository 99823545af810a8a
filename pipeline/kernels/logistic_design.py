"""What a logistic genome scan needs of its samples, worked out once: orthonormal covariates, and each trait's model without a variant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.backend.arrays import array_module, checked_linalg
from pipeline.errors import DataError
from pipeline.kernels.design import Design
from pipeline.kernels.genotypes import MISSING, Array, unpack
from pipeline.kernels.logistic_null import CONVERGED, MOST_STEPS, NullModel

CODINGS = ((0.0, 1.0), (1.0, 2.0))
"""How a binary trait may be written: controls, then cases."""

_LARGEST_STEP = 4.0
_TOLD, _CREEPING, _SEVERAL = 1e-8, 0.1, 0.1
"""Gains of steps that no longer shrink as they do near a maximum, while people are still missed, are those of log odds without end."""


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

        Raises DataError where a trait has other values or only one of them, where the covariates tell all cases from all controls, and
        for all that `Design.build` refuses.
        """
        xp = array_module(covariates, traits)
        names = tuple(trait_names) or tuple(f"trait {number}" for number in range(1, traits.shape[1] + 1))
        outcomes = xp.stack([binary_trait(name, traits[:, place]) for place, name in enumerate(names)], axis=1)
        design = Design.build(covariates, outcomes, covariate_names, names)
        people = xp.nonzero(unpack(design.mask[None, :], design.n_samples)[0] == MISSING)[0]
        basis = xp.concatenate([xp.full((1, design.used), design.used**-0.5), design.basis[people].T])
        signs = xp.ascontiguousarray(2 * outcomes[people].T - 1)
        coefficients = xp.stack([null_coefficients(name, basis, row) for name, row in zip(names, signs, strict=True)])
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


def null_coefficients(name: str, basis: Array, signs: Array, offset: Array | float = 0.0) -> Array:
    """Maximum likelihood of a trait on the basis `float64[k, n]`, whose first row is constant, `float64[k]`, by Newton's method.

    `signs: float64[n]` are 1 for cases and -1 for controls, `offset: float64[n]` is added to everybody's log odds. Some people, but not
    all, may be told by the covariates (a site that has cases alone, say): their log odds, which have no finite estimate, go so far that
    they hardly count. Raises DataError where the covariates tell all cases from all controls.
    """
    xp = array_module(basis)
    cases, controls = int((signs > 0).sum()), int((signs < 0).sum())
    signed, shift = basis * signs, offset * signs
    coefficients = xp.zeros(len(basis))
    coefficients[0], before = math.log(cases / controls) * basis.shape[1] ** 0.5, math.inf
    for _ in range(2 * MOST_STEPS):
        missed = 1 / (1 + xp.exp(xp.minimum(coefficients @ signed + shift, 700)))
        gradient = signed @ missed
        gram = (basis * (missed * (1 - missed))) @ basis.T
        with checked_linalg(xp):
            if not bool(xp.linalg.eigvalsh(gram)[0] > 0):
                break
            step = xp.linalg.solve(gram, gradient)
        coefficients = coefficients + step * min(1.0, _LARGEST_STEP / max(float(abs(step @ signed).max()), 1e-300))
        gain = float(gradient @ step)
        if gain < _TOLD and float(missed.sum()) < _SEVERAL:
            break
        if gain < CONVERGED / 1000 or _CREEPING * before < gain < _TOLD:
            return coefficients
        before = gain
    raise DataError(
        f"Trait {name!r}: the covariates tell (nearly) all of its {cases} cases from its {controls} controls, so their effects have no "
        "finite estimate. Use fewer covariates."
    )
