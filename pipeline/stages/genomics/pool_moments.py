"""Moments of several cohorts added, of people who have withdrawn taken away, and covariates dropped: without anybody's genotypes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.errors import DataError
from pipeline.kernels.fixed_digits import carried
from pipeline.stage import ColumnName, Context, Outcome, Whole
from pipeline.stages.genomics._moments import (
    OF_TRAIT,
    TABLE,
    check_moments,
    covariates_in,
    kept_covariates,
    sums_in,
    texts_of,
    without_covariates,
)
from pipeline.stages.genomics._pooled_scan import KEY, WIDTH, check_once
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

_LEAVES = "__leaves__"
_TOP_BIT = 15


class PoolMoments(Whole, name="pool_moments", version=1):
    """Add the moments of cohorts, take away those of people who have withdrawn, and drop covariates, all exactly.

    `moments` are tables of `gwas_moments` or of this stage, put together by `union` where there are several; `withdrawn` is that of the
    people to take away, made with the same traits, covariates and values. The result is to the last bit what `gwas_moments` gives of
    those who are left, but that who lacks a dropped covariate stays left out. Rows are matched by trait,
    chromosome, position, ref and alt; a variant that one of the tables lacks is left out and counted.
    That somebody was taken away who was not there is refused where the number of people or a sum of squares falls below zero; otherwise
    sums do not show it. What is no sum of people's values (logistic models, axes of principal_components, ld_prune, relatedness) is to be
    computed again.

    Example:
        {use: pool_moments, from: {moments: moments, withdrawn: leaving}, as: left, cohort: second_release}
    """

    roles = ("moments", "withdrawn")
    optional: ClassVar[frozenset[str]] = frozenset({"withdrawn"})
    counts: ClassVar[Mapping[str, Count]] = {
        "variants_out": Count("rows of variants and traits"),
        "variants_not_everywhere": Count("rows that a table lacks left out", always=True),
    }

    cohort: str = Field(min_length=1, description="What the people who are left are called.")
    covariates: tuple[ColumnName, ...] | None = Field(None, description="Covariates to keep, in this order; all where it is left out.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a variant and trait. Raises StageError for a table that is none of moments."""
        for role, schema in schemas.items():
            check_moments(schema, role)
        return {"": Schema(pl.Schema(TABLE))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """What the tables hold once; then the rows of a variant and trait together."""
        named = {role: table.named(context.name).map(_marked, role == "withdrawn") for role, table in tables.items()}
        rows = named["moments"].concat(*(table for role, table in named.items() if role != "moments"))
        rows = rows if rows.cheap else rows.hold()
        said = context.session.submit(_together, rows.map_parts(_said).value(), stage=context.name)
        return Outcome({"": rows.exchange(OF_TRAIT).map_parts(self.pooled, said).gather().map_parts(_ordered)})

    def pooled(self, part: Part, said: pl.DataFrame) -> Part:
        """The sums of a part that has all rows of its variants and traits."""
        covariates, _ = covariates_in(said)
        kept = kept_covariates(covariates, self.covariates)
        check_once(part.frame.filter(~pl.col(_LEAVES)), "a cohort", ("cohort", *OF_TRAIT))
        check_once(part.frame.filter(_LEAVES), "the table of those who leave", ("cohort", *OF_TRAIT))
        wanted = said.group_by("trait").agg(tables=pl.len())
        rows = part.frame.join(wanted, on="trait", how="left", maintain_order="left")
        whole = rows.filter(pl.len().over(OF_TRAIT) == pl.col("tables")).sort(*OF_TRAIT, _LEAVES, "cohort")
        frame, sums = self.added(whole, covariates)
        texts = pl.Series(texts_of(without_covariates(sums, covariates, kept)), dtype=pl.String)
        found = frame.with_columns(cohort=pl.lit(self.cohort), covariates=pl.lit(json.dumps(kept)), sums=texts)
        lacking = part.frame.select(OF_TRAIT).n_unique() - found.height
        return Part(found.select(*TABLE), counts={"variants_out": found.height, "variants_not_everywhere": lacking})

    def added(self, rows: pl.DataFrame, covariates: tuple[str, ...]) -> tuple[pl.DataFrame, Any]:
        """The first row of each variant and trait, and its sums `int64[rows, entries, digits]`, of rows that stand together."""
        sums = sums_in(rows, covariates) * np.where(rows[_LEAVES].to_numpy(), -1, 1)[:, None, None]
        starts = np.flatnonzero(rows.select(pl.struct(OF_TRAIT).rle_id().alias("run"))["run"].diff().fill_null(1).to_numpy())
        frame = rows[starts]
        total = carried(np.add.reduceat(sums, starts, axis=0) if len(starts) else sums, WIDTH).astype(np.int64)
        columns = len(covariates) + 3
        first, second = np.triu_indices(columns)
        below = (total[:, first == second, -1] >> _TOP_BIT).any(axis=1)
        if below.any():
            trait, *variant = frame.select(OF_TRAIT).row(int(np.flatnonzero(below)[0]))
            raise DataError(
                f"what would be left of trait {trait!r} at {':'.join(map(str, variant))} has fewer than no people, or a sum of squares "
                "below zero: people were taken away who are not in the moments, or twice, or with other values. Make the moments of those "
                "who leave from the samples table that the cohort's were made from, and take them away once."
            )
        return frame, total


def _marked(rows: pl.LazyFrame, leaves: bool) -> pl.LazyFrame:
    return rows.select(*TABLE, pl.lit(leaves).alias(_LEAVES))


def _said(part: Part) -> Part:
    return Part(part.frame.select("cohort", "trait", "covariates", "digits", _LEAVES).unique())


def _together(said: Part) -> pl.DataFrame:
    found = said.frame.unique().sort(_LEAVES, "cohort", "trait")
    covariates_in(found)
    return found


def _ordered(part: Part) -> Part:
    """By chromosome, position and trait."""
    number = pl.col("chromosome").cast(pl.Int64, strict=False)
    return part.with_frame(part.frame.sort(number, *KEY, "trait"))
