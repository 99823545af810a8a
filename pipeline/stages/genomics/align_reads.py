"""Reads aligned to a reference genome by minimap2's library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.genome.columns import dtypes_of, need_known
from pipeline.genome.fasta import reference_path
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._mapping import COLUMNS, SUPPLEMENTARY, UNMAPPED, aligner, alignments, need_mappy
from pipeline.stages.genomics._reference import Reference, reference_field
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

READ = ("sample_id", "read_id", "bases", "base_qualities")
MATE = ("mate_bases", "mate_base_qualities")

Preset = Literal["sr", "map-ont", "map-hifi", "map-pb", "lr:hq", "asm5", "asm10", "asm20", "splice"]


class AlignReads(Whole, name="align_reads", version=1):
    """Align sequencing reads to a reference genome with mappy, minimap2's library: a row an alignment, as SAM has it.

    The rows are those of a fastq input: reads, or pairs (mate_bases), which `preset: sr` aligns together. Where a read lies does not depend
    on the others, so any parts and workers give the same rows. Alignment runs on the workers' processors, in a job with backend: gpu too,
    and a process holds the index of the reference once.

    The alignments are those of `minimap2 -a --secondary=no` of the same version: position (base_pair_location, from 1), mapping_quality,
    cigar with clips, flag, edit_distance, mate and template_length. A read that lies nowhere is a row, too (flag 4), at its mate's place
    where that has one. Supplementary alignments (flag 2048) are rows of their own, with the bases that they align.

    Example:
        {use: align_reads, from: reads, as: alignments, reference: reference.fa.gz, preset: sr}
    """

    counts: ClassVar[Mapping[str, Count]] = {
        "reads": Count("reads", always=True),
        "aligned": Count("aligned", always=True),
        "supplementary": Count("supplementary alignments"),
    }

    reference: str = reference_field()
    preset: Preset = Field(
        "sr", description="minimap2's parameters for a kind of reads: sr short ones and pairs, map-ont Nanopore, map-hifi PacBio."
    )

    def files(self) -> Sequence[str]:
        """The reference."""
        return (reference_path(self.reference),)

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """An alignment's columns. Raises StageError for pairs with a preset of single reads; PlaceError where mappy is not installed."""
        need_mappy()
        schema = schemas["rows"]
        need_known(schema, READ, "rows")
        if MATE[0] in schema.columns:
            need_known(schema, MATE, "rows")
            if self.preset != "sr":
                raise StageError(
                    f"{self.preset!r} aligns single reads, and these are pairs. Use sr, or read them with layout: single.", key="preset"
                )
        Reference.at(self.reference)
        return {"": Schema(pl.Schema(dtypes_of(COLUMNS)))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One map."""
        reference = Reference.at(self.reference)
        return Outcome({"": tables["rows"].named(context.name).map_parts(_aligned, reference, self.preset)})


def _aligned(part: Part, reference: Reference, preset: str) -> Part:
    """The alignments of a part's reads, in their order."""
    rows = part.frame
    schema = pl.Schema(dtypes_of(COLUMNS))
    if not rows.height:
        return Part(schema.to_frame())
    found = alignments(aligner(reference.path, preset, reference.known), rows)
    table = found.select(pl.col(name).cast(dtype) for name, dtype in schema.items())
    extra, unmapped = (int((table["flag"] & bit > 0).sum()) for bit in (SUPPLEMENTARY, UNMAPPED))
    reads_there = table.height - extra
    return Part(table, counts={"reads": reads_there, "aligned": reads_there - unmapped, "supplementary": extra})
