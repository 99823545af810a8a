"""Alignments as BAM: sorted by position, with an index beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

import polars as pl
from pydantic import Field

from pipeline.errors import InputError, JobError, PlaceError
from pipeline.format import JoinedOutput, Piece
from pipeline.genome.fasta import need_fasta, reference_path
from pipeline.tables.part import Part, Schema

_LOCK = Lock()  # samtools keeps its state in the process
_FIELDS = ("read_id", "flag", "chromosome", "base_pair_location", "mapping_quality", "cigar", "mate_chromosome", "mate_location")
_NEEDED = (*_FIELDS, "template_length", "bases", "base_qualities", "edit_distance", "sample_id")


class BamOutput(JoinedOutput):
    """Alignments in one BAM file, sorted by position, and its index: NAME.bam and NAME.bam.bai. Samples are read groups.

    The table is one of align_reads, or has its columns. pysam, which carries samtools, puts the file together from each part's rows.
    """

    name = "bam"

    reference: str = Field(
        min_length=1, description="The FASTA file that was aligned to: its sequences and their lengths stand in the header."
    )

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a table without the columns of alignments; PlaceError where pysam is not installed."""
        if missing := [name for name in _NEEDED if name not in columns]:
            raise JobError(
                f"a BAM file needs the column {missing[0]!r}, which is not written here. Needed: {', '.join(_NEEDED)} (see align_reads)"
            )
        if find_spec("pysam") is None:
            raise PlaceError("pysam, which writes BAM files, is not installed. Install it with: pip install '.[align]'")
        try:
            need_fasta(reference_path(self.reference))
        except InputError as error:
            raise JobError(f"reference: {error.text}") from error

    def write_piece(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> Mapping[str, int]:
        """The part's rows as lines of SAM, and the samples that they have."""
        rows = part.frame
        Path(f"{path}.bam").write_bytes(_lines(rows).write_csv(None, include_header=False, separator="\t", quote_style="never").encode())
        samples = rows["sample_id"].unique().drop_nulls().sort()
        Path(f"{path}.samples").write_text("".join(f"{name}\n" for name in samples), encoding="utf-8")
        return {"bam": rows.height, "samples": 0}

    def join(self, pieces: Sequence[Piece], axes: Mapping[str, pl.DataFrame], stem: str) -> Mapping[str, int | None]:
        """One file by samtools sort, which breaks ties by the order of the rows, and its index."""
        import pysam

        named = {name for piece in pieces for name in Path(piece.file("samples")).read_text(encoding="utf-8").splitlines()}
        with TemporaryDirectory(dir=Path(stem).parent) as folder, _LOCK:
            whole, made = f"{folder}/whole.sam", f"{folder}/whole.bam"
            with Path(whole).open("wb") as target:
                target.write(self._header(sorted(named)).encode())
                for piece in pieces:
                    target.write(Path(piece.file("bam")).read_bytes())
            more = str(pl.thread_pool_size() - 1)  # threads beside this one, which pack blocks; the bytes are the same
            pysam.samtools.sort("--no-PG", "-@", more, "-O", "bam", "-T", f"{folder}/sorting", "-o", made, whole, catch_stdout=False)
            pysam.samtools.index("-b", made, catch_stdout=False)
            for ending in (".bam", ".bam.bai"):
                Path(f"{folder}/whole{ending}").replace(f"{stem}{ending}")
        return {".bam": sum(piece.rows["bam"] for piece in pieces), ".bam.bai": None}

    def _header(self, samples: Sequence[str]) -> str:
        """The sequences of the reference, and a read group for each sample."""
        import pysam

        with pysam.FastxFile(reference_path(self.reference)) as file:
            lengths = [f"@SQ\tSN:{record.name}\tLN:{len(record.sequence or '')}" for record in file]
        groups = [f"@RG\tID:{name}\tSM:{name}" for name in samples]
        return "\n".join(["@HD\tVN:1.6\tSO:unsorted", *lengths, *groups, ""])


def _lines(rows: pl.DataFrame) -> pl.DataFrame:
    """The columns of SAM (section 1.4 of its specification): text, with * and 0 for what is missing."""
    texts = {name: pl.col(name).fill_null("*") for name in ("chromosome", "cigar")}
    numbers = {name: pl.col(name).fill_null(0) for name in ("base_pair_location", "mate_location")}
    mate = pl.when(pl.col("mate_chromosome") == pl.col("chromosome")).then(pl.lit("=")).otherwise("mate_chromosome").fill_null("*")
    known = {**texts, **numbers, "mate_chromosome": mate}
    edits = pl.concat_str(pl.lit("NM:i:"), pl.col("edit_distance").cast(pl.String)).fill_null("")
    group = pl.concat_str(pl.lit("RG:Z:"), "sample_id")
    tags = pl.when(pl.col("edit_distance").is_null()).then(group).otherwise(pl.concat_str(edits, group, separator="\t")).alias("tags")
    return rows.select(*(known.get(name, pl.col(name)).alias(name) for name in _NEEDED[:11]), tags)
