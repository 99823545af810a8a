"""What outputs of VCF and of BCF share: the lines of each part, put together as one bgzipped VCF."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import polars as pl

from pipeline.errors import JobError
from pipeline.format import JoinedOutput, Piece
from pipeline.formats._bgzip.blocks import EOF_BLOCK
from pipeline.formats._bgzip.writer import bgzip
from pipeline.formats._genotypes_written import array_of, names_checked, need_genotypes
from pipeline.formats._joined import join_files
from pipeline.formats._vcf.genotype_lines import genotype_lines
from pipeline.formats._vcf.site_written import WRITTEN, check_written, described, merged
from pipeline.formats._vcf.text import ARRAYS_OF
from pipeline.formats._vcf.writing import CALL, MORE, checked, fields_of, header_of, lines_of
from pipeline.genome.builds import Build, build_field
from pipeline.tables.part import Part, Schema


class RecordsOutput(JoinedOutput):
    """Base of outputs of a genotype table, or of one with a row a variant and sample, as the records of a VCF."""

    member: ClassVar[str] = "vcf"  # what the pieces of the final file are called, as its ending is

    build: Build = build_field()
    fields: tuple[str, ...] = WRITTEN

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a table without genotypes and without the columns of calls, and for fields that it cannot write."""
        if schema.arrays:
            need_genotypes("a VCF or BCF", schema, columns)
            check_written(self.fields, schema, columns)
        elif self.fields:
            raise JobError("fields are of a genotype table; of calls a row each, QUAL is their call_quality. Leave fields out.")
        elif missing := [name for name in CALL if name not in columns]:
            needed = f"genotypes, or the columns {', '.join(CALL)} (see pileup_calls)"
            raise JobError(f"a VCF needs the column {missing[0]!r}, which is not written here. Needed: {needed}")

    def write_piece(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> Mapping[str, int]:
        """The part's lines; of calls a row each not yet lines, for a variant's may lie in two parts."""
        if part.arrays:
            chromosomes = part.frame["chromosome"].unique(maintain_order=True).cast(pl.String).to_list()
            Path(f"{path}.json").write_text(json.dumps([chromosomes, described(part.frame, self.fields)]), encoding="utf-8")
            with Path(f"{path}.{self.member}").open("wb") as file:
                file.writelines(map(bgzip, genotype_lines(part, axes[array_of(axes)].height, self.fields)))
            return {self.member: part.rows, "json": 0}
        rows = checked(part.frame.select(name for name in (*CALL, *MORE) if name in part.frame.columns))
        rows.write_ipc(f"{path}.{self.member}", compression="lz4")
        return {self.member: rows.height}

    def join(self, pieces: Sequence[Piece], axes: Mapping[str, pl.DataFrame], stem: str) -> Mapping[str, int | None]:
        """The file; the samples of calls a row each in the order of their names."""
        if axes:
            array, found = array_of(axes), [json.loads(Path(piece.file("json")).read_text(encoding="utf-8")) for piece in pieces]
            chromosomes, sites = (merged(one[at] for one in found) for at in range(2))
            fields = ["GT", *["DS"] * (array != ARRAYS_OF["calls"])]
            head = header_of(chromosomes, names_checked(axes[array], "a VCF"), fields, self.build, sites)
            join_files(f"{stem}.vcf.gz", [piece.file(self.member) for piece in pieces], before=bgzip(head.encode()), after=EOF_BLOCK)
            return {".vcf.gz": sum(piece.rows[self.member] for piece in pieces)}
        rows = pl.concat([pl.read_ipc(Path(piece.file(self.member)).read_bytes()) for piece in pieces])
        samples, fields = rows["sample_id"].unique().sort().to_list(), fields_of(rows.columns)
        header = header_of(rows["chromosome"].unique(maintain_order=True).to_list(), samples, fields, self.build)
        join_files(f"{stem}.vcf.gz", [], before=bgzip(header.encode() + lines_of(rows, samples, fields)), after=EOF_BLOCK)
        return {".vcf.gz": rows.height}
