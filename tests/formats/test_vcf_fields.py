"""QUAL, FILTER and INFO fields as columns of a VCF's variants: what htslib reads, in any parts, and what is refused."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from cyvcf2 import VCF
from polars.testing import assert_frame_equal

from pipeline import api
from pipeline.errors import DataError, InputError, JobError
from pipeline.formats._plink.pgen_files import read_pvar
from pipeline.formats.bcf import BcfInput, BcfOutput
from pipeline.formats.vcf import VcfInput, VcfOutput
from pipeline.kernels.genotypes import pack
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.testing.formats import read_table, write_table

TextFile = Callable[[str, bytes], Path]
META = b"""##fileformat=VCFv4.3
##contig=<ID=20,length=64444167>
##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">
##FILTER=<ID=low,Description="Low">
##INFO=<ID=R2,Number=1,Type=Float,Description="Quality, with a comma">
##INFO=<ID=AF,Number=A,Type=Float,Description="Frequencies">
##INFO=<ID=DP,Number=1,Type=Integer,Description="Depth">
##INFO=<ID=TYPED,Number=0,Type=Flag,Description="Genotyped">
##INFO=<ID=GENES,Number=.,Type=String,Description="Genes">
#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts1\ts2
"""
SAMPLES = pl.DataFrame({"sample_id": ["s1", "s2"]})
FIELDS = ["QUAL", "FILTER", "R2", "AF", "DP", "TYPED"]


def records(count: int) -> bytes:
    """Records of one or two ALT alleles, or none, whose fields are there or not, in any order, beside others of like names."""
    rng, lines = random.Random(3), []
    for at in range(count):
        alt = rng.choice(["C", "C", "C,G", "."])
        several = ",".join(rng.choice([f"{rng.random():.4f}", "."]) for _ in alt.split(","))
        parts = [f"R2={rng.random():.5f}", f"AF={several}", f"DP={rng.randint(0, 99)}", "TYPED", "XR2=7", "TYPEDX", "GENES=R2,AF"]
        info = ";".join(rng.sample(parts, rng.randint(0, 7))) or "."
        qual, passed = rng.choice([".", "3.5", "100"]), rng.choice(["PASS", "low", "."])
        lines.append(f"20\t{at + 1}\tv{at}\tA\t{alt}\t{qual}\t{passed}\t{info}\tGT\t{'0/0' if alt == '.' else '0/1'}\t0/0\n")
    return "".join(lines).encode()


def test_fields__are_what_htslib_reads(text_file: TextFile) -> None:
    path = text_file("a.bgzip.vcf.gz", META + records(200))
    reader = VcfInput.model_validate({"path": str(path), "fields": FIELDS, "parts": 3})
    found = concat_parts([source.load() for source in reader.sources(2)]).frame
    assert found.schema == reader.table_schema().columns
    rows: list[tuple[Any, ...]] = []
    for site in VCF(str(path)):
        for place in range(len(site.ALT)):
            shares = site.INFO.get("AF")
            share = shares[place] if isinstance(shares, tuple) else shares
            quality = next((part[3:] for part in str(site).split("\t")[7].split(";") if part.startswith("R2=")), None)
            passed = str(site).split("\t")[6]
            depth, typed = site.INFO.get("DP"), site.INFO.get("TYPED") is not None
            rows.append((site.QUAL, None if passed == "." else passed, quality and float(quality), share, depth, typed))
    assert len(rows) == found.height
    for name, mine, theirs in zip(FIELDS, found.select(FIELDS).iter_columns(), zip(*rows, strict=True), strict=True):
        expected = [None if value != value else value for value in theirs]
        if name == "AF":  # htslib's are 32 bits
            assert mine.is_null().to_list() == [value is None for value in expected]
            assert mine.drop_nulls().to_list() == pytest.approx([value for value in expected if value is not None], rel=1e-6)
        else:
            assert mine.to_list() == expected, name


def test_fields__are_seen_by_a_filter(text_file: TextFile, tmp_path: Path) -> None:
    job = f"""job: fields
results: {tmp_path / "out"}
inputs:
  cohort: {{format: vcf, path: {text_file("a.vcf", META + records(60))}, fields: [R2, FILTER]}}
stages:
  - {{use: filter, from: cohort, as: good, where: "R2 >= 0.5 and FILTER = 'PASS'"}}
outputs:
  good: {{from: good}}
