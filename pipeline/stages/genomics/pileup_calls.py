"""Variants and genotypes called from alignments, position by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.genome.columns import dtypes_of
from pipeline.genome.fasta import reference_path
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._alignments import STRETCH, by_stretch, need_alignments
from pipeline.stages.genomics._mapping import PAIRED, PROPER
from pipeline.stages.genomics._piled import COLUMNS, Asked, Stretch, call_stretch
from pipeline.stages.genomics._reference import Reference, reference_field
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

STRETCH_BASES = 25_000  # small enough for what lies on it to stay in a processor's caches


class PileupCalls(Whole, name="pileup_calls", version=1):
    """Call SNVs and short insertions and deletions of diploid samples from their aligned reads: a row a variant and sample.

    The rows are alignments, as align_reads gives them, of one sample or several, which are called together. Of the reads over a position
    the likelihoods of 0/0, 0/1 and 1/1 are those of Li (2011, Bioinformatics 27:2987, equation 2): reads are independent, a base is wrong
    as often as its quality says, or its read's mapping quality where that is lower. Before reads are seen a sample is 0/1 with probability
    `heterozygosity` and 1/1 with half of it. ALT is the other base that its reads are surest of, one a position. An insertion or deletion
    is one that the alignments have at the base before it; a read has one of its own once in 10,000 times. No reads are aligned anew, so
    calls of long repeats need a caller that does.

    Mates that overlap count once. Left out are alignments that are secondary, duplicates, failed, or of pairs that do not lie as a pair
    should, and those below `min_mapping_quality`; and positions of a sample where more of its reads have a deletion than a base.

    Gives chromosome, base_pair_location, variant_id, ref, alt, call_quality (QUAL), sample_id, genotype, genotype_quality (GQ), depth (DP),
    ref_depth and alt_depth (AD), in the order of the reference: what the output format vcf writes.

    Example:
        {use: pileup_calls, from: alignments, as: calls, reference: reference.fa.gz, min_quality: 20}
    """

    counts: ClassVar[Mapping[str, Count]] = {"variants": Count("variants", always=True), "indels": Count("insertions and deletions")}

    reference: str = reference_field()
    min_quality: float = Field(20.0, ge=0, description="Least QUAL of a variant: -10 log10 of the probability that no sample has it.")
    min_base_quality: int = Field(13, ge=0, le=93, description="Leave bases of lower quality out.")
    min_mapping_quality: int = Field(1, ge=0, le=255, description="Leave alignments of lower mapping quality out.")
    min_reads: int = Field(2, ge=1, description="Least reads with ALT, over all samples.")
    heterozygosity: float = Field(0.001, gt=0, lt=0.5, description="How often a position of a sample is heterozygous: 0.001 for people.")

    def files(self) -> Sequence[str]:
        """The reference."""
        return (reference_path(self.reference),)

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a variant and sample."""
        need_alignments(schemas["rows"], "read_id", "bases", "base_qualities")
        Reference.at(self.reference)
        return {"": Schema(pl.Schema(dtypes_of(COLUMNS)))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Stretches of the reference, each called by itself; all calls in one part, in order."""
        reference = Reference.at(self.reference)
        asked = Asked(self.min_base_quality, self.min_reads, self.min_quality, self.heterozygosity)
        rows = tables["rows"].named(context.name).map(_together)
        stretches = by_stretch(rows, STRETCH_BASES, self.min_mapping_quality)
        found = stretches.map_parts(partial(_called, reference, asked)).gather()
        return Outcome({"": found.map_parts(partial(_in_order, reference))})


def _together(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Without pairs that do not lie as a pair should."""
    flag = pl.col("flag").cast(pl.Int64)
    return rows.filter((flag & PAIRED == 0) | (flag & PROPER != 0))


def _called(reference: Reference, asked: Asked, part: Part) -> Part:
    """The variants of every stretch of a part. DataError for a chromosome that the reference has not."""
    found, sequences = [pl.DataFrame(schema=dtypes_of(COLUMNS))], reference.sequences()
    reference.need(part.frame["chromosome"].unique())
    for (name, number), rows in part.frame.group_by("chromosome", STRETCH):
        low = int(str(number)) * STRETCH_BASES
        high = min(low + STRETCH_BASES, len(sequences[str(name)]))
        found.append(call_stretch(rows, Stretch(str(name), sequences[str(name)], low, high), asked))
    return Part(pl.concat(found))


def _in_order(reference: Reference, part: Part) -> Part:
    """The rows in the order of the reference; what was called is counted."""
    order = {name: at for at, name in enumerate(reference.lengths())}
    rows = part.frame.with_columns(pl.col("chromosome").replace_strict(order, return_dtype=pl.Int64).alias("order"))
    rows = rows.sort("order", "base_pair_location", "ref", "alt", "sample_id").drop("order")
    variants = rows.select("variant_id", "ref", "alt").unique()
    indels = variants.filter(pl.col("ref").str.len_bytes() != pl.col("alt").str.len_bytes()).height
    return Part(rows, counts={"variants": variants.height, "indels": indels})
