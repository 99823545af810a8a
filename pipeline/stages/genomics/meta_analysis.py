"""Meta-analysis of genome scans: effects of several studies pooled by variant and trait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from pipeline.errors import DataError, StageError
from pipeline.genome.chromosomes import HUMAN, chromosome_key
from pipeline.genome.columns import dtypes_of, need_known
from pipeline.kernels.p_values import z_test_p_values
from pipeline.kernels.pooled_effects import PooledEffects, pooled_effects
from pipeline.stage import Context, Outcome, Whole
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, hidden
from pipeline.tables.table import Table

VARIANT = ("chromosome", "base_pair_location", "effect_allele", "other_allele")
NEEDED = (*VARIANT, "beta", "standard_error")
NAMED = ("variant_id", "trait")
GIVEN = ("effect_allele_frequency", "n")
NUMBERS = ("beta", "standard_error", "effect_allele_frequency", "p_value", "neg_log_10_p_value", "statistic", "n")
MORE: dict[str, pl.DataType] = {
    "studies": pl.Int64(),
    "directions": pl.String(),
    "beta_random": pl.Float64(),
    "standard_error_random": pl.Float64(),
    "p_value_random": pl.Float64(),
    "neg_log_10_p_value_random": pl.Float64(),
    "q": pl.Float64(),
    "p_heterogeneity": pl.Float64(),
    "i_squared": pl.Float64(),
    "tau_squared": pl.Float64(),
}
_KEY = ["chromosome", "base_pair_location", "__first__", "__second__", "trait"]
_STUDY, _TURNED = "__study__", "__turned__"


class MetaAnalysis(Whole, name="meta_analysis", version=1):
    """Pool the effects of several scans by variant and trait: fixed and random effects, and whether the studies differ.

    `from` names the scans by study: tables of linear_gwas, logistic_gwas or cox_gwas, or GWAS-SSF files. Rows meet by chromosome (chr1 and
    1 are one), position, both alleles and, where all tables have one, trait; an effect of the other allele is turned round. Strands are
    never guessed, and alleles that are not the same two are another variant. Effects must be in one unit, of people who are in one study
    alone.

    beta, standard_error, p_value are those of fixed effects (inverse variances), `_random` those of random effects (DerSimonian and
    Laird). q is Cochran's, p_heterogeneity its p-value by chi-square, i_squared the share of the differences that is not chance,
    tau_squared the variance between studies; null where one study has the variant. directions has a sign a study, ? where it lacks the
    variant. effect_allele is that of the first study that has it, effect_allele_frequency the mean weighed by n (plainly where a table
    lacks n), n the sum. Rows without beta or with a standard error that is not above 0 are left out and counted.

    Example:
        {use: meta_analysis, from: {berlin: gwas_berlin, oslo: gwas_oslo}, as: both, min_studies: 2}
    """

    roles: ClassVar[tuple[str, ...]] = ("**",)
    counts: ClassVar[Mapping[str, Count]] = {
        "without_effect": Count("rows without an effect", always=True),
        "turned": Count("rows of the other allele, turned round", always=True),
        "variants": Count("variants"),
        "in_few_studies": Count("variants in too few studies"),
    }

    min_studies: int = Field(1, ge=1, description="Give the variants that so many studies have at least.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a variant and trait. Raises StageError for fewer than two tables, and for more studies asked for than there are."""
        if len(schemas) < 2:
            raise StageError("meta_analysis pools two studies or more; `from` names one. Give each a name: from: {berlin: a, oslo: b}")
        if self.min_studies > len(schemas):
            raise StageError(f"{self.min_studies} studies are asked for, and there are {len(schemas)}", key="min_studies")
        for study, schema in schemas.items():
            need_known(schema, NEEDED, study)
            need_known(schema, (name for name in (*NAMED, *GIVEN) if name in schema.columns), study)
        return {"": Schema(pl.Schema(self._columns(schemas)))}

    def _columns(self, schemas: Mapping[str, Schema]) -> dict[str, pl.DataType]:
        traits = ("trait",) if all("trait" in schema.columns for schema in schemas.values()) else ()
        return dtypes_of((*VARIANT, "variant_id", *traits, *NUMBERS)) | MORE

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Each study's rows with one name a variant, put together, and pooled where a variant's rows are in one part."""
        schemas = {study: table.schema for study, table in tables.items()}
        assert all(schema is not None for schema in schemas.values())
        columns = self._columns({study: schema for study, schema in schemas.items() if schema is not None})
        first, *others = (
            table.named(context.name).map_parts(_aligned, place, "trait" in columns) for place, table in enumerate(tables.values())
        )
        rows = first.concat(*others).named(context.name).exchange(_KEY).map(_in_order)
        return Outcome({"": rows.map_parts(self.pooled, list(tables), columns)})

    def pooled(self, part: Part, studies: list[str], columns: Mapping[str, pl.DataType]) -> Part:
        """The variants of a part. Raises DataError for one that a study has twice."""
        frame = part.frame
        first = frame.select(pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in _KEY)).to_series()
        group = (first.cum_sum().cast(pl.Int64) - 1).to_numpy() if frame.height else np.empty(0, np.int64)
        study = frame[_STUDY].to_numpy()
        _need_once(frame, group, study, studies)
        starts = np.flatnonzero(first.to_numpy()) if frame.height else np.empty(0, np.int64)
        values = {name: _spread(frame, name, (group, study), (len(starts), len(studies))) for name in ("beta", "standard_error", *GIVEN)}
        found = pooled_effects(values["beta"], values["standard_error"])
        rows = frame[starts].with_columns(_numbers(values, found)).with_columns(**_alleles())
        few, turned = found.studies < self.min_studies, frame[_TURNED].to_numpy()
        counts = {"variants": int((~few).sum()), "in_few_studies": int(few.sum())}
        counts["turned"] = int((turned != turned[starts][group]).sum()) if len(starts) else 0
        return Part(rows.filter(pl.Series(~few)).select(pl.col(name).cast(dtype) for name, dtype in columns.items()), counts=counts)


def _aligned(part: Part, place: int, traits: bool) -> Part:
    """A study's rows as they are pooled: of the lesser of both alleles, and whether they were turned round for that."""
    rows = part.frame
    has = {name: pl.col(name) if name in rows.columns else pl.lit(None) for name in (*NAMED, *GIVEN)}
    turned = pl.col("effect_allele") > pl.col("other_allele")
    known = rows.filter(pl.col("beta").is_finite() & pl.col("standard_error").is_finite() & (pl.col("standard_error") > 0))
    frequency = has["effect_allele_frequency"].cast(pl.Float64)
    frame = known.select(
        chromosome_key(autosomes=HUMAN).alias("chromosome"),
        pl.col("base_pair_location").cast(pl.Int64),
        pl.min_horizontal("effect_allele", "other_allele").alias("__first__"),
        pl.max_horizontal("effect_allele", "other_allele").alias("__second__"),
        (has["trait"] if traits else pl.lit("")).cast(pl.String).alias("trait"),
        pl.lit(place, pl.Int32).alias(_STUDY),
        turned.alias(_TURNED),
        has["variant_id"].cast(pl.String).alias("variant_id"),
        pl.when(turned).then(-pl.col("beta")).otherwise("beta").cast(pl.Float64).alias("beta"),
        pl.col("standard_error").cast(pl.Float64),
        pl.when(turned).then(1 - frequency).otherwise(frequency).alias("effect_allele_frequency"),
        has["n"].cast(pl.Float64).alias("n"),
    )
    return Part(frame, counts={"without_effect": rows.height - known.height})


