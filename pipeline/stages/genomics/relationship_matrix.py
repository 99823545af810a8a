"""Relationships of all pairs of people, from their genotypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        used, step = varying_of(genotypes, people).futures(), max(1, _PAIRS_OF_A_PART // max(1, number))
        make = self._whole if number <= WHOLE or on_gpu else self._in_tiles
        parts, variants = make(used, people, number, step, context)
        counts = submit(_tally, people, variants, stage=name)
        return Outcome({"": Table.of(context.session, name, parts)}, counts=counts)

    def _whole(self, used: Sequence[Any], people: Any, number: int, step: int, context: Context) -> tuple[list[Any], Any]:
        """Futures of the parts, of the matrix that is held, and of how many variants it is."""
        submit, name = context.session.submit, context.name
        total = summed(used, people, context)
        matrix = submit(_matrix, total, people, stage=name)
        starts = range(0, max(1, number), step)
        return [submit(_rows, people, matrix, slice(start, start + step), stage=name) for start in starts], submit(
            _variants, total, stage=name
        )

    def _in_tiles(self, used: Sequence[Any], people: Any, number: int, step: int, context: Context) -> tuple[list[Any], Any]:
        """The same, of tiles on disk: those of a row of them make the parts of its people."""
        submit, name = context.session.submit, context.name
        tiles = of_tiles(placed, used, number, context, True)
        checked = submit(_checked, people, *(submit(_apart, tile, stage=name) for tile in tiles), stage=name)
        parts = list[Any]()
        for i, block in enumerate(people_blocks(number)):
            strip = tiles[i * (i + 1) // 2 : (i + 1) * (i + 2) // 2]
            for start in range(block.start, block.stop, step):
                rows = slice(start, min(start + step, block.stop))
                parts.append(submit(_rows_of_tiles, people, checked, rows, *strip, stage=name))
        return parts, checked


def _matrix(total: GrmSums, people: Part) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Relationships and the variants that both have, `[n, n]` each."""
    return relationships_of(total, people.frame["sample_id"]), to_host(shared_variants(total))


def _variants(total: GrmSums | None) -> int:
    return 0 if total is None else total.variants


def _rows(people: Part, matrix: tuple[NDArray[np.float64], NDArray[np.int64]], rows: slice) -> Part:
    relationships, shared = matrix
    return _pairs(people, rows, relationships[rows], shared[rows])


def _apart(tile: PlacedTile) -> tuple[Any, Any, int]:
    return tile.places, tile.apart, tile.variants


def _checked(people: Part, *apart: tuple[Any, Any, int]) -> int:
    """Of how many variants the tiles are. Raises DataError where two people share none of them."""
    variants = apart[0][2]
    need_variants(variants)
    refuse_apart_in(((places, lacking) for places, lacking, _ in apart), people.frame["sample_id"])
    return variants


def _rows_of_tiles(people: Part, _: int, rows: slice, *strip: PlacedTile) -> Part:
    first = strip[0].places[0].start
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