"""
    (tmp_path / "job.yaml").write_text(job, encoding="utf-8")
    frame = api.load(tmp_path / "job.yaml").run().table("good").to_polars()
    assert frame.height > 2
    assert frame.filter((pl.col("R2") < 0.5) | (pl.col("FILTER") != "PASS")).is_empty()


@pytest.mark.parametrize(
    ("fields", "line", "message"),
    [
        (["R3"], b"", r"no INFO field 'R3' \(it has: R2, AF, DP, TYPED, GENES\)"),
        (["GENES"], b"", r"INFO field 'GENES' is Number=\., Type=String; a column has one value"),
        (["R2", "R2"], b"", "fields names 'R2' twice"),
        (["R2"], b"20\t9\tv\tA\tC\t.\t.\tR2=high\tGT\t0/1\t0/0\n", "record 20:9: R2 is 'high', and the header says it is one number"),
        (["DP"], b"20\t9\tv\tA\tC\t.\t.\tDP=1.5\tGT\t0/1\t0/0\n", r"record 20:9: DP is '1\.5', and the header says it is one whole number"),
        (["QUAL"], b"20\t9\tv\tA\tC\t4,5\t.\t.\tGT\t0/1\t0/0\n", "record 20:9: QUAL is '4,5', and the header"),
        (["AF"], b"20\t9\tv\tA\tC,G\t.\t.\tAF=0.1\tGT\t0/1\t0/0\n", "record 20:9: AF has 1 values, and the record has 2 ALT alleles"),
    ],
)
def test_fields__that_are_not_there_or_are_none_are_refused(text_file: TextFile, fields: list[str], line: bytes, message: str) -> None:
    path = text_file("a.vcf", META + records(4) + line)
    reader = VcfInput.model_validate({"path": str(path), "fields": fields})
    with pytest.raises(InputError, match=message):
        [source.load() for source in reader.sources(1)]


def test_fields_of_a_pvar__are_those_of_the_vcf(text_file: TextFile, tmp_path: Path) -> None:
    path = text_file("a.vcf", META + records(200))
    expected = concat_parts([source.load() for source in VcfInput.model_validate({"path": str(path), "fields": FIELDS}).sources(1)]).frame
    lines = (META + records(200)).decode().splitlines()
    pvar = tmp_path / "a.pvar"
    pvar.write_text("".join(f"{line if line.startswith('##') else line.rsplit(chr(9), 3)[0]}\n" for line in lines), encoding="utf-8")
    found = read_pvar(pvar, fields=FIELDS)
    assert found.variants == 200
    assert found.rows.select(expected.columns).equals(expected)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["R3"], r"a.pvar: its header has no INFO field 'R3' \(it has: R2\)"),
        (["R2"], "a.pvar: its header line has no column INFO; it has CHROM, POS, ID, REF, ALT, FILTER"),
        (["QUAL"], "a.pvar: its header line has no column QUAL"),
    ],
)
def test_fields_of_a_pvar__that_are_not_there_are_refused(tmp_path: Path, fields: list[str], message: str) -> None:
    info = '##INFO=<ID=R2,Number=1,Type=Float,Description="q">'
    (tmp_path / "a.pvar").write_text(f"{info}\n#CHROM\tPOS\tID\tREF\tALT\tFILTER\n1\t1\ta\tA\tC\tPASS\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_pvar(tmp_path / "a.pvar", fields=fields)
    (tmp_path / "a.pvar").write_text("1\ta\t0\t1\tC\tA\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a.pvar: is written as a .bim|no INFO field"):
        read_pvar(tmp_path / "a.pvar", fields=fields)


@pytest.mark.parametrize("kind", ["vcf", "bcf"])
def test_fields__are_written_and_read_again(kind: str, text_file: TextFile, tmp_path: Path) -> None:
    reader = {"path": str(text_file("a.vcf", META + records(120))), "fields": FIELDS}
    whole = read_table(VcfInput.model_validate({**reader, "parts": 3}))
    frame = whole.frame.with_columns(chromosome=pl.lit("20"))
    writer, again = (VcfOutput, VcfInput) if kind == "vcf" else (BcfOutput, BcfInput)
    content = set()
    for parts in (1, 3):
        part = Part(frame, whole.arrays)
        (file,) = write_table(writer(fields=tuple(FIELDS)), part, tmp_path / f"{parts}", parts, {"calls": SAMPLES})
        content.add(gzip.decompress(file.read_bytes()))
    assert len(content) == 1
    found = read_table(again.model_validate({"path": str(file), "fields": FIELDS})).frame
    assert found.schema == frame.schema
    assert_frame_equal(found, frame, rel_tol=0 if kind == "vcf" else 1e-7)
    assert frame["R2"].null_count() > 0


@pytest.mark.parametrize(
    ("columns", "fields", "said"),
    [
        ({}, ["R2"], "fields: 'R2' is no column that is written here"),
        ({"R2": [0.5]}, ["R2", "R2"], "fields: 'R2' is named twice"),
        ({"R 2": [0.5]}, ["R 2"], "fields: 'R 2' .* is no name of an INFO field"),
        ({"AC": [1]}, ["AC"], "fields: 'AC' .*is written anyway"),
        ({"R2": [[0.5]]}, ["R2"], r"fields: 'R2' is List\(Float64\), and float or integer or string or flag is written"),
        ({"FILTER": [1]}, ["FILTER"], "fields: 'FILTER' is Int64, and string is written"),
        ({"GENE": ["a;b"]}, ["GENE"], "a VCF cannot hold GENE 'a;b': spaces, commas and semicolons"),
    ],
)
def test_fields__that_a_vcf_cannot_hold_are_refused(columns: dict[str, Any], fields: list[str], said: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"chromosome": ["20"], "base_pair_location": [7], "variant_id": ["v"], "ref": ["A"], "alt": ["C"], **columns})
    part = Part(frame, {"calls": pack(np.array([[0, 1]], np.uint8))})
    writer = VcfOutput.model_validate({"fields": fields})
    if "GENE" in columns:
        with pytest.raises(DataError, match=said):
            write_table(writer, part, tmp_path / "refused", 1, {"calls": SAMPLES})
        return
    with pytest.raises(JobError, match=said):
        writer.check(Schema(frame.schema, {"calls": SAMPLES.schema}), frame.columns)
