"""Both levels of a whole-genome regression as tasks have them, and the weights that they come to. Not a stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pipeline.backend.arrays import to_host
from pipeline.genome.columns import dtypes_of
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.left_out import left_out_fit, left_out_predictors
from pipeline.kernels.ridge_design import RidgeDesign
from pipeline.kernels.ridge_predictors import SHARES, ridge_fit, ridge_predictors
from pipeline.kernels.stacked_cox import stacked_cox
from pipeline.kernels.stacked_logistic import stacked_logistic
from pipeline.kernels.stacked_ridge import Stacked, stacked_ridge, variant_weights
from pipeline.stages.genomics._on_disk import OnDisk
from pipeline.stages.genomics._ridge import RidgeCohort
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.rounds import go_on

FITS = dtypes_of(("trait",)) | {
    "explained_share": pl.Float64(),
    "penalty": pl.Float64(),
    "mean_squared_error": pl.Float64(),
    "r_squared": pl.Float64(),
    "log_loss": pl.Float64(),
    "deviance": pl.Float64(),
    "chosen": pl.Boolean(),
}
LEFT_OUT = 5_000
"""People from whom on folds do for binary traits, too; of fewer each is left out alone, as in regenie."""

WEIGHTS = dtypes_of(("trait", "chromosome", "base_pair_location", "variant_id", "effect_allele", "other_allele")) | {"weight": pl.Float64()}


class Level(NamedTuple):
    """What a block predicts, `float32[t, h, n]`, and by what: effects `float32[t, f, h, v]` of its variants."""

    predictors: OnDisk
    effects: OnDisk
    variants: pl.DataFrame


def predictors_of(cohort: RidgeCohort, variants: int, *pieces: Part) -> OnDisk:
    """What a block predicts of every trait, on disk: `float32[t, h, n]`."""
    go_on()
    block = _block(cohort, concat_parts(pieces))
    predict = left_out_predictors if alone(cohort.design) else ridge_predictors
    return OnDisk(to_host(predict(block, cohort.design, variants)))


def alone(design: RidgeDesign) -> bool:
    """Whether each person is a fold."""
    return design.cases is not None and len(design.traits) < LEFT_OUT


def stacked_of(predictors: Any, places: Sequence[int], design: RidgeDesign, trait: int) -> Stacked:
    """Level 1 of a trait."""
    if design.offsets is None:
        return stacked_ridge(predictors, places, design.traits[:, trait], design.folds)
    if design.cases is None:
        assert design.times is not None
        return stacked_cox(predictors, places, design.times[:, trait], design.offsets[:, trait], design.folds)
    folds = None if alone(design) else design.folds
    return stacked_logistic(predictors, places, design.cases[:, trait], design.offsets[:, trait], folds)


def level_of(cohort: RidgeCohort, variants: int, *pieces: Part) -> Level:
    """What a block predicts of every trait, and by what."""
    go_on()
    whole = concat_parts(pieces)
    fit = left_out_fit if alone(cohort.design) else ridge_fit
    found = fit(_block(cohort, whole), cohort.design, variants)
    return Level(OnDisk(to_host(found.predictors)), OnDisk(to_host(found.effects)), whole.frame)


def _block(cohort: RidgeCohort, part: Part) -> GenotypeBlock:
    return GenotypeBlock(part.arrays.get("calls"), part.arrays.get("alt_dosages"), len(cohort.index))


def weights_of(level: Level, first: int, traits: Sequence[str], *fitted: Any) -> Part:
    """A row per trait and variant of a block, whose predictors are those of level 1 from `first` on; `fitted` are its effects by trait."""
    variants = level.variants.rename({"alt": "effect_allele", "ref": "other_allele"})
    rows = [
        variants.with_columns(
            pl.lit(trait).alias("trait"), pl.Series("weight", variant_weights(level.effects.entry(place), effects, first))
        )
        for place, (trait, effects) in enumerate(zip(traits, fitted, strict=True))
    ]
    return Part(pl.concat(rows).select(pl.col(name).cast(dtype) for name, dtype in WEIGHTS.items()))


def fits_of(trait: str, found: Stacked) -> pl.DataFrame:
    """A row a penalty; what the kind of trait has not is null."""
    metrics = {name: getattr(found, name) for name in ("mean_squared_error", "r_squared", "log_loss", "deviance")}
    columns = {"explained_share": SHARES if found.deviance is None else None, "penalty": found.penalties, **metrics}
    series = [pl.Series(name, [None] * len(found.penalties) if given is None else given, pl.Float64) for name, given in columns.items()]
    chosen = pl.Series("chosen", np.arange(len(found.penalties)) == found.best)
    return pl.DataFrame(series).with_columns(chosen, trait=pl.lit(trait)).select(*FITS)
