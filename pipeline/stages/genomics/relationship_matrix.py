"""Relationships of all pairs of people, from their genotypes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend.arrays import to_host
from pipeline.genome.columns import VARIANT
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.kernels.relationship import GrmSums, shared_variants
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._relationships import few_enough, relationships_of, summed, varying_of
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

PAIRS: dict[str, pl.DataType] = {
    "sample_id_1": pl.String(), "sample_id_2": pl.String(), "relationship": pl.Float64(), "variants_shared": pl.Int64(),
}  # fmt: skip
FAMILIES: dict[str, pl.DataType] = {"family_id_1": pl.String(), "family_id_2": pl.String()}
_PAIRS_OF_A_PART = 1 << 21


class RelationshipMatrix(Whole, name="relationship_matrix", version=2):
    """Give the genomic relationship of every pair of people, and of each with themselves, as PLINK 2's --make-rel and GCTA's GRM.

    A row a pair, the matrix's lower triangle row by row: sample_id_1 (the later person), sample_id_2 (the earlier, or the same),
    relationship and variants_shared, of which both are called. It is the mean over the autosomal variants that vary of the products of
    both people's ALT alleles less their mean, over their variance 2f(1 - f); frequencies are everyone's (PLINK's --nonfounders). Dosages
    are used where there are some. People of families have family_id_1 and family_id_2, too. Written as `format: grm` it is GCTA's files.
    For 10,000 people at most: 50 million rows.

    Example:
        {use: relationship_matrix, from: pruned, as: relationships}
    """

    roles = ("genotypes",)
    long = "tables"
    counts: ClassVar[Mapping[str, Count]] = {"people": Count("people"), "variants": Count("variants")}

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row per pair."""
        people = need_genotypes(schemas["genotypes"], VARIANT, dosages=True)
        return {"": Schema(pl.Schema(PAIRS | (FAMILIES if "family_id" in people else {})))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Sums over the parts, then the matrix's rows, some at a time. Waits for the number of people."""
        genotypes, submit, name = tables["genotypes"], context.session.submit, context.name
        genotypes = (genotypes if genotypes.cheap else genotypes.hold()).named(name)
        people = submit(few_enough, people_of(genotypes), stage=name)
        number = context.session.value(submit(_number, people, stage=name))
        total = summed(varying_of(genotypes, people).futures(), people, context)
        step = max(1, _PAIRS_OF_A_PART // max(1, number))
        matrix = submit(_matrix, total, people, stage=name)
        parts = [submit(_rows, people, matrix, slice(start, start + step), stage=name) for start in range(0, max(1, number), step)]
        return Outcome({"": Table.of(context.session, name, parts)}, counts=submit(_tally, people, total, stage=name))


def _number(people: Part) -> int:
    return people.rows


def _matrix(total: GrmSums, people: Part) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Relationships and the variants that both have, `[n, n]` each."""
    return relationships_of(total, people.frame["sample_id"]), to_host(shared_variants(total))


def _rows(people: Part, matrix: tuple[NDArray[np.float64], NDArray[np.int64]], rows: slice) -> Part:
    """Some rows of the lower triangle."""
    (relationships, shared), names = matrix, people.frame["sample_id"].cast(pl.String)
    later = np.arange(people.rows)[rows]
    row = np.repeat(later, later + 1)
    column = np.concatenate([np.arange(place + 1) for place in later])
    values = (names.gather(row), names.gather(column), relationships[row, column], shared[row, column])
    pairs = pl.DataFrame(dict(zip(PAIRS, values, strict=True)), schema=PAIRS)
    if "family_id" not in people.frame.columns:
        return Part(pairs)
    families = people.frame["family_id"].cast(pl.String)
    return Part(pairs.with_columns(families.gather(places).alias(name) for name, places in zip(FAMILIES, (row, column), strict=True)))


def _tally(people: Part, total: GrmSums) -> dict[str, int]:
    return {"people": people.rows, "variants": total.variants}
