"""Pairs of variants in linkage disequilibrium: PLINK's --r2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.genome.columns import VARIANT, dtypes_of
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.genome.people import check_sex
from pipeline.kernels.linkage_pairs import linked
from pipeline.kernels.linkage_pruning import MORE
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._neighbours import Ahead, Reach, Stretch, aheads, counts_of, neighbours
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, added_counts
from pipeline.tables.table import Table

OF_EACH = ("base_pair_location", "variant_id", "ref", "alt")


class LdTable(Whole, name="ld_table", version=1):
    """Give the pairs of variants within `kb` of one another whose r^2 is `r2` at least: PLINK's --r2, with r and its sign.

    A row a pair, in order of position: chromosome, then base_pair_location, variant_id, ref and alt of the first (`_1`) and of the second
    (`_2`); r, r2. r is the correlation of the calls that count ALT, of founders who have both; its sign is that of ALT with ALT. With
    `haplotypes: true` it is of haplotypes of greatest likelihood, and d_prime is added (--r2 dprime-signed). Variants must be sorted by
    position within a chromosome; on X women count twice, Y is men's alone, and of dosages the calls within 0.1 count. There are as many
    rows as pairs: a window of 1,000 variants has 500 pairs a variant, so keep `r2` well above 0.

    Example:
        {use: ld_table, from: passed, as: ld, kb: 500, r2: 0.2}
    """

    roles = ("genotypes",)
    long = "tables"
    counts: ClassVar[Mapping[str, Count]] = {"variants": Count("variants"), "pairs": Count("pairs in linkage", always=True)}

    kb: float = Field(1000, gt=0, le=1_000_000, description="Thousands of base pairs that the two are apart at most.")
    r2: float = Field(0.2, ge=0, le=1, description="Least r^2 of a pair that is given.")
    haplotypes: bool = Field(default=False, description="r of haplotypes of greatest likelihood instead of calls, and d_prime beside it.")

    @property
    def reach(self) -> Reach:
        """Base pairs that two are apart at most."""
        return Reach(int(self.kb * 1000 * MORE))

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """One row a pair. Raises StageError for positions that are no whole numbers."""
        schema = schemas["genotypes"]
        check_sex(need_genotypes(schema, VARIANT, dosages=True))
        if not schema.columns["base_pair_location"].is_integer():
            raise StageError(f"base_pair_location is {schema.columns['base_pair_location']}, and whole numbers are needed. Cast it.")
        return {"": Schema(self._columns())}

    def _columns(self) -> pl.Schema:
        given = dtypes_of(("chromosome", *OF_EACH))
        pair = {f"{name}_{number}": given[name] for number in (1, 2) for name in OF_EACH}
        numbers = ("r", "r2", "d_prime") if self.haplotypes else ("r", "r2")
        return pl.Schema({"chromosome": given["chromosome"], **pair, **dict.fromkeys(numbers, pl.Float64())})

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A task a part, with the variants of the next parts that it reaches."""
        genotypes, session, name = tables["genotypes"].named(context.name), context.session, context.name
        people, parts = people_of(genotypes), genotypes.futures()
        later = aheads(session, parts, self.reach, name)
        pairs = [session.submit(self.pairs, *given, people, stage=name) for given in zip(parts, later, strict=True)]
        table = Table.of(session, name, pairs)
        return Outcome({"": table}, counts=table.reduce(counts_of, added_counts))

    def pairs(self, part: Part, later: Ahead | None, people: Part) -> Part:
        """The pairs whose first variant is in this part. Raises DataError where variants are not in order."""
        columns = self._columns()
        found = [pl.DataFrame(schema=columns)]
        found += [
            self._of(stretch).select(pl.col(name).cast(dtype) for name, dtype in columns.items())
            for stretch in neighbours(part, later, people.frame, self.reach)
        ]
        pairs = pl.concat(found)
        return Part(pairs, counts={"variants": part.frame.height, "pairs": pairs.height})

    def _of(self, stretch: Stretch) -> pl.DataFrame:
        one, other, r, d_prime = linked(stretch.packed, stretch.ends, stretch.samples.count, self.r2 / MORE, haplotypes=self.haplotypes)
        first, second = (
            stretch.variants.select(OF_EACH)[rows].rename({name: f"{name}_{number}" for name in OF_EACH})
            for number, rows in ((1, one), (2, other))
        )
        numbers = {"r": r, "r2": np.minimum(r * r, 1.0)} | ({"d_prime": d_prime} if self.haplotypes else {})
        pairs = first.hstack(second).hstack(pl.DataFrame(numbers))
        return pairs.select(pl.lit(stretch.chromosome).alias("chromosome"), pl.all())
