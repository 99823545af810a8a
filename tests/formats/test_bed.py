"""The bed format: regions of BED files, plain and gzipped, as bedtools and PLINK take them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.formats.bed import BedInput
from pipeline.formats.plink import PlinkInput
from pipeline.testing.formats import read_table

TEXT = """browser position chr1:1-100
track name=hard description="hard regions"
# from a comment
chr1\t10\t20\tinversion\t0\t+\t10\t20
chr1\t12\t40\tthe MHC\t7.5\t-\t12\t40

chrX\t0\t5\t.\t.\t.\t0\t5
"""
ROWS = [("chr1", 10, 20, "inversion", 0.0, "+"), ("chr1", 12, 40, "the MHC", 7.5, "-"), ("chrX", 0, 5, ".", None, None)]


@pytest.mark.parametrize("name", ["x.bed", "x.bed.gz"])
def test_bed__gives_regions_and_leaves_out_what_is_none(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(gzip.compress(TEXT.encode()) if name.endswith("gz") else TEXT.encode())
    reader = BedInput(path=(str(tmp_path / name),), build="hg19")
    found = read_table(reader).frame
    assert found.rows() == ROWS
    assert found.schema == reader.table_schema().columns
    assert reader.genome_build() == "GRCh37"


@pytest.mark.parametrize("text", ["1 5 9\n1   7 12\n", "1\t5\t9\r\n1\t7\t12\r\n", " 1 5 9 \n1 7 12"])
def test_bed__has_as_many_columns_as_its_lines(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.bed").write_text(text, newline="")
    found = read_table(BedInput(path=(str(tmp_path / "x.bed"),))).frame
    assert (found.columns, found.rows()) == (["chromosome", "start", "end"], [("1", 5, 9), ("1", 7, 12)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("chrom\tstart\tend\n1\t5\t9\n", r"x.bed:1: 'chrom start end': .*a header line begins with #"),
        ("#chrom\tstart\tend\n1\t5\t9\n1\t9\t5\n", r"x.bed:3: '1 9 5': start and end must be whole numbers from 0"),
        ("1\t-1\t9\n", r"x.bed:1: '1 -1 9'"),
        ("1\t5\t9\n1\t5\n", r"x.bed:2: has 2 fields, and chromosome, start and end are three"),
        ("1\t5\n", r"x.bed:1: has 2 fields, and chromosome, start and end are three"),
        ("1\t5\t9\ta\n1\t5\t9\n", r"x.bed:2: has 3 fields, and the first region has 4"),
        ("1\t5\t9\ta\thigh\n", r"x.bed:1: the score 'high' must be a number"),
        ("1\t5\t9\ta\t1e400\n", r"x.bed:1: the score '1e400' must be a number"),
        ("track name=x\n", "has no region"),
        ("l\x1b\x01abc", "is PLINK's .bed, which has genotypes. Read it with format: plink"),
    ],
)
def test_bed__says_what_is_wrong(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.bed").write_text(text)
    with pytest.raises(InputError, match=said):
        read_table(BedInput(path=(str(tmp_path / "x.bed"),)))


def test_plink__given_regions_says_which_format_reads_them(tmp_path: Path) -> None:
    (tmp_path / "x.bed").write_text(TEXT)
    with pytest.raises(InputError, match=r"x.bim, .*x.fam: no such file; .*x.bed has no genotypes: .* format: bed"):
        PlinkInput.model_validate({"path": str(tmp_path / "x.bed")}).table_schema()


def test_bed__of_several_files_has_one_number_of_columns(tmp_path: Path) -> None:
    for name, text in (("a.bed", "1\t5\t9\n"), ("b.bed", "1\t5\t9\ta\n")):
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=r"b.bed: has 4 of the fields of a region, and .*a.bed 3. Give an input each"):
        BedInput(path=(str(tmp_path / "*.bed"),)).table_schema()