def _in_order(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.sort([*_KEY, _STUDY], nulls_last=True).select(pl.all(), *hidden(rows))


def _need_once(frame: pl.DataFrame, group: NDArray[np.int64], study: NDArray[np.int32], studies: list[str]) -> None:
    """Raise DataError for a variant and trait that a study has twice."""
    twice = np.flatnonzero((np.diff(group) == 0) & (np.diff(study) == 0))
    if twice.size:
        row = frame.row(int(twice[0]), named=True)
        where = f"{row['chromosome']}:{row['base_pair_location']} {row['__first__']}/{row['__second__']}"
        of = f" for trait {row['trait']!r}" if row["trait"] else ""
        remedy = "Use drop_duplicates by its position and alleles before."
        raise DataError(f"study {studies[row[_STUDY]]!r} has the variant {where} more than once{of}. {remedy}")


def _spread(frame: pl.DataFrame, name: str, at: tuple[Any, Any], shape: tuple[int, int]) -> NDArray[np.float64]:
    """A column's values by variant and study, NaN where there is none."""
    found = np.full(shape, np.nan)
    found[at] = frame[name].fill_null(float("nan")).to_numpy()
    return found


def _numbers(values: Mapping[str, NDArray[np.float64]], found: PooledEffects) -> list[pl.Series]:
    """The columns of pooled numbers, still of the lesser allele."""
    columns = {field.name: getattr(found, field.name) for field in fields(found)}
    for suffix in ("", "_random"):
        z = columns[f"beta{suffix}"] / columns[f"standard_error{suffix}"]
        columns[f"p_value{suffix}"], columns[f"neg_log_10_p_value{suffix}"] = z_test_p_values(z)
        columns |= {} if suffix else {"statistic": z}
    frequency, n = (np.where(np.isfinite(values["beta"]), values[name], np.nan) for name in GIVEN)
    there = np.isfinite(values["beta"])
    weights = np.where(np.isfinite(frequency), np.where((np.isfinite(n) | ~there).all(axis=1, keepdims=True), n, 1.0), 0.0)
    weights = np.nan_to_num(weights)
    with np.errstate(invalid="ignore"):
        columns["effect_allele_frequency"] = (weights * np.nan_to_num(frequency)).sum(axis=1) / weights.sum(axis=1)
    columns["n"] = np.where((np.isfinite(n) | ~there).all(axis=1), np.nansum(n, axis=1), np.nan)
    signs = np.where(there, np.where(values["beta"] > 0, "+", np.where(values["beta"] < 0, "-", "0")), "?")
    series = [pl.Series(name, column, nan_to_null=True) for name, column in columns.items()]
    return [*series, pl.Series("directions", ["".join(row) for row in signs], dtype=pl.String)]


def _alleles() -> dict[str, pl.Expr]:
    """Alleles and effects as the first study that has the variant has them."""
    turned = pl.col(_TURNED)
    swapped = {"+": "-", "-": "+"}
    other = {name: pl.when(turned).then(-pl.col(name)).otherwise(name) for name in ("beta", "beta_random", "statistic")}
    frequency = pl.col("effect_allele_frequency")
    return {
        "effect_allele": pl.when(turned).then("__second__").otherwise("__first__"),
        "other_allele": pl.when(turned).then("__first__").otherwise("__second__"),
        "directions": pl.when(turned).then(pl.col("directions").str.replace_many(swapped)).otherwise("directions"),
        "effect_allele_frequency": pl.when(turned).then(1 - frequency).otherwise(frequency),
        **other,
    }
