"""Rows of alignments as arrays, and brought together by stretches of the reference. Not a stage."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.genome.columns import need_known
from pipeline.kernels.cigars import Operations, operations, reference_lengths
from pipeline.stages.genomics._mapping import DUPLICATE, FAILED, SECONDARY, UNMAPPED
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

NEEDED = ("sample_id", "flag", "chromosome", "base_pair_location", "mapping_quality", "cigar")
STRETCH = "__stretch__"
LEFT_OUT = UNMAPPED | SECONDARY | FAILED | DUPLICATE


def need_alignments(schema: Schema, *more: str) -> None:
    """Raise StageError for a table without the columns of alignments, or with columns of another kind."""
    need_known(schema, (*NEEDED, *more), "rows")


def counted_rows(rows: pl.DataFrame, min_mapping_quality: int) -> pl.DataFrame:
    """Alignments that count: none that is secondary, a duplicate or failed, and none below a mapping quality."""
    flag = pl.col("flag").cast(pl.Int64)
    placed = pl.all_horizontal(pl.col("chromosome", "base_pair_location", "cigar").is_not_null())
    return rows.filter(placed & (flag & LEFT_OUT == 0) & (pl.col("mapping_quality") >= min_mapping_quality))


def side_by_side(column: pl.Series) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of a column of text side by side, and where each row's begin, with the end of all."""
    lengths = column.str.len_bytes().fill_null(0).to_numpy().astype(np.int64)
    text = "".join(column.fill_null("").to_list()).encode()
    return np.frombuffer(text, np.uint8), np.append(0, np.cumsum(lengths))


def operations_of(rows: pl.DataFrame) -> Operations:
    """The operations of all rows' CIGAR strings."""
    return operations(*side_by_side(rows["cigar"]))


def by_stretch(rows: Table, bases: int, min_mapping_quality: int) -> Table:
    """The alignments that count, with every stretch of so many bases that they reach into (STRETCH); those of one are in one part."""
    cut = rows.map_parts(_in_stretches, bases, min_mapping_quality)
    keys = ["chromosome", STRETCH]
    if len(cut.blocks) == 1 or cut.is_beyond:
        return cut.exchange(keys)
    return cut.shuffled(keys, cut.buckets())


def _in_stretches(part: Part, bases: int, min_mapping_quality: int) -> Part:
    rows = counted_rows(part.frame, min_mapping_quality)
    lengths = reference_lengths(operations_of(rows), rows.height)
    start = pl.col("base_pair_location") - 1
    last = start + pl.Series("reach", lengths, pl.Int64) - 1
    numbers = pl.int_ranges(start // bases, pl.max_horizontal(start, last) // bases + 1)
    found = rows.with_columns(numbers.alias(STRETCH)).explode(STRETCH, empty_as_null=False)
    return Part(found)
