"""The vcf format's output: read again by our own reader and by cyvcf2."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pipeline.errors import DataError, JobError
from pipeline.formats.vcf import VcfInput, VcfOutput
from pipeline.kernels.genotypes import unpack
from pipeline.testing.formats import read_table, write_table

CALLS = pl.DataFrame(
    [
        ("2", 70, "2:70:A:C", "A", "C", 31.256, "kid", "0/1", 40, 9, 5, 4),
        ("2", 70, "2:70:A:C", "A", "C", 31.256, "dad", "0/0", 33, 8, 8, 0),
        ("10", 9, "10:9:AT:A", "AT", "A", 99.0, "kid", "1/1", 99, 30, 0, 30),
        ("2", 7, "rs1; x", "G", "GTT", 50.0, "kid", None, 0, 0, 0, 0),
        ("2", 7, "rs1; x", "G", "GTT", 50.0, "dad", "0/1", 12, 3, 1, 2),
    ],
    schema=[
        "chromosome", "base_pair_location", "variant_id", "ref", "alt", "call_quality", "sample_id", "genotype", "genotype_quality",
        "depth", "ref_depth", "alt_depth",
    ],
    orient="row",
)  # fmt: skip


def test_a_written_vcf__comes_back_as_genotypes(tmp_path: Path) -> None:
    content = set()
    for parts in (1, 2, 5):
        (file,) = write_table(VcfOutput(), CALLS, tmp_path / str(parts), parts)
        content.add(file.read_bytes())
    assert len(content) == 1
    reader = VcfInput.model_validate({"path": str(file)})
    assert reader.axes()["calls"]["sample_id"].to_list() == ["dad", "kid"]
    found = read_table(reader)
    assert found.frame.select("chromosome", "base_pair_location", "variant_id").rows() == [
        ("2", 7, "rs1;_x"),
        ("2", 70, "2:70:A:C"),
        ("10", 9, "10:9:AT:A"),
    ]
    assert unpack(found.arrays["calls"], 2)[:, :2].tolist() == [[1, 3], [0, 1], [3, 2]]


def test_a_written_vcf__says_all_fields_to_another_reader(tmp_path: Path) -> None:
    cyvcf2 = pytest.importorskip("cyvcf2")
    (file,) = write_table(VcfOutput(build="GRCh38"), CALLS, tmp_path / "whole")
    records = list(cyvcf2.VCF(str(file)))
    assert [(record.CHROM, record.POS, record.REF, record.ALT, record.QUAL) for record in records] == [
        ("2", 7, "G", ["GTT"], 50.0), ("2", 70, "A", ["C"], pytest.approx(31.26)), ("10", 9, "AT", ["A"], 99.0),
    ]  # fmt: skip
    assert [record.format("GQ").ravel().tolist() for record in records[:2]] == [[12, 0], [33, 40]]
    assert records[1].format("AD").tolist() == [[8, 0], [5, 4]]
    assert [(record.INFO["AC"], record.INFO["AN"]) for record in records] == [(1, 2), (1, 4), (2, 2)]
    assert VcfInput.model_validate({"path": str(file)}).genome_build() == "GRCh38"


def test_a_written_vcf__needs_no_more_than_genotypes(tmp_path: Path) -> None:
    (file,) = write_table(
        VcfOutput(), CALLS.select("chromosome", "base_pair_location", "ref", "alt", "sample_id", "genotype"), tmp_path / "few"
    )
    assert read_table(VcfInput.model_validate({"path": str(file)})).frame["variant_id"].to_list() == ["2:7:G:GTT", "2:70:A:C", "10:9:AT:A"]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (CALLS.drop("genotype"), JobError, "a VCF needs the column 'genotype'"),
        (CALLS.with_columns(genotype=pl.lit("het")), DataError, "cannot hold the row with .*genotype 'het'"),
        (CALLS.with_columns(ref=pl.lit("A C")), DataError, "cannot hold the row with .*ref 'A C'"),
        (pl.concat([CALLS, CALLS[:1]]), DataError, "sample 'kid' has several rows of variant 2:70:A:C"),
    ],
)
def test_a_written_vcf__refuses(rows: pl.DataFrame, error: type[Exception], message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        write_table(VcfOutput(), rows, tmp_path / "refused")
