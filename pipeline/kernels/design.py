"""What a linear genome scan needs of its samples, worked out once: covariates made orthonormal, traits made residuals of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module, checked_linalg
from pipeline.errors import DataError
from pipeline.kernels.genotypes import MISSING, Array, pack, unpack

_CONSTANT = 1e-10
_COLLINEAR = 1e-8


@dataclass(frozen=True)
class Design:
    """Samples, covariates and traits of a scan. All traits share the samples that have every trait and every covariate.

    Arrays keep the order of all `n_samples` of the genotypes: the rows of samples left out are 0, and so are their bits in `mask`.
    """

    n_samples: int
    used: int
    """Samples with all values."""
    mask: Array
    """`uint8[ceil(n_samples / 4)]`: both bits of the used samples' calls are set."""
    basis: Array
    """`float64[n_samples, k - 1]`: the covariates, orthonormal, and orthogonal to the intercept."""
    residuals: Array
    """`float64[n_samples, t]`: the traits less what intercept and covariates explain."""
    trait_names: tuple[str, ...]

    @property
    def xp(self) -> Any:
        """The module of its arrays, numpy or cupy."""
        return array_module(self.basis)

    @property
    def columns(self) -> int:
        """Columns k of covariates and intercept."""
        return int(self.basis.shape[1]) + 1

    @classmethod
    def build(cls, covariates: Array, traits: Array, covariate_names: Sequence[str] = (), trait_names: Sequence[str] = ()) -> Design:
        """From covariates `float64[n, k - 1]` (no intercept; k - 1 may be 0) and traits `float64[n, t]`, NaN where unknown.

        Names are for errors. Raises DataError, which names the column, for a trait or covariate that is constant, infinite or all missing,
        for a covariate that is a linear combination of others, for a trait that the covariates explain wholly, and for fewer samples than
        columns + 2.
        """
        xp = array_module(covariates, traits)
        columns = _names("covariate", covariate_names, covariates), _names("trait", trait_names, traits)
        for kind, names, values in zip(("Covariate", "Trait"), columns, (covariates, traits), strict=True):
            _check_values(kind, names, values)
        complete = ~(xp.isnan(covariates).any(axis=1) | xp.isnan(traits).any(axis=1))
        used, needed = int(complete.sum()), covariates.shape[1] + 3
        if used < needed:
            raise DataError(
                f"Only {used} of {len(traits)} samples have all of {', '.join(columns[1] + columns[0])}; {needed} are needed for "
                f"{needed - 2} columns of covariates and intercept. Use fewer covariates, or fill in their missing values."
            )
        basis = _orthonormal(columns[0], covariates[complete])
        residuals = _residuals(columns[1], traits[complete], basis)
        spread = [xp.zeros((len(traits), values.shape[1])) for values in (basis, residuals)]
        for full, values in zip(spread, (basis, residuals), strict=True):
            full[complete] = values
        mask = pack((complete * MISSING).astype(xp.uint8)[None, :])[0]
        return cls(len(traits), used, mask, spread[0], spread[1], columns[1])

    def values(self) -> Array:
        """Intercept (orthonormal), basis and residuals, `float64[n_samples + 1, k + t]`: a row of zeros ends short lists of samples."""
        xp = self.xp
        used = unpack(self.mask[None, :], self.n_samples)[0] == MISSING
        values = xp.concatenate([used[:, None] / math.sqrt(self.used), self.basis, self.residuals], axis=1)
        return xp.concatenate([values, xp.zeros((1, values.shape[1]))])

    def beside(self, array: Array) -> Design:
        """This design where `array` lives: in CuPy arrays on its GPU, or as it is."""
        xp = array_module(array)
        return replace(self, mask=xp.asarray(self.mask), basis=xp.asarray(self.basis), residuals=xp.asarray(self.residuals))


def missingness_groups(traits: Array) -> list[tuple[int, ...]]:
    """Columns of `float64[n, t]` that are NaN for the same samples, so that each group fits one Design; in order of their first columns."""
    xp = array_module(traits)
    groups: dict[bytes, list[int]] = {}
    for column in range(traits.shape[1]):
        groups.setdefault(xp.packbits(xp.isnan(traits[:, column])).tobytes(), []).append(column)
    return [tuple(group) for group in groups.values()]


