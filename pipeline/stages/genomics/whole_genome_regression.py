"""Whole-genome regression: what all chromosomes but one predict of each trait, as regenie's step 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from operator import itemgetter
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from pipeline.backend.arrays import to_device
from pipeline.genome.columns import VARIANT, dtypes_of
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.kernels.ridge_predictors import SHARES
from pipeline.stage import ColumnName, ColumnNames, Context, Outcome, Whole
from pipeline.stages.genomics._on_disk import OnDisk
from pipeline.stages.genomics._ridge import Kind, RidgeCohort, joined_runs, need_variants, piece_of, pieces_of, runs_of
from pipeline.stages.genomics._ridge_levels import FITS, WEIGHTS, fits_of, level_of, predictors_of, stacked_of, weights_of
from pipeline.stages.genomics._sheet import COVARIATES, need_traits, sheet_columns, sheet_rows
from pipeline.stages.genomics._survival import TimeToEvent, columns_of, signed, with_traits
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, hidden
from pipeline.tables.rounds import go_on
from pipeline.tables.table import Table

PREDICTIONS = dtypes_of(("trait", "sample_id", "chromosome", "prediction"))
_RATE = 6e10
"""Multiplications and additions in float32 a second of a core, of a matrix with itself (half of them are done) and of Cholesky factors."""


class WholeGenomeRegression(Whole, name="whole_genome_regression", version=4):
    """Predict each trait from the variants of all chromosomes but one, so that a scan of that one need not assume unrelated people.

    regenie's step 1 (Mbatchou et al. 2021). Each block of neighbouring variants predicts every trait by ridge regression at five penalties,
    people of a fold by the people of the others (level 0); a regression of the trait on these predictors, its penalty chosen by
    cross-validation, gives the predictions (level 1): ridge, or with the covariates as offset penalized logistic regression of binary
    traits and Cox's of times to an event, whose level 0 predicts the time. Of fewer than 5,000 people with binary traits each is a fold. A
    missing genotype is the mean, and so is a missing quantitative trait; left out are people without a covariate, with no trait, or without
    one of several binary traits or times. Variants of autosomes and X (as the table counts them: men 0 or 2)
    are used, where they vary; take common ones (variant_qc), some 500,000 at most.

    A row per trait, person and chromosome: prediction is that of a chromosome's scan, in standard deviations of what the covariates leave
    of the trait, log odds or log hazards. Every autosome has rows, and X. NAME.fits has a row per trait and penalty of level 1, by the
    share of the variance that it takes the predictors to explain: mean squared error and squared correlation (of a binary trait log_loss,
    too; of a time to an event the deviance alone) of what cross-validation predicts, and which was chosen. NAME.weights, where asked for,
    has a row per trait and variant: the mean of what the folds' models weigh a copy of ALT by (where each person is a fold, what the fit to
    all does), in the predictions' units.

    Example:
        {use: whole_genome_regression, from: {genotypes: common, samples: people}, as: wgr, traits: [ldl, height], covariates: [age, sex]}
    """

    roles = ("genotypes", "samples")
    long = "tables"
    counts: ClassVar[Mapping[str, Count]] = {
        "variants_used": Count("variants used"),
        "blocks": Count("blocks"),
        "people": Count("people used"),
    }

    traits: ColumnNames | dict[ColumnName, TimeToEvent] = Field(
        description="Columns of the samples table to predict; of kind time_to_event names, each with its columns {time: ..., event: ...}."
    )
    covariates: tuple[ColumnName, ...] = Field((), description=COVARIATES)
    block_size: int = Field(1_000, ge=1, le=10_000, description="Variants of a block, all on one chromosome; the last one has the rest.")
    folds: int = Field(5, ge=2, le=100, description="Groups of neighbouring people, each predicted by the others.")
    kind: Kind = Field("quantitative", description="What the traits are; binary ones 0 and 1, or 1 and 2 (case).")
    weights: bool = Field(False, description="Give NAME.weights, what the model weighs each variant's ALT by, for polygenic_score.")

    @model_validator(mode="after")
    def _traits_are_of_their_kind(self) -> Self:
        if isinstance(self.traits, Mapping) != (self.kind == "time_to_event"):
            remedy = "traits: {death: {time: years, event: died}}, and no others"
            raise ValueError(f"kind: time_to_event takes traits by name, each a time and an event, such as {remedy}.")
        return self

    @property
    def _times(self) -> Mapping[str, TimeToEvent]:
        return self.traits if isinstance(self.traits, Mapping) else {}

    @property
    def trait_names(self) -> tuple[str, ...]:
        """The traits, in their order."""
        return tuple(self.traits)

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The predictions, and the fits."""
        need_genotypes(schemas["genotypes"], VARIANT, dosages=True)
        need_traits(with_traits(schemas["samples"], self._times), self.trait_names, self.covariates)
        more = {"weights": Schema(pl.Schema(WEIGHTS))} if self.weights else {}
        return {"": Schema(pl.Schema(PREDICTIONS)), "fits": Schema(pl.Schema(FITS)), **more}

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernels, and SciPy's solvers."""
        for name in ("pipeline.kernels.compiled.standardize", "pipeline.kernels.compiled.counts", "scipy.linalg.lapack"):
            import_module(name)

    def of_pairs(self, rows: int, labels: int) -> str:
        """How many predictors there are, where they lie and how long level 0 takes, for so many variants and people at most."""
        blocks, traits = -(-rows // self.block_size), len(self.traits)
        seconds = rows * min(rows, self.block_size) * labels / _RATE + blocks * 5 * self.folds * self.block_size**3 / 3 / _RATE
        held = 4e-9 * blocks * len(SHARES) * labels
        size, unit = (1, "s") if seconds < 600 else (60, "min") if seconds < 36_000 else (3_600, "h")
        return (
            f"level 0: at most {rows:,} variants of {labels:,} people, some {max(1.0, seconds / size):,.0f} {unit} of one core, which all "
            f"tasks share; predictors: {held * traits:,.1f} GB on local disk, {2 * held:,.1f} GB in memory for each trait at work"
        )

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Tasks of blocks, which leave their predictors on disk, then a task a trait. Waits for how many variants there are."""
        genotypes, submit, name = tables["genotypes"].named(context.name), context.session.submit, context.name
        rows = sheet_rows(tables["samples"].named(name), self.needed, self.covariates)
        cohort = submit(self.cohort, people_of(genotypes), rows, stage=name)
        # Read twice, and not held, where that is cheap: once for how many variants there are, then block by block.
        read = genotypes if genotypes.cheap else genotypes.hold()
        used = read.map(_needed, VARIANT if self.weights else VARIANT[:1], writes=frozenset()).map_parts(_used, cohort)
        runs = context.session.value(used.reduce(runs_of, joined_runs))
        variants = need_variants(runs)
        levels = self._blocks(used, runs, cohort, variants, context)
        chromosomes, blocks = [chromosome for chromosome, _ in levels], list(levels.values())
        if self.weights:
            blocks = [submit(itemgetter(0), level, stage=name) for level in blocks]
        fitted = [self._fitted(place, cohort, chromosomes, blocks, context) for place in range(len(self.traits))]
        predictions = [submit(itemgetter(0), each, stage=name) for each in fitted]
        fits = submit(_below, *(submit(itemgetter(1), each, stage=name) for each in fitted), stage=name)
        found = {"": Table.of(context.session, name, predictions).map_parts(_rows, cohort), "fits": Table.of(context.session, name, [fits])}
        if self.weights:
            effects = [submit(itemgetter(2), each, stage=name) for each in fitted]
            starts = range(0, len(blocks) * len(SHARES), len(SHARES))
            each = zip(levels.values(), starts, strict=True)
            parts = [submit(weights_of, level, first, self.trait_names, *effects, stage=name) for level, first in each]
            found["weights"] = Table.of(context.session, name, parts)
        return Outcome(found, counts=submit(_counts, cohort, variants, len(blocks), stage=name))

    def needed(self, samples: pl.LazyFrame) -> pl.LazyFrame:
        """The columns of the samples table that are used."""
        plain = [name for name in self.trait_names if name not in self._times]
        return samples.select("sample_id", *columns_of(self._times), *sheet_columns(samples, plain, self.covariates))

    def cohort(self, people: Part, rows: Part) -> RidgeCohort:
        """The people, and their traits and covariates."""
        return RidgeCohort.of(people, signed(rows, self._times), (self.covariates, self.trait_names), self.folds, self.kind)

    def _blocks(self, used: Table, runs: Sequence[Any], cohort: Any, variants: int, context: Context) -> dict[tuple[str, int], Any]:
        """A future of the predictors of each block, by chromosome and number there; a part is asked for just before its first block."""
        submit, name = context.session.submit, context.name
        found, waiting = dict[tuple[str, int], Any](), dict[tuple[str, int], list[Any]]()
        for step, pieces in zip(used.blocks, pieces_of(runs, self.block_size), strict=True):
            if not pieces:
                continue
            part = context.session.evaluate(step)
            for piece in pieces:
                waiting.setdefault(piece.block, []).append(submit(piece_of, part, piece.low, piece.high, stage=name))
                if piece.last:
                    level_0 = level_of if self.weights else predictors_of
                    found[piece.block] = submit(level_0, cohort, variants, *waiting.pop(piece.block), stage=name)
        order = {chromosome: place for place, chromosome in enumerate(dict.fromkeys(chromosome for chromosome, _ in found))}
        return dict(sorted(found.items(), key=lambda item: (order[item[0][0]], item[0][1])))

    def _fitted(self, place: int, cohort: Any, chromosomes: list[str], blocks: list[Any], context: Context) -> Any:
        """A future of a trait's predictions and fits; what other workers have of its predictors goes there alone."""
        submit, session = context.session.submit, context.session
        own = [submit(OnDisk.entry, block, place, stage=context.name) for block in blocks] if session.workers > 1 else blocks
        return submit(self.fitted, place, cohort, chromosomes, session.backend, *own, stage=context.name)

    def fitted(self, place: int, cohort: RidgeCohort, chromosomes: list[str], backend: Any, *blocks: Any) -> tuple[Part, pl.DataFrame, Any]:
        """Level 1 of one trait: a part with a row per chromosome left out and the people's predictions, and the fits."""
        go_on()
        names = list(dict.fromkeys(chromosomes))
        predictors = np.concatenate([block.entry(place) if isinstance(block, OnDisk) else block for block in blocks])
        places = [names.index(name) for name in chromosomes for _ in SHARES]
        design = cohort.design
        found = stacked_of(to_device(predictors, backend), places, design, place)
        every = cohort.chromosomes(names)
        rows = [names.index(name) if name in names else len(names) for name in every]
        frame = pl.DataFrame({"trait": [self.trait_names[place]] * len(every), "chromosome": every})
        return Part(frame, {"predictions": found.predictions[rows]}), fits_of(self.trait_names[place], found), found.effects


def _needed(rows: pl.LazyFrame, names: Sequence[str]) -> pl.LazyFrame:
    """The chromosomes of variants, or all that names them."""
    return rows.select(*names, *hidden(rows))


def _used(part: Part, cohort: RidgeCohort) -> Part:
    return cohort.used(part)


def _rows(part: Part, cohort: RidgeCohort) -> Part:
    """A row per chromosome and person."""
    people, chromosomes = len(cohort.sample_ids), part.frame.height
    ids = pl.concat([cohort.sample_ids] * chromosomes, rechunk=False)
    each = part.frame.select("trait", "chromosome")[np.repeat(np.arange(chromosomes), people)]
    prediction = pl.Series("prediction", part.arrays["predictions"].reshape(-1).astype(np.float64))
    return Part(each.with_columns(ids.alias("sample_id"), prediction).select(*PREDICTIONS))


def _below(*fits: pl.DataFrame) -> Part:
    return Part(pl.concat(fits))


def _counts(cohort: RidgeCohort, variants: int, blocks: int) -> dict[str, int]:
    return {"variants_used": variants, "blocks": blocks, "people": len(cohort.index)}
