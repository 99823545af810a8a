"""People, covariates and traits of a whole-genome regression, as both of its levels have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.errors import DataError
from pipeline.kernels.cox_descent import cox_offset
from pipeline.kernels.design import Design
from pipeline.kernels.genotypes import Array
from pipeline.kernels.logistic_design import LogisticDesign

FOLDS = 5


@dataclass(frozen=True)
class RidgeDesign:
    """People, covariates and traits of a whole-genome regression: of the n people who are used, in the order of the genotypes."""

    basis: Array
    """`float64[n, k]`: intercept and covariates, orthonormal; of times to an event covariates alone."""
    traits: Array
    """`float64[n, t]`: the traits, missing ones the mean, less what the basis explains, over their norm / sqrt(n - k)."""
    scales: Array
    """`float64[t]`: those norms / sqrt(n - k), in units of the traits."""
    edges: tuple[int, ...]
    """Where the folds of neighbouring people begin, and n."""
    cases: Array | None = None
    """Of binary traits, `float64[n, t]`: 1 for cases, 0 for controls; `traits` are then what the basis leaves of these."""
    offsets: Array | None = None
    """Of binary traits, `float64[n, t]`: everyone's log odds by intercept and covariates alone; of times to an event the log hazards."""
    times: Array | None = None
    """Of times to an event, `float64[n, t]`: the times, minus where censored; `traits` are then what the basis leaves of the times."""

    @property
    def freedom(self) -> int:
        """People less columns of the basis."""
        return int(self.basis.shape[0] - self.basis.shape[1])

    @property
    def folds(self) -> list[slice]:
        """The people of each fold."""
        return [slice(low, high) for low, high in zip(self.edges[:-1], self.edges[1:], strict=True)]

    @classmethod
    def build(
        cls, covariates: Array, traits: Array, names: tuple[Sequence[str], Sequence[str]] = ((), ()), folds: int = FOLDS
    ) -> RidgeDesign:
        """From covariates `float64[n, k - 1]` without NaN, which may be none, and traits `float64[n, t]`, NaN where missing.

        `names` of covariates and traits are for errors. Raises DataError as `Design.build` does, and for fewer than two people a fold.
        """
        if len(traits) < 2 * folds:
            raise DataError(f"{len(traits)} people have a trait and all covariates; {folds} folds need {2 * folds} at least.")
        known = ~np.isnan(traits)
        means = np.where(known, traits, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        design = Design.build(covariates, np.where(known | ~known.any(axis=0), traits, means), *names)
        n = design.used
        scales = np.linalg.norm(design.residuals, axis=0) / np.sqrt(n - design.columns)
        edges = (*(n // folds * fold for fold in range(folds)), n)
        return cls(np.column_stack([np.full(n, 1 / np.sqrt(n)), design.basis]), design.residuals / scales, scales, edges)

    @classmethod
    def build_binary(
        cls, covariates: Array, traits: Array, names: tuple[Sequence[str], Sequence[str]] = ((), ()), folds: int = FOLDS
    ) -> RidgeDesign:
        """The same of binary traits, 0 and 1 or 1 and 2 and none missing. Raises DataError as `LogisticDesign.build` does, too."""
        logistic = LogisticDesign.build(covariates, traits, *names)
        cases = (logistic.signs.T + 1) / 2
        return replace(cls.build(covariates, cases, names, folds), cases=cases, offsets=(logistic.coefficients @ logistic.basis).T)

    @classmethod
    def build_times(
        cls, covariates: Array, signed: Array, names: tuple[Sequence[str], Sequence[str]] = ((), ()), folds: int = FOLDS
    ) -> RidgeDesign:
        """The same of times to an event, minus where censored and none missing: whether it came is left to level 1.

        The basis has no intercept, so that neither times nor genotypes are about their means: regenie 4.1 has it so, and its predictions
        are to be met. Raises DataError as `Design.build` does, and for a trait without events.
        """
        design = cls.build(covariates, np.abs(signed), names, folds)
        for name, column in zip(names[1] or map(str, range(signed.shape[1])), signed.T, strict=True):
            if np.signbit(column).all():
                raise DataError(f"Trait {name!r}: none of {len(column)} people has the event. Leave it out.")
        centred = covariates - covariates.mean(axis=0)
        centred = centred / np.sqrt((centred**2).mean(axis=0))
        sizes, axes = np.linalg.eigh(centred.T @ centred)
        basis = centred @ axes / np.sqrt(sizes)
        left = np.abs(signed) - basis @ (basis.T @ np.abs(signed))
        scales = np.linalg.norm(left, axis=0) / np.sqrt(len(signed) - basis.shape[1])
        offsets = np.column_stack([cox_offset(basis, column) for column in signed.T])
        return replace(design, basis=basis, traits=left / scales, scales=scales, offsets=offsets, times=signed)

    def beside(self, array: Array) -> RidgeDesign:
        """This design where `array` lives: in CuPy arrays on its GPU, or as it is."""
        xp = array_module(array)
        return self if xp is np else replace(self, basis=xp.asarray(self.basis), traits=xp.asarray(self.traits))