def people_of_groups(known: Array, used: Array) -> tuple[tuple[tuple[int, ...], ...], Array]:
    """Columns of `known: bool[n, t]` that the same samples have, and masks `uint8[g + 1, ceil(n / 4)]`: of `used`, then of each group."""
    groups = tuple(missingness_groups(np.where(known, 0.0, np.nan)))
    return groups, pack((np.stack([used, *(known[:, group[0]] for group in groups)]) * MISSING).astype(np.uint8))


def _names(kind: str, names: Sequence[str], values: Array) -> tuple[str, ...]:
    found = tuple(names) or tuple(f"{kind} {number}" for number in range(1, values.shape[1] + 1))
    if len(found) != values.shape[1]:
        raise ValueError(f"{len(found)} names for {values.shape[1]} columns ({kind}).")
    return found


def _check_values(kind: str, names: tuple[str, ...], values: Array) -> None:
    xp = array_module(values)
    for name, column in zip(names, values.T, strict=True):
        if bool(xp.isnan(column).all()):
            raise DataError(
                f"{kind} {name!r} is missing for all {len(column)} samples. Leave it out, or look at how the samples were joined."
            )
        if bool(xp.isinf(column).any()):
            raise DataError(
                f"{kind} {name!r} is infinite for {int(xp.isinf(column).sum())} samples. Make those values missing, or correct them."
            )


def _centred(kind: str, names: tuple[str, ...], values: Array) -> Array:
    """Columns less their means; refuses a constant one."""
    xp = array_module(values)
    centred = values - values.mean(axis=0)
    centred -= centred.mean(axis=0)
    for name, column, deviation in zip(names, values.T, centred.T, strict=True):
        if float(abs(deviation).max()) <= _CONSTANT * float(abs(column).max()):
            raise DataError(
                f"{kind} {name!r} is constant: {float(column[0]):g} for all {len(column)} samples with all values. Leave it out."
            )
    return xp.asarray(centred)


def _orthonormal(names: tuple[str, ...], covariates: Array) -> Array:
    """Orthonormal columns that span the centred covariates."""
    xp = array_module(covariates)
    centred = _centred("Covariate", names, covariates)
    if not names:
        return centred
    with checked_linalg(xp):
        basis, upper = xp.linalg.qr(centred / xp.linalg.norm(centred, axis=0))
    for place, own in enumerate(abs(xp.diagonal(upper)).tolist()):
        if not own >= _COLLINEAR:  # nor where it is no number
            raise DataError(
                f"Covariate {names[place]!r} is a linear combination of the intercept and {', '.join(names[:place])} "
                f"among the {len(basis)} samples. Leave one of them out."
            )
    return basis


def _residuals(names: tuple[str, ...], traits: Array, basis: Array) -> Array:
    """Traits less their means and their projections on the basis."""
    xp = array_module(traits)
    centred = _centred("Trait", names, traits)
    residuals = centred - basis @ (basis.T @ centred)
    # Once more: the first pass leaves rounding of the size of the trait, not of the residual.
    residuals -= basis @ (basis.T @ residuals)
    shares = (xp.linalg.norm(residuals, axis=0) / xp.linalg.norm(centred, axis=0)).tolist()
    for name, share in zip(names, shares, strict=True):
        if share < _COLLINEAR:
            raise DataError(
                f"Trait {name!r} is a linear combination of the covariates: nothing is left to explain. Leave that covariate out."
            )
    return residuals


@dataclass(frozen=True)
class OfDesign:
    """Base of models whose people and traits are those of a design."""

    design: Any

    @property
    def used(self) -> int:
        """People used."""
        return int(self.design.used)

    @property
    def mask(self) -> Array:
        """Both bits of the used people's calls are set."""
        return self.design.mask

    @property
    def trait_names(self) -> tuple[str, ...]:
        """The traits, in the order of the results."""
        names: tuple[str, ...] = self.design.trait_names
        return names
