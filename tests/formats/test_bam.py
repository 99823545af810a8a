"""The bam format, read again by samtools' library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.errors import JobError
from pipeline.formats.bam import BamOutput
from pipeline.genome.columns import dtypes_of
from pipeline.testing.formats import write_table

COLUMNS = (
    "sample_id", "read_id", "flag", "chromosome", "base_pair_location", "mapping_quality", "cigar", "edit_distance",
    "mate_chromosome", "mate_location", "template_length", "bases", "base_qualities",
)  # fmt: skip


def alignments(count: int) -> pl.DataFrame:
    """Alignments in no order: some of pairs, some without a place, on two chromosomes."""
    rng = np.random.default_rng(7)
    rows = []
    for at in range(count):
        place, mate = (str(rng.choice(["b", "a"])), int(rng.integers(1, 300))), (str(rng.choice(["b", "a"])), int(rng.integers(1, 300)))
        known = (f"s{at % 2}", f"r{at}")
        if at % 7 == 3:
            rows.append((*known, 4, None, None, 0, None, None, None, None, 0, "ACGTA", "IIIII"))
        else:
            pair = mate if at % 3 else (None, None)
            rows.append((*known, 16 + bool(at % 3), *place, 60 - at % 50, "1S3M1I", at % 4, *pair, at - 20, "ACGTA", "I#5AB"))
    return pl.DataFrame(rows, schema=dtypes_of(COLUMNS), orient="row")


def test_bam__is_sorted_indexed_and_holds_every_row(tmp_path: Path) -> None:
    pysam = pytest.importorskip("pysam")
    reference = tmp_path / "reference.fa"
    reference.write_text(">b first\n" + "ACGT\n" * 100 + ">a\nACGTACGT\n>unused\nAC\n" + ">c\n" + "A" * 500 + "\n")
    rows = alignments(90).with_columns(pl.col("chromosome", "mate_chromosome").replace("a", "c"))
    content = set()
    for parts in (1, 3):
        bam, index = write_table(BamOutput(reference=str(reference)), rows, tmp_path / str(parts), parts)
        assert index.name == "whole.bam.bai"
        content.add(bam.read_bytes())
    assert len(content) == 1  # no parts change the file
    pysam.samtools.quickcheck(str(bam))
    with pysam.AlignmentFile(str(bam)) as file:
        assert file.header["HD"]["SO"] == "coordinate"
        assert dict(zip(file.references, file.lengths, strict=True)) == {"b": 400, "a": 8, "unused": 2, "c": 500}
        assert [group["SM"] for group in file.header["RG"]] == ["s0", "s1"]
        found = [line.to_string() for line in file.fetch(until_eof=True)]
        assert (
            file.count("c", 100, 200)
            == rows.filter((pl.col("chromosome") == "c") & pl.col("base_pair_location").is_between(99, 200)).height
        )
    order = {"b": 0, "c": 1, None: 2}
    ranked = rows.with_columns(rank=pl.col("chromosome").replace_strict(order, return_dtype=pl.Int32)).sort(
        "rank", "base_pair_location", nulls_last=True
    )
    assert [line.split("\t")[3] for line in found] == [str(at or 0) for at in ranked["base_pair_location"]]
    for row in rows.iter_rows(named=True):
        (line,) = [line.split("\t") for line in found if line.split("\t")[0] == row["read_id"]]
        mate = "=" if row["mate_chromosome"] == row["chromosome"] is not None else row["mate_chromosome"]
        place = (row["chromosome"] or "*", row["base_pair_location"] or 0, row["mapping_quality"], row["cigar"] or "*")
        pair = (mate or "*", row["mate_location"] or 0, row["template_length"], row["bases"], row["base_qualities"])
        assert line[1:11] == [str(value) for value in (row["flag"], *place, *pair)]
        tags = {"RG:Z:" + row["sample_id"]} | ({f"NM:i:{row['edit_distance']}"} if row["edit_distance"] is not None else set())
        assert set(line[11:]) == tags


def test_bam__refuses_other_tables_and_a_lost_reference(tmp_path: Path) -> None:
    pytest.importorskip("pysam")
    with pytest.raises(JobError, match="a BAM file needs the column 'cigar'"):
        write_table(BamOutput(reference="x.fa"), alignments(3).drop("cigar"), tmp_path / "a")
    with pytest.raises(JobError, match=r"reference: x\.fa: there is no such file"):
        write_table(BamOutput(reference="x.fa"), alignments(3), tmp_path / "b")
