"""People, covariates and times of a scan for times to an event, and the traits' Cox models without a variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.errors import DataError
from pipeline.kernels.cox_null import RiskOrder, cox_coefficients
from pipeline.kernels.genotypes import Array
from pipeline.kernels.traits_design import OfTraits, TraitsDesign, shared_fields, who_has


@dataclass(frozen=True)
class CoxDesign(TraitsDesign):
    """People, covariates and times of a scan. Arrays keep the order of all `n` people of the genotypes."""

    times: Array
    """`float64[n, t]`: when a person's event was, or minus when he was last seen without; 0 for who lacks the trait."""
    firth: bool
    """Whether models have Firth's fits, too."""

    @classmethod
    def build(
        cls, covariates: Array, traits: Array, names: tuple[Sequence[str], Sequence[str]] = ((), ()), *, firth: bool = True
    ) -> CoxDesign:
        """From covariates `float64[n, k - 1]` and signed times `float64[n, t]`, NaN where missing.

        `names` of both are for errors. Raises DataError as `RidgeDesign.build` does, and for a trait without events.
        """
        known, trait_names = who_has(covariates, traits, names[1])
        events = known & ~np.signbit(traits)
        if not events.any(axis=0).all():
            name = trait_names[int((~events.any(axis=0)).argmax())]
            raise DataError(f"Trait {name!r}: none of the people who have it and all covariates has an event. Is the event 1?")
        shared = shared_fields(covariates, traits, known, (names[0], trait_names))
        return cls(**shared, times=np.where(known, traits, 0), firth=firth)

    def less(self, predictions: Array | None) -> CoxModels:
        """The traits' models without a variant, beside log hazards that are predicted, `[t, n]`, or none.

        Raises DataError where the covariates alone have no maximum.
        """
        k, (n, t) = self.basis.shape[1], self.known.shape
        whitened, residuals, hazards, log_hazards, firth = np.zeros((t, k, n)), *np.zeros((4, t, n))
        risks, variances = list[RiskOrder](), np.zeros(t)
        for place, name in enumerate(self.trait_names):
            own = np.flatnonzero(self.known[:, place])
            basis, times = self.basis[own].T, self.times[own, place]
            risk = RiskOrder.of(times)
            offset = np.zeros(len(own)) if predictions is None else np.asarray(predictions[place][own], np.float64)
            offset = offset - offset.mean()
            log_hazards[place, own] = offset + cox_coefficients(name, basis[1:], risk, offset, firth=False) @ basis[1:]
            hazards[place, own] = risk.hazards(log_hazards[place, own])
            residuals[place, own] = ~np.signbit(times) - hazards[place, own]
            variances[place] = residuals[place, own].var(ddof=1)
            gram = (basis * hazards[place, own]) @ basis.T
            whitened[place][:, own] = np.linalg.solve(np.linalg.cholesky(gram), basis)
            if self.firth:
                firth[place, own] = offset + cox_coefficients(name, basis[1:], risk, offset, firth=True) @ basis[1:]
            risks.append(replace(risk, order=own[risk.order]))
        return CoxModels(self, whitened, residuals, hazards, variances, log_hazards, firth, tuple(risks))


@dataclass(frozen=True)
class CoxModels(OfTraits):
    """The models of a chromosome's scan, without a variant; 0 for who lacks a trait."""

    design: CoxDesign
    whitened: Array
    """`float64[t, k, n]`: Z by trait, intercept and covariates with Z H Z' = 1."""
    residuals: Array
    """`float64[t, n]`: M, the martingale residuals."""
    hazards: Array
    """`float64[t, n]`: H."""
    variances: Array
    """`float64[t]`: of M."""
    log_hazards: Array
    """`float64[t, n]`, by maximum likelihood."""
    centres: Array
    """`float64[t, n]`: by Firth's fit; 0 where there is none."""
    risks: tuple[RiskOrder, ...]
    """By trait, with places among all people."""

    @property
    def mask(self) -> Array:
        """Both bits of the used people's calls are set."""
        return self.design.mask

    def beside(self, array: Array) -> CoxModels:
        """These models where `array` lives: in CuPy arrays on its GPU, or as they are."""
        xp = array_module(array)
        if xp is np:
            return self
        design = replace(self.design, **{name: xp.asarray(getattr(self.design, name)) for name in ("mask", "basis", "known", "masks")})
        risks = tuple(RiskOrder(*(xp.asarray(places) for places in (one.order, one.last, one.event))) for one in self.risks)
        names = ("whitened", "residuals", "hazards", "variances", "log_hazards", "centres")
        return replace(self, design=design, risks=risks, **{name: xp.asarray(getattr(self, name)) for name in names})
