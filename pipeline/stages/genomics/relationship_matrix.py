"""Relationships of all pairs of people, from their genotypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend.arrays import to_host
from pipeline.genome.columns import VARIANT
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.kernels.relationship import GrmSums, shared_variants
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._relationships import (
    MOST_IN_TILES,
    MOST_PEOPLE,
    WHOLE,
    PlacedTile,
    matrix_work,
    need_variants,
    number_of,
    of_tiles,
    placed,
    refuse_apart_in,
    relationships_of,
    summed,
    varying_of,
)
from pipeline.stages.genomics._tiles import people_blocks
from pipeline.tables.budget import Size, row_bytes
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

PAIRS: dict[str, pl.DataType] = {
    "sample_id_1": pl.String(), "sample_id_2": pl.String(), "relationship": pl.Float64(), "variants_shared": pl.Int64(),
}  # fmt: skip
FAMILIES: dict[str, pl.DataType] = {"family_id_1": pl.String(), "family_id_2": pl.String()}
_PAIRS_OF_A_PART = 1 << 21


class RelationshipMatrix(Whole, name="relationship_matrix", version=3):
    """Give the genomic relationship of every pair of people, and of each with themselves, as PLINK 2's --make-rel and GCTA's GRM.

    A row a pair, the matrix's lower triangle row by row: sample_id_1 (the later person), sample_id_2 (the earlier, or the same),
    relationship and variants_shared, of which both are called. It is the mean over the autosomal variants that vary of the products of
    both people's ALT alleles less their mean, over their variance 2f(1 - f); frequencies are everyone's (PLINK's --nonfounders). Dosages
    are used where there are some. People of families have family_id_1 and family_id_2, too. Written as `format: grm` it is GCTA's files.
    Of more than 5,000 people it is made in tiles on local disk (6 bytes times the square of the people), of 60,000 at most; on GPUs it is
    held, of 10,000 at most.

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

    def of_pairs(self, rows: int, labels: int) -> str:
        """How many pairs of people there are, how long they take, and where the matrix lies."""
        return matrix_work(labels, rows, 12)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Sums over the parts or tiles of people, then the matrix's rows, some at a time. Waits for the number of people."""
        genotypes, submit, name = tables["genotypes"], context.session.submit, context.name
        genotypes = (genotypes if genotypes.cheap else genotypes.hold()).named(name)
        people, on_gpu = people_of(genotypes), context.session.backend == "gpu"
        most, remedy = MOST_PEOPLE if on_gpu else MOST_IN_TILES, "Take a sample of them (sample, keep_people)."
        number = context.session.value(submit(number_of, people, most, "relationships are", remedy, stage=name))
        used = varying_of(genotypes, people).futures()
        make = self._whole if number <= WHOLE or on_gpu else self._in_tiles
        rows, variants = make(used, people, number, context)
        size = Size(number * (number + 1) // 2, row_bytes(Schema(pl.Schema(PAIRS | FAMILIES))))
        return Outcome({"": replace(rows, size=size)}, counts=submit(_tally, people, variants, stage=name))

    def _whole(self, used: Sequence[Any], people: Any, number: int, context: Context) -> tuple[Table, Any]:
        """The rows, of the matrix that is held, and a future of how many variants it is."""
        submit, name = context.session.submit, context.name
        total = summed(used, people, context)
        rows = _ranges(slice(0, number), number, context).map_parts(_rows, people, submit(_matrix, total, people, stage=name))
        return rows, submit(_variants, total, stage=name)

    def _in_tiles(self, used: Sequence[Any], people: Any, number: int, context: Context) -> tuple[Table, Any]:
        """The same, of tiles on disk: those of a row of them make the rows of its people."""
        submit, name = context.session.submit, context.name
        tiles = of_tiles(placed, used, number, context, True)
        checked = submit(_checked, people, *(submit(_apart, tile, stage=name) for tile in tiles), stage=name)
        strips = list[Table]()
        for i, block in enumerate(people_blocks(number)):
            strip = tiles[i * (i + 1) // 2 : (i + 1) * (i + 2) // 2]
            strips.append(_ranges(block, number, context).map_parts(_rows_of_tiles, people, checked, *strip))
        return strips[0].concat(*strips[1:]), checked


def _ranges(people: slice, number: int, context: Context) -> Table:
    """The first and the last (not included) of some people, whose pairs are a part."""
    step = max(1, _PAIRS_OF_A_PART // max(1, number))
    starts = range(people.start, max(people.stop, 1), step)
    parts = [Part(pl.DataFrame({"first": [start], "last": [min(start + step, people.stop)]})) for start in starts]
    return Table.of(context.session, context.name, parts)


def _variants(total: GrmSums | None) -> int:
    return 0 if total is None else total.variants


def _matrix(total: GrmSums, people: Part) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Relationships and the variants that both have, `[n, n]` each."""
    return relationships_of(total, people.frame["sample_id"]), to_host(shared_variants(total))


def _rows(part: Part, people: Part, matrix: tuple[NDArray[np.float64], NDArray[np.int64]]) -> Part:
    (relationships, shared), rows = matrix, slice(*part.frame.row(0))
    return _pairs(people, rows, relationships[rows], shared[rows])


def _apart(tile: PlacedTile) -> tuple[Any, Any, int]:
    return tile.places, tile.apart, tile.variants


def _checked(people: Part, *apart: tuple[Any, Any, int]) -> int:
    """Of how many variants the tiles are. Raises DataError where two people share none of them."""
    variants = apart[0][2]
    need_variants(variants)
    refuse_apart_in(((places, lacking) for places, lacking, _ in apart), people.frame["sample_id"])
    return variants


def _rows_of_tiles(part: Part, people: Part, _: int, *strip: PlacedTile) -> Part:
    first, rows = strip[0].places[0].start, slice(*part.frame.row(0))
    places = slice(rows.start - first, rows.stop - first)
    relationships = np.hstack([tile.numbers.entries(places) for tile in strip])
    return _pairs(people, rows, relationships, np.hstack([tile.shared.entries(places) for tile in strip if tile.shared is not None]))


def _pairs(people: Part, rows: slice, relationships: NDArray[np.float64], shared: NDArray[Any]) -> Part:
    """Some rows of the lower triangle, of those rows of the matrix."""
    names, later = people.frame["sample_id"].cast(pl.String), np.arange(people.rows)[rows]
    row = np.repeat(later, later + 1)
    column = np.concatenate([np.arange(place + 1) for place in later])
    values = (names.gather(row), names.gather(column), relationships[row - rows.start, column], shared[row - rows.start, column])
    pairs = pl.DataFrame(dict(zip(PAIRS, values, strict=True)), schema=PAIRS)
    if "family_id" not in people.frame.columns:
        return Part(pairs)
    families = people.frame["family_id"].cast(pl.String)
    return Part(pairs.with_columns(families.gather(places).alias(name) for name, places in zip(FAMILIES, (row, column), strict=True)))


def _tally(people: Part, variants: int) -> dict[str, int]:
    return {"people": people.rows, "variants": variants}
