"""Predictions of a whole-genome regression, by trait, chromosome and person, as a scan takes them off its traits. Not a stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.errors import DataError
from pipeline.genome.chromosomes import HUMAN, chromosome_key
from pipeline.kernels.cox_design import CoxDesign, CoxModels
from pipeline.kernels.predicted_binary_design import PredictedBinary, PredictedBinaryDesign
from pipeline.kernels.predicted_scan import PredictedDesign
from pipeline.stages.genomics._sheet import Sheet
from pipeline.stages.genomics._tallied import minus_nines
from pipeline.tables.part import Part

Build = Callable[[Any, Any, tuple[Sequence[str], Sequence[str]]], PredictedDesign | PredictedBinaryDesign | CoxDesign]
"""Covariates `[n, c]`, traits `[n, t]` and the names of both -> a design."""
NEEDED = ("trait", "sample_id", "chromosome", "prediction")


def needed_predictions(rows: pl.LazyFrame) -> pl.LazyFrame:
    """The columns of predictions that are used."""
    return rows.select(NEEDED)


class Stretch(NamedTuple):
    """Neighbouring rows of one trait and chromosome: the people's places (negative: strangers) and what is predicted of them."""

    trait: str
    chromosome: str
    places: NDArray[np.int64]
    values: NDArray[np.float32]


