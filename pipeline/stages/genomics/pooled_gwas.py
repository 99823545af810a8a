"""A linear genome scan of the people of several sites, from the masked sums that each of them gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.kernels.pooled_regression import regressed
from pipeline.stage import Context, Outcome, Share, Whole, need_columns
from pipeline.stages.genomics._pooled_scan import KEY, MOST_BITS, TABLE, check_once, entries_of, pooled_sums, result_rows
from pipeline.stages.genomics._results import SCHEMA
from pipeline.stages.models._pooled.masks import Agreed
from pipeline.stages.models._pooled.pooling import AGREED, agreed_in
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.tables.rounds import go_on
from pipeline.tables.table import Table

_BLOCK_NUMBERS = 1 << 18


class PooledGwas(Whole, name="pooled_gwas", version=1):
    """Test every variant for an effect on the trait, on the people of all sites, from the union of the tables of `site_gwas_sums`.

    The rows are those of `linear_gwas` on the pooled people, with the covariates of the study and an intercept, by chromosome and position:
    beta, standard_error, statistic (t) and p_value agree with it to 1e-8, for values that the study's digits hold as well (40 binary digits
    after the point). With `missing: mean` a missing call counts as the mean at its site. Variants are matched by chromosome, position, ref
    and alt; one that is not at all sites keeps its masks: it is left out and counted. variant_id is the first site's. Every site of the
    study must be there, with the same study, sites, columns and digits; masks that do not cancel are refused.

    Example:
        {use: pooled_gwas, from: sums_of_all, as: gwas}
    """

    counts: ClassVar[Mapping[str, Count]] = {
        "sites": Count("sites"),
        "variants_out": Count("variants at all sites"),
        "variants_not_everywhere": Count("variants not at all sites left out", always=True),
    }

    max_p: Share = Field(1.0, description="Give the rows with at most this p-value; below 1, rows without a result go too.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a variant. Raises StageError for a table that is none of `site_gwas_sums`."""
        schema = schemas["rows"]
        need_columns(schema, TABLE, key="from")
        for name, dtype in TABLE.items():
            if schema.columns[name] != dtype:
                raise StageError(
                    f"column {name!r} is {schema.columns[name]}, and {dtype} in a table of site_gwas_sums. Cast it.", key="from"
                )
        return {"": Schema(pl.Schema(SCHEMA))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """What is agreed once; then the rows of a variant together, and a task a part of them."""
        submit, name = context.session.submit, context.name
        rows = tables["rows"].named(name)
        rows = rows if rows.cheap else rows.hold()
        agreed = submit(_agreed, rows.map_parts(_said).value(), stage=name)
        found = rows.exchange(KEY).map_parts(self.pooled, agreed).gather().map_parts(_ordered)
        return Outcome({"": found}, counts=submit(_counts, agreed, stage=name))

    def pooled(self, part: Part, agreed: Agreed) -> Part:
        """The results of a part that has all rows of its variants."""
        check_once(part.frame, "the table of a site", ("site", *KEY))
        places = {site: place for place, site in enumerate(agreed.sites)}
        several = part.frame.filter(pl.len().over(KEY) == len(agreed.sites))
        order = pl.col("site").replace_strict(places, return_dtype=pl.Int64)
        rows = several.sort(*KEY, order)
        sites = len(agreed.sites)
        step = sites * max(1, _BLOCK_NUMBERS // entries_of(agreed))
        blocks = [rows[start : start + step] for start in range(0, max(1, rows.height), step)]
        left = part.frame.filter(pl.len().over(KEY) < sites).select(KEY).n_unique() if several.height < part.frame.height else 0
        found = concat_parts([self.tested(block, agreed) for block in blocks])
        return Part(found.frame, counts={"variants_out": rows.height // sites, "variants_not_everywhere": left})

    def tested(self, rows: pl.DataFrame, agreed: Agreed) -> Part:
        """The results of some variants, whose rows stand together."""
        go_on()
        variants = rows.gather_every(len(agreed.sites)).with_columns(trait=pl.lit(agreed.columns[-2]))
        return Part(result_rows(variants, regressed(pooled_sums(rows, agreed), agreed.digits), self.max_p))


def _said(part: Part) -> Part:
    return Part(part.frame.select(*AGREED, "site").unique())


def _agreed(said: Part) -> Agreed:
    return agreed_in(said.frame.unique(), "site_gwas_sums", MOST_BITS)


def _ordered(part: Part) -> Part:
    """By chromosome and position."""
    number = pl.col("chromosome").cast(pl.Int64, strict=False)
    return part.with_frame(part.frame.sort(number, "chromosome", "base_pair_location", "other_allele", "effect_allele"))


def _counts(agreed: Agreed) -> dict[str, int]:
    return {"sites": len(agreed.sites)}
