"""What scans of traits that different people lack share: people, covariates, and who has which trait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.kernels.design import people_of_groups
from pipeline.kernels.genotypes import Array
from pipeline.kernels.ridge_design import RidgeDesign


@dataclass(frozen=True)
class TraitsDesign:
    """People, covariates and traits of a scan. Arrays keep the order of all `n` people of the genotypes."""

    mask: Array
    """`uint8[ceil(n / 4)]`: both bits of the calls of those used, who have all covariates and a trait, are set."""
    basis: Array
    """`float64[n, k]`: intercept and covariates, orthonormal among those used, 0 for others."""
    known: Array
    """`bool[n, t]`: who has the trait."""
    trait_names: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    """Traits that the same people lack."""
    masks: Array
    """`uint8[g, ceil(n / 4)]`, a row a group: both bits of the calls of those who have these traits are set."""

    @property
    def people(self) -> Array:
        """People with each trait, `int64[t]`."""
        return self.known.sum(axis=0)


def who_has(covariates: Array, traits: Array, names: Sequence[str]) -> tuple[Array, tuple[str, ...]]:
    """Who has each trait and all covariates, `bool[n, t]` of `float64[n, t]` with NaN where missing, and the traits' names, for errors."""
    known = ~np.isnan(traits) & ~np.isnan(covariates).any(axis=1)[:, None]
    return known, tuple(names) or tuple(f"trait {number}" for number in range(1, traits.shape[1] + 1))


def shared_fields(covariates: Array, values: Array, known: Array, names: tuple[Sequence[str], tuple[str, ...]]) -> dict[str, Any]:
    """The fields of a `TraitsDesign`, by name; `values: float64[n, t]` are the traits, NaN where missing.

    Raises DataError as `RidgeDesign.build` does.
    """
    used = known.any(axis=1)
    ridge = RidgeDesign.build(covariates[used], np.where(known[used], values[used], np.nan), names, folds=1)
    basis = np.zeros((len(values), ridge.basis.shape[1]))
    basis[used] = ridge.basis
    groups, masks = people_of_groups(known, used)
    return {"mask": masks[0], "basis": basis, "known": known, "trait_names": names[1], "groups": groups, "masks": masks[1:]}


@dataclass(frozen=True)
class OfTraits:
    """Base of models of a chromosome's scan, whose people and traits are those of a design of traits."""

    design: Any

    @property
    def known(self) -> Array:
        """Who has each trait, `bool[n, t]`."""
        return self.design.known

    @property
    def trait_names(self) -> tuple[str, ...]:
        """The traits, in the order of the results."""
        names: tuple[str, ...] = self.design.trait_names
        return names

    @property
    def used(self) -> int:
        """People with all covariates and a trait."""
        return int(self.known.any(axis=1).sum())