def stretches_of(part: Part, people: Part, traits: Sequence[str], autosomes: int = HUMAN) -> list[Stretch]:
    """The stretches of a part for these traits; those in the order of the people, or of the stretch before, are not looked up again."""
    frame = part.frame
    if frame.is_empty():
        return []
    starts, ids = _starts(frame), people.frame["sample_id"]
    each = frame.select("trait", "chromosome")[starts].with_columns(chromosome_key(autosomes=autosomes)).rows()
    values = frame["prediction"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    found, places, numbers = list[Stretch](), np.arange(len(ids)), values.astype(np.float32)
    known, finite = ids.to_frame().with_row_index("place"), bool(np.isfinite(values).all())
    for (trait, chromosome), (low, high) in zip(each, pairwise([*starts, frame.height]), strict=True):
        if trait not in traits:
            continue
        own = frame["sample_id"][low:high]
        if not own.equals(ids):
            ids = own
            matched = own.to_frame().join(known, on="sample_id", how="left", maintain_order="left")["place"]
            places = matched.cast(pl.Int64).fill_null(-1).to_numpy()
        if not finite and not np.isfinite(values[low:high]).all():
            raise DataError(f"a prediction of {trait!r} for chromosome {chromosome} is missing or infinite.")
        found.append(Stretch(trait, chromosome, places, numbers[low:high]))
    return found


def _starts(frame: pl.DataFrame) -> list[int]:
    """Where rows begin that are not of the trait and chromosome of the row before."""
    changes = [pl.col(name).ne_missing(pl.col(name).shift()) for name in ("trait", "chromosome")]
    return sorted({0, *frame.select(changes[0] | changes[1]).to_series().arg_true()})


def joined_stretches(several: list[list[Stretch]]) -> list[Stretch]:
    """Those of several parts."""
    return [stretch for some in several for stretch in some]


@dataclass(frozen=True)
class PredictedTraits:
    """What a scan with predictions takes from its samples: the design without predictions, and these by chromosome, `float32[t, n]`."""

    sheet: Sheet
    design: PredictedDesign | PredictedBinaryDesign | CoxDesign
    predictions: Mapping[str, NDArray[np.float32]]
    audit: Any
    autosomes: int | None

    @classmethod
    def of(cls, sheet: Sheet, stretches: Sequence[Stretch], build: Build, audit: Any, autosomes: int | None) -> PredictedTraits:
        """Whoever has no predictions of a trait is left out of it. Raises DataError where predictions do not fit the traits and people."""
        predictions = _arrays(sheet.trait_names, len(sheet.traits), stretches)
        there = [~np.isnan(values) for values in predictions.values()]
        everywhere = np.logical_and.reduce(there)
        ragged = np.logical_or.reduce(there) & ~everywhere
        if ragged.any():
            trait = sheet.trait_names[int(np.flatnonzero(ragged)[0] // ragged.shape[1])]
            raise DataError(
                f"{int(ragged.sum())} people have predictions of {trait!r} for some of the chromosomes only. Give those of all."
            )
        traits = np.where(everywhere.T, sheet.traits, np.nan)
        for name, column in zip(sheet.trait_names, traits.T, strict=True):
            if np.isnan(column).all():
                raise DataError(f"no one who has {name!r} has a prediction of it. Are the ids written alike?")
        design = build(sheet.covariates, traits, (sheet.covariate_names, sheet.trait_names))
        return cls(sheet, design, predictions, audit, autosomes)

    def less(self, chromosome: str) -> Any:
        """The model of a chromosome's scan, which the design makes; None where no predictions leave it out."""
        predictions = self.predictions.get(chromosome)
        return None if predictions is None else self.design.less(np.nan_to_num(predictions))

    def audited(self, model: PredictedDesign | PredictedBinary | CoxModels) -> Sheet:
        """What an audit computes with: covariates of those who are used, and what is left of the traits, or the traits and log odds."""
        known = model.known
        covariates = np.where(known.any(axis=1)[:, None], np.column_stack([self.sheet.covariates, np.zeros(len(known))]), np.nan)
        if isinstance(model, PredictedDesign):
            return replace(self.sheet, traits=np.where(known, model.residuals, np.nan), covariates=covariates)
        if isinstance(model, CoxModels):
            return replace(self.sheet, covariates=covariates)
        traits = np.where(known, model.design.cases, np.nan)
        return replace(self.sheet, traits=traits, covariates=covariates, log_odds=(model.log_odds, model.centres))

    def counts(self) -> dict[str, int]:
        """People used for each trait."""
        people = self.design.people.tolist()
        found = dict(zip((f"people_{name}" for name in self.design.trait_names), people, strict=True))
        return found if isinstance(self.design, CoxDesign) else found | minus_nines(self.sheet)


def people_counts(fitted: PredictedTraits) -> dict[str, int]:
    """People used for each trait."""
    return fitted.counts()


class _Known(NamedTuple):
    """Rows of a stretch that are of known people, these people's places, and whether one has two."""

    rows: slice | NDArray[np.bool_]
    places: slice | NDArray[np.int64]
    twice: bool

    @classmethod
    def of(cls, places: NDArray[np.int64]) -> _Known:
        """Those of a stretch with these places: a range of people in their order as a slice, which is quicker."""
        if len(places) and places[0] >= 0 and (np.diff(places) == 1).all():
            return cls(slice(None), slice(int(places[0]), int(places[-1]) + 1), twice=False)
        rows = places >= 0
        return cls(rows, places[rows], twice=len(np.unique(places[rows])) < int(rows.sum()))


def _arrays(traits: Sequence[str], people: int, stretches: Sequence[Stretch]) -> dict[str, NDArray[np.float32]]:
    """By chromosome `float32[t, n]`, NaN where there is none. Raises DataError for a trait with none, and for two of one person."""
    places = {name: place for place, name in enumerate(traits)}
    if lacking := sorted({*traits} - {stretch.trait for stretch in stretches}):
        raise DataError(f"there are no predictions of the trait {lacking[0]!r}. Name it in the whole_genome_regression.")
    found, known = dict[str, NDArray[np.float32]](), dict[int, _Known]()
    for stretch in stretches:
        if stretch.chromosome not in found:
            found[stretch.chromosome] = np.full((len(traits), people), np.nan, np.float32)
        row = found[stretch.chromosome][places[stretch.trait]]
        if id(stretch.places) not in known:  # neighbours share their people
            known[id(stretch.places)] = _Known.of(stretch.places)
        own = known[id(stretch.places)]
        if own.twice or not np.isnan(row[own.places]).all():
            raise DataError(f"somebody has two predictions of {stretch.trait!r} for chromosome {stretch.chromosome}. Give one of each.")
        row[own.places] = stretch.values[own.rows]
    return found
