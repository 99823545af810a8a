"""How many reads cover the reference, by windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.genome.columns import dtypes_of
from pipeline.genome.fasta import reference_path
from pipeline.kernels.cigars import expanded
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._alignments import counted_rows, need_alignments, operations_of
from pipeline.stages.genomics._reference import Reference, reference_field
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

COLUMNS = ("sample_id", "chromosome", "start", "end", "mean_depth")
KEYS = ["sample_id", "chromosome", "start"]
_BASES = "__bases__"


class Coverage(Whole, name="coverage", version=1):
    """Count how many reads cover the reference, for each sample and window: sample_id, chromosome, start, end, mean_depth.

    The rows are alignments, as align_reads gives them. A base counts where it lies on one of the reference (M, =, X of the CIGAR), as
    `samtools depth` has it: bases that are deleted, clipped or inserted do not, both mates of a pair that overlap do, and alignments that
    are secondary, duplicates or failed do not. Every window of the reference is there, for every sample that has a row; the last one of a
    chromosome may be shorter. `window: 1` is the depth of each base.

    Example:
        {use: coverage, from: alignments, as: depths, reference: reference.fa.gz, window: 1000}
    """

    reference: str = reference_field()
    window: int = Field(1_000, ge=1, description="Bases of a window.")
    min_mapping_quality: int = Field(0, ge=0, le=255, description="Leave alignments of lower mapping quality out.")

    def files(self) -> Sequence[str]:
        """The reference."""
        return (reference_path(self.reference),)

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A window's columns."""
        need_alignments(schemas["rows"])
        Reference.at(self.reference)
        return {"": Schema(pl.Schema(dtypes_of(COLUMNS)))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Sums of each part, those of the same windows put together, and the windows without a read."""
        rows, reference = tables["rows"].named(context.name), Reference.at(self.reference)
        rows = rows if rows.cheap else rows.hold()
        sums = rows.map_parts(_sums, reference, self.window, self.min_mapping_quality)
        samples = rows.reduce(_samples, _together)
        empty = Table.of(
            context.session, context.name, [context.session.submit(_empty, samples, reference, self.window, stage=context.name)]
        )
        both = sums.concat(empty.named(context.name))
        return Outcome({"": both.exchange(KEYS).map(_added).map_parts(partial(_means, reference, self.window))})


def _samples(part: Part) -> list[str]:
    names: list[str] = part.frame["sample_id"].unique().drop_nulls().to_list()
    return names


def _together(names: list[list[str]]) -> list[str]:
    return sorted({name for some in names for name in some})


def _empty(samples: list[str], reference: Reference, window: int) -> Part:
    """Every window of every sample, with no bases."""
    windows = [
        pl.DataFrame({"chromosome": [name]}).join(pl.DataFrame({"start": np.arange(0, length, window) + 1}), how="cross")
        for name, length in reference.lengths().items()
    ]
    found = pl.DataFrame({"sample_id": pl.Series(samples, dtype=pl.String)}).join(pl.concat(windows), how="cross")
    return Part(found.with_columns(pl.lit(0, pl.Int64).alias(_BASES)))


def _sums(part: Part, reference: Reference, window: int, min_mapping_quality: int) -> Part:
    """Bases that a part's alignments lay on each window. DataError for a place that the reference has not."""
    rows = counted_rows(part.frame, min_mapping_quality)
    reference.need(rows["chromosome"].unique())
    found = operations_of(rows).aligned
    begin = rows["base_pair_location"].to_numpy()[found.read] - 1 + found.on_reference
    first, last = begin // window, (begin + found.length - 1) // window
    number, which = expanded(first, last - first + 1)
    low = np.maximum(begin[which], number * window)
    high = np.minimum((begin + found.length)[which], (number + 1) * window)
    places = rows.select("sample_id", "chromosome")[found.read[which]]
    table = places.with_columns(pl.Series("start", number * window + 1), pl.Series(_BASES, high - low))
    return Part(table.group_by(KEYS).agg(pl.col(_BASES).sum()))


def _added(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.group_by(KEYS).agg(pl.col(_BASES).sum())


def _means(reference: Reference, window: int, part: Part) -> Part:
    """Depths, in the reference's order within the part."""
    lengths = pl.DataFrame(
        {"chromosome": list(reference.lengths()), "length": list(reference.lengths().values())},
        schema={"chromosome": pl.String, "length": pl.Int64},
    )
    rows = part.frame.join(lengths.with_row_index("order"), on="chromosome", how="left")
    end = pl.min_horizontal(pl.col("start") + window - 1, "length").alias("end")
    found = rows.with_columns(end).sort("sample_id", "order", "start")
    mean = (pl.col(_BASES) / (pl.col("end") - pl.col("start") + 1)).alias("mean_depth")
    return Part(found.with_columns(mean).select(pl.col(name).cast(dtype) for name, dtype in dtypes_of(COLUMNS).items()))
