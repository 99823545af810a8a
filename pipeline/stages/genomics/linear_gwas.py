"""Linear association of every variant with one or several traits, adjusted for covariates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend import array_module, to_host
from pipeline.columns import VOCABULARY
from pipeline.errors import DataError
from pipeline.kernels.design import Design, missingness_groups
from pipeline.kernels.linear_regression import REASONS, Missing, associate
from pipeline.kernels.p_values import t_test_p_values
from pipeline.part import Part, Schema
from pipeline.stage import ColumnName, ColumnNames, Context, Outcome, StageError, Whole, need_array, need_columns, need_numeric
from pipeline.table import Table

COLUMNS = (
    "chromosome", "base_pair_location", "effect_allele", "other_allele", "beta", "standard_error", "effect_allele_frequency", "p_value",
    "neg_log_10_p_value", "variant_id", "n", "trait", "statistic", "test", "reason",
)  # fmt: skip


class LinearGwas(Whole, name="linear_gwas", version=1):
    """Test every variant for an additive effect on each trait, by linear regression with covariates and intercept.

    The effect allele is ALT. People are matched by sample_id, so the sheet may be in any order and hold others; a person with no row, or
    with a missing trait or covariate, is left out. Complete case by default: per variant the people with a call (as PLINK does). Columns
    are those of GWAS-SSF, and trait, statistic (t), test, reason (why there is no result). Unrelated people are assumed.

    Example:
        {use: linear_gwas, from: {genotypes: passed, samples: people}, as: gwas, traits: [ldl], covariates: [age, sex, pc1, pc2]}
    """

    roles = ("genotypes", "samples")

    traits: ColumnNames = Field(description="Columns of the samples table to explain.")
    covariates: tuple[ColumnName, ...] = Field((), description="Columns of the samples table to adjust for; the intercept is always there.")
    missing: Missing = Field(
        "complete_case", description="What a missing call means: the person is left out for that variant, or gets its mean."
    )

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """One row per variant and trait."""
        need_array(schemas["genotypes"], "calls", "genotypes")
        need_columns(schemas["genotypes"], ("chromosome", "base_pair_location", "variant_id", "ref", "alt"), "genotypes")
        need_columns(schemas["samples"], ("sample_id",), "samples")
        need_numeric(schemas["samples"], (*self.traits, *self.covariates))
        if both := sorted({*self.traits} & {*self.covariates}):
            raise StageError(f"{both[0]!r} is both a trait and a covariate; leave one of them out")
        for names, what in ((self.traits, "traits"), (self.covariates, "covariates")):
            if len({*names}) < len(names):
                raise StageError(f"{what}: {', '.join(names)} names a column twice")
        return {"": Schema(pl.Schema({name: VOCABULARY[name].dtype for name in COLUMNS}))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Residualize once, then map over blocks of variants; nothing is exchanged."""
        genotypes = tables["genotypes"].named(context.name)
        sheet, submit = tables["samples"].named(context.name).map(self.needed).value(), context.session.submit
        designs = submit(self.designs, context.name, genotypes.axes["calls"].value(), sheet, stage=context.name)
        return Outcome({"": genotypes.map_parts(self.scan, designs)}, counts=submit(_tally, designs, stage=context.name))

    def needed(self, samples: pl.LazyFrame) -> pl.LazyFrame:
        """The columns of the samples table that are used, as numbers."""
        return samples.select("sample_id", *(pl.col(name).cast(pl.Float64) for name in (*self.traits, *self.covariates)))

    def designs(self, stage: str, people: Part, sheet: Part) -> list[Design]:
        """One design for the traits that are missing for the same people. Raises DataError where the sheet does not fit."""
        aligned = aligned_sheet(stage, people.frame, sheet.frame)
        values = {name: aligned[name].fill_null(float("nan")).to_numpy() for name in (*self.traits, *self.covariates)}
        traits = np.column_stack([values[name] for name in self.traits])
        covariates = np.column_stack([values[name] for name in self.covariates]) if self.covariates else np.empty((len(traits), 0))
        found = []
        for group in missingness_groups(traits):
            names = [self.traits[i] for i in group]
            found.append(Design.build(covariates, traits[:, group], self.covariates, names))
        return found

    def scan(self, part: Part, designs: list[Design]) -> Part:
        """The associations of one part's variants with all traits."""
        calls = part.arrays["calls"]
        frames = [self._one(part.frame, calls, design.beside(calls)) for design in designs]
        order = {trait: i for i, trait in enumerate(self.traits)}
        rows = pl.concat(frames).sort("row", pl.col("trait").replace_strict(order, return_dtype=pl.Int64), maintain_order=True)
        return Part(rows.select(COLUMNS))

    def _one(self, variants: pl.DataFrame, calls: Any, design: Design) -> pl.DataFrame:
        found = associate(calls, design.n_samples, design, self.missing)
        p_value, neg_log_10_p = t_test_p_values(found.statistic, found.degrees_of_freedom[:, None])
        traits = len(design.trait_names)
        by_trait = {
            "beta": found.beta, "standard_error": found.standard_error, "statistic": found.statistic,
            "p_value": p_value, "neg_log_10_p_value": neg_log_10_p,
        }  # fmt: skip
        by_variant = {"effect_allele_frequency": found.effect_allele_frequency, "n": found.n, "code": found.reason.astype("int64")}
        columns = {name: to_host(array).ravel() for name, array in by_trait.items()}
        columns |= {name: to_host(array_module(array).repeat(array, traits)) for name, array in by_variant.items()}
        rows = np.repeat(np.arange(variants.height), traits)
        frame = variants[rows].select(
            "chromosome", "base_pair_location", "variant_id", effect_allele="alt", other_allele="ref",
            row=pl.Series(rows), trait=pl.Series(list(design.trait_names) * variants.height, dtype=pl.String),
        )  # fmt: skip
        reasons = pl.Series("reasons", [text or None for text in REASONS], dtype=pl.String)
        return frame.hstack([pl.Series(name, values) for name, values in columns.items()]).with_columns(
            pl.col("beta", "standard_error", "statistic", "p_value", "neg_log_10_p_value", "effect_allele_frequency").fill_nan(None),
            reason=reasons.gather(columns["code"].astype(np.uint32)),
            test=pl.lit("linear"),
        )


def aligned_sheet(stage: str, people: pl.DataFrame, sheet: pl.DataFrame) -> pl.DataFrame:
    """The sheet's rows in the order of a genotype table's people, nulls for people with no row.

    Raises DataError where the sheet names somebody twice, or none of the people.
    """
    twice = sheet.filter(pl.col("sample_id").is_duplicated())["sample_id"].unique(maintain_order=True).to_list()
    if twice:
        raise DataError(f"stage {stage}: the samples table names {len(twice)} people twice, such as {twice[0]!r}. Give one row per person.")
    if sheet.is_empty():
        raise DataError(f"stage {stage}: the samples table has no rows. Did the stages before it match or keep nobody?")
    aligned = people.select("sample_id").join(sheet, on="sample_id", how="left", maintain_order="left")
    if people.join(sheet, on="sample_id", how="semi").height == 0:
        ours, theirs = people["sample_id"].head(2).to_list(), sheet["sample_id"].head(2).to_list()
        raise DataError(
            f"stage {stage}: no sample_id of the samples table ({theirs}) is in the genotype table ({ours}). Are the ids written alike?"
        )
    return aligned


def _tally(designs: list[Design]) -> dict[str, int]:
    return {f"people_{trait}": design.used for design in designs for trait in design.trait_names}
