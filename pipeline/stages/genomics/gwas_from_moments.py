"""A linear genome scan from the exact sums of products that a cohort left."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from pydantic import Field

from pipeline.kernels.pooled_regression import regressed
from pipeline.stage import ColumnName, Context, Outcome, Share, Whole
from pipeline.stages.genomics._moments import TABLE, check_moments, covariates_in, kept_covariates, sums_in, whole_sums, without_covariates
from pipeline.stages.genomics._pooled_scan import result_rows
from pipeline.stages.genomics._results import COLUMNS, SCHEMA
from pipeline.tables.part import Part, Schema
from pipeline.tables.rounds import go_on
from pipeline.tables.table import Table

_BLOCK_ROWS = 8192


class GwasFromMoments(Whole, name="gwas_from_moments", version=1):
    """Test every variant for an effect on each trait, from the moments of `gwas_moments` or `pool_moments`.

    The rows are those of `linear_gwas` (complete cases, additive coding, autosomes) on the same people: n and reason are the same; beta,
    standard_error, statistic (t) and -log10 p within 1e-10, for values that 40 binary digits after the point hold as well. `covariates`
    may be any of those that the moments were made with; who lacks one that is dropped stays left out.

    Example:
        {use: gwas_from_moments, from: left, as: gwas, covariates: [age]}
    """

    covariates: tuple[ColumnName, ...] | None = Field(
        None, description="Covariates to adjust for; all of the moments where it is left out."
    )
    max_p: Share = Field(1.0, description="Give the rows with at most this p-value; below 1, rows without a result go too.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a variant and trait. Raises StageError for a table that is none of moments."""
        check_moments(schemas["rows"], "the table")
        return {"": Schema(pl.Schema(SCHEMA))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A task a part."""
        return Outcome({"": tables["rows"].named(context.name).map_parts(self.tested)})

    def tested(self, part: Part) -> Part:
        """The results of a part's rows, in their order."""
        found = [pl.DataFrame(schema=SCHEMA).select(COLUMNS)]
        for start in range(0, part.frame.height, _BLOCK_ROWS):
            go_on()
            rows = part.frame[start : start + _BLOCK_ROWS].select(*TABLE)
            covariates, digits = covariates_in(rows)
            kept = kept_covariates(covariates, self.covariates)
            sums = whole_sums(without_covariates(sums_in(rows, covariates), covariates, kept), kept)
            found.append(result_rows(rows, regressed(sums, digits), self.max_p))
        return Part(pl.concat(found))
