"""People, covariates and binary traits of a scan with predictions of a whole-genome regression, and the traits' models of a chromosome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.errors import DataError
from pipeline.kernels.genotypes import Array
from pipeline.kernels.logistic_design import binary_trait, null_coefficients
from pipeline.kernels.logistic_null import NullModel
from pipeline.kernels.traits_design import OfTraits, TraitsDesign, shared_fields, who_has

_STEPS, _STILL = 200, 1e-10
_HALVINGS, _ROUNDING = 30, 1e-13


@dataclass(frozen=True)
class PredictedBinaryDesign(TraitsDesign):
    """People, covariates and binary traits of a scan with predictions. Arrays keep the order of all `n` people of the genotypes."""

    cases: Array
    """`float64[n, t]`: 1 for cases, 0 for controls and for who lacks the trait."""
    firth: bool
    """Whether models have Firth's fits, too."""

    @classmethod
    def build(
        cls, covariates: Array, traits: Array, names: tuple[Sequence[str], Sequence[str]] = ((), ()), *, firth: bool = True
    ) -> PredictedBinaryDesign:
        """From covariates `float64[n, k - 1]` and traits `float64[n, t]` of 0 and 1 or of 1 and 2, NaN where missing.

        `names` of both are for errors. Raises DataError as `RidgeDesign.build` and `binary_trait` do.
        """
        known, trait_names = who_has(covariates, traits, names[1])
        cases = np.stack(
            [binary_trait(name, np.where(own, column, np.nan)) for name, own, column in zip(trait_names, known.T, traits.T, strict=True)],
            axis=1,
        )
        shared = shared_fields(covariates, cases, known, (names[0], trait_names))
        return cls(**shared, cases=np.where(known, cases, 0), firth=firth)

    def less(self, predictions: Array) -> PredictedBinary:
        """The traits' models without a variant, about the log odds that are predicted, `[t, n]`.

        Raises DataError where the covariates separate cases from controls.
        """
        k, (n, t) = self.basis.shape[1], self.known.shape
        whitened, log_odds, centres, coefficients = np.zeros((t, k, n)), np.zeros((t, n)), np.zeros((t, n)), np.zeros((t, k))
        for place, name in enumerate(self.trait_names):
            own = self.known[:, place]
            basis, offset, cases = self.basis[own].T, np.asarray(predictions[place][own], np.float64), self.cases[own, place]
            coefficients[place] = fitted = null_coefficients(name, basis, 2 * cases - 1, offset)
            log_odds[place, own] = offset + fitted @ basis
            p = 1 / (1 + np.exp(-log_odds[place, own]))
            gram = (basis * (p * (1 - p))) @ basis.T
            whitened[place][:, own] = np.linalg.solve(np.linalg.cholesky(gram), basis)
            if self.firth:
                centres[place, own] = offset + _penalized(name, basis, cases, offset, fitted) @ basis
        return PredictedBinary(self, whitened, log_odds, centres, coefficients)


class _Penalized(NamedTuple):
    """Chances `float64[n]`, the basis times their variances `[k, n]`, the information `[k, k]`, and the penalized log likelihood."""

    chance: Array
    weighted: Array
    information: Array
    height: float

    @classmethod
    def at(cls, basis: Array, cases: Array, log_odds: Array) -> _Penalized:
        """Of some log odds `float64[n]`."""
        chance = np.exp(-np.logaddexp(0, -log_odds))
        weighted = basis * (chance * (1 - chance))
        information = weighted @ basis.T
        sign, determinant = np.linalg.slogdet(information)
        likelihood = float((cases * log_odds - np.logaddexp(0, log_odds)).sum())
        return cls(chance, weighted, information, likelihood + float(determinant) / 2 if sign > 0 else -np.inf)


def _penalized(name: str, basis: Array, cases: Array, offset: Array, start: Array) -> Array:
    """Firth's coefficients of a basis `float64[k, n]`, by scoring from the maximum of the likelihood. Raises DataError where it fails.

    A step that lowers the penalized likelihood is halved: of very skewed covariates whole ones may go to and fro forever.
    """
    found, terms = start, _Penalized.at(basis, cases, offset + start @ basis)
    for _ in range(_STEPS):
        leverage = (terms.weighted * np.linalg.solve(terms.information, basis)).sum(axis=0)
        step = np.linalg.solve(terms.information, basis @ (cases - terms.chance + leverage * (0.5 - terms.chance)))
        if float(step @ terms.information @ step) < _STILL**2:
            return found + step
        for _ in range(_HALVINGS):
            after = _Penalized.at(basis, cases, offset + (found + step) @ basis)
            if after.height >= terms.height - _ROUNDING * (1 + abs(terms.height)):
                break
            step = step / 2
        found, terms = found + step, after
    raise DataError(f"Trait {name!r}: Firth's fit of the covariates does not converge. Use fewer covariates, or method: spa.")


@dataclass(frozen=True)
class PredictedBinary(OfTraits):
    """The models of a chromosome's scan, without a variant."""

    design: PredictedBinaryDesign
    whitened: Array
    """`float64[t, k, n]`: Z by trait, 0 for who lacks it."""
    log_odds: Array
    """`float64[t, n]`: o, by maximum likelihood; 0 for who lacks the trait."""
    centres: Array
    """`float64[t, n]`: the log odds of Firth's fit; 0 where there is none."""
    coefficients: Array
    """`float64[t, k]`: of the basis in o."""

    def beside(self, array: Array) -> PredictedBinary:
        """These models where `array` lives: in CuPy arrays on its GPU, or as they are."""
        xp = array_module(array)
        if xp is np:
            return self
        design = replace(
            self.design, **{name: xp.asarray(getattr(self.design, name)) for name in ("mask", "basis", "cases", "known", "masks")}
        )
        return PredictedBinary(design, *(xp.asarray(getattr(self, name)) for name in ("whitened", "log_odds", "centres", "coefficients")))

    @cached_property
    def nulls(self) -> tuple[NullModel, ...]:
        """By trait the model of who has it, from which regressions with all coefficients free start; predictions are the offset."""
        found, xp = [], array_module(self.log_odds)
        for own, cases, odds, fitted in zip(self.known.T, self.design.cases.T, self.log_odds, self.coefficients, strict=True):
            basis = xp.ascontiguousarray(self.design.basis[own].T)
            found.append(NullModel(basis, 2 * cases[own] - 1, fitted, odds[own] - fitted @ basis))
        return tuple(found)

    def probabilities(self) -> Array:
        """p, `float64[t, n]`; 0 for who lacks the trait."""
        xp = array_module(self.log_odds)
        return xp.where(self.known.T, 1 / (1 + xp.exp(-self.log_odds)), 0)
