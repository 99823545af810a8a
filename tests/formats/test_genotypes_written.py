"""Genotype tables written as VCF, BGEN and PGEN, read again: by ourselves, cyvcf2, bgen, pgenlib; PLINK 2, bcftools where they are."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from pipeline.errors import DataError, JobError
from pipeline.format import InputFormat, OutputFormat
from pipeline.formats.bcf import BcfInput, BcfOutput
from pipeline.formats.bgen import BgenInput, BgenOutput
from pipeline.formats.pgen import PgenInput, PgenOutput
from pipeline.formats.plink import PlinkInput
from pipeline.formats.vcf import VcfInput, VcfOutput
from pipeline.genome.columns import VARIANT, dtypes_of
from pipeline.kernels.genotypes import pack, unpack
from pipeline.tables.part import Part, Schema
from pipeline.testing.formats import read_table, write_table
from tests.formats.genotype_files import codes_of
from tests.kernels.plink_files import DATA, needs_data

VARIANTS, PEOPLE = 37, 9
FORMATS: dict[str, tuple[OutputFormat, type[InputFormat]]] = {
    "vcf": (VcfOutput(), VcfInput),
    "bcf": (BcfOutput(), BcfInput),
    "bgen": (BgenOutput(), BgenInput),
    "pgen": (PgenOutput(), PgenInput),
}
STEP = {"vcf": 0.0, "bcf": 0.0, "bgen": 2 / 65_535, "pgen": 0.5 / 16_384}
"""How far from a dosage the number is that a format has of it: BGEN halves its steps twice, of two probabilities."""


def variants_of(count: int) -> pl.DataFrame:
    chromosomes = ["1", "22", "X", "Y", "MT"]
    rows = [
        (chromosomes[i * 5 // count], 10 * i + 1, f"rs{i};esv{i}" if i % 9 == 0 else f"rs{i}", "AT" if i % 5 == 0 else "A", "C")
        for i in range(count)
    ]
    return pl.DataFrame(rows, schema=dtypes_of(VARIANT), orient="row")


def people_of(count: int) -> pl.DataFrame:
    sexes = pl.Series("sex", [(1, 2, None)[i % 3] for i in range(count)], pl.Int8)
    return pl.DataFrame({"sample_id": [f"p{i}" for i in range(count)], "family_id": [f"f{i // 2}" for i in range(count)]}).with_columns(
        sexes
    )


def dosages_of(variants: int, people: int) -> NDArray[np.float32]:
    random = np.random.default_rng(8)
    found = random.choice([0.0, 0.04, 0.5, 1.0, 1.499, 1.97, 2.0, np.nan], (variants, people)).astype(np.float32)
    found[::3] = random.uniform(0, 2, found[::3].shape)
    return found


def table(kind: str) -> tuple[Part, dict[str, pl.DataFrame]]:
    array: Any = pack(codes_of(VARIANTS, PEOPLE)) if kind == "calls" else dosages_of(VARIANTS, PEOPLE)
    name = "calls" if kind == "calls" else "alt_dosages"
    return Part(variants_of(VARIANTS), {name: array}), {name: people_of(PEOPLE)}


@pytest.mark.parametrize("kind", ["calls", "dosages"])
@pytest.mark.parametrize("name", [*FORMATS])
def test_written__comes_back_the_same_from_any_parts(name: str, kind: str, tmp_path: Path) -> None:
    writer, reader = FORMATS[name]
    (part, axes), content = table(kind), set()
    for parts in (1, 2, 7):
        files = write_table(writer, part, tmp_path / str(parts), parts, axes)
        content.add(b"".join(gzip.decompress(file.read_bytes()) if name == "vcf" else file.read_bytes() for file in files))
    assert len(content) == 1
    ours = reader.model_validate({"path": str(files[0]), "field": kind})
    found = read_table(ours)
    assert found.frame.select(VARIANT).equals(part.frame)
    if kind == "calls":
        np.testing.assert_array_equal(found.arrays["calls"], part.arrays["calls"])
    else:
        np.testing.assert_allclose(found.arrays["alt_dosages"], part.arrays["alt_dosages"], atol=STEP[name] + 1e-7)
    people = ours.axes()["calls" if kind == "calls" else "alt_dosages"]
    assert people["sample_id"].to_list() == [f"p{i}" for i in range(PEOPLE)]
    if name == "pgen":
        assert people.select("family_id", "sex").equals(people_of(PEOPLE).select("family_id", "sex"))


def expected_calls(kind: str) -> NDArray[np.int8]:
    """Calls -1 missing; those of dosages are within 0.1 of a whole number."""
    if kind == "calls":
        codes = codes_of(VARIANTS, PEOPLE).astype(np.int8)
        return np.where(codes == 3, np.int8(-1), codes)
    dosages = dosages_of(VARIANTS, PEOPLE)
    near = np.abs(dosages - np.rint(dosages)) <= 0.1
    return np.where(near, np.rint(np.nan_to_num(dosages)), -1).astype(np.int8)


@pytest.mark.parametrize("kind", ["calls", "dosages"])
def test_a_vcf__says_the_same_to_cyvcf2(kind: str, tmp_path: Path) -> None:
    cyvcf2 = pytest.importorskip("cyvcf2")
    part, axes = table(kind)
    (file,) = write_table(VcfOutput(build="GRCh38"), part, tmp_path / "x", 3, axes)
    calls = expected_calls(kind)
    for row, record in enumerate(cyvcf2.VCF(str(file), gts012=True)):
        site = part.frame.row(row)
        assert (*site[:4], [site[4]]) == (record.CHROM, record.POS, record.ID, record.REF, record.ALT)
        np.testing.assert_array_equal(np.where(record.gt_types == 3, -1, record.gt_types), calls[row])
        assert (record.INFO["AC"], record.INFO["AN"]) == (calls[row][calls[row] > 0].sum(), 2 * (calls[row] >= 0).sum())
        if kind == "dosages":
            np.testing.assert_allclose(record.format("DS").ravel(), part.arrays["alt_dosages"][row], rtol=1e-6)


@pytest.mark.parametrize("kind", ["calls", "dosages"])
@pytest.mark.parametrize("bits", [8, 16])
def test_a_bgen__says_the_same_to_its_package(bits: int, kind: str, tmp_path: Path) -> None:
    package: Any = pytest.importorskip("bgen")
    part, axes = table(kind)
    file, sample = write_table(BgenOutput(bits=bits), part, tmp_path / "x", 3, axes)
    wanted = part.arrays["alt_dosages"] if kind == "dosages" else unpack(part.arrays["calls"], PEOPLE, np.float32, np.nan)
    with package.BgenReader(str(file)) as reader:
        assert (reader.header.nvariants, reader.header.nsamples, reader.samples[:2]) == (VARIANTS, PEOPLE, ["p0", "p1"])
        for row, variant in enumerate(reader):
            site = part.frame.row(row)
            assert (variant.chrom, variant.pos, variant.rsid, variant.alleles) == (*site[:3], [*site[3:]])
            found = np.asarray(variant.probabilities)
            np.testing.assert_allclose(found[:, 1] + 2 * found[:, 2], wanted[row], atol=0 if kind == "calls" else 0.51 / (2**bits - 1))
            np.testing.assert_allclose(found.sum(axis=1)[~np.isnan(wanted[row])], 1, atol=1e-6)
    assert sample.read_text().splitlines()[:4] == ["ID_1 ID_2 missing sex", "0 0 0 D", "f0 p0 0 1", "f0 p1 0 2"]


@pytest.mark.parametrize("kind", ["calls", "dosages"])
def test_a_pgen__says_the_same_to_plinks_library(kind: str, tmp_path: Path) -> None:
    pgenlib = pytest.importorskip("pgenlib")
    part, axes = table(kind)
    pgen, pvar, psam = write_table(PgenOutput(), part, tmp_path / "x", 3, axes)
    calls, dosages = np.empty((VARIANTS, PEOPLE), np.int8), np.empty((VARIANTS, PEOPLE), np.float32)
    with pgenlib.PgenReader(str(pgen).encode()) as reader:
        assert (reader.get_variant_ct(), reader.get_raw_sample_ct()) == (VARIANTS, PEOPLE)
        reader.read_range(0, VARIANTS, calls)
        reader.read_dosages_range(0, VARIANTS, dosages)
    np.testing.assert_array_equal(np.maximum(calls, -1), expected_calls(kind))
    if kind == "dosages":
        np.testing.assert_allclose(np.where(dosages < 0, np.nan, dosages), part.arrays["alt_dosages"], atol=0.51 / 16_384)
    assert pvar.read_text().splitlines()[:2] == ["#CHROM\tPOS\tID\tREF\tALT", "1\t1\trs0;esv0\tAT\tC"]
    assert psam.read_text().splitlines()[:4] == ["#FID\tIID\tSEX", "f0\tp0\t1", "f0\tp1\t2", "f1\tp2\tNA"]


def test_a_pgen_of_many_variants__has_its_records_where_the_header_says(tmp_path: Path) -> None:
    """A block of the header is of 65,536 variants; PLINK 2 reads a file of dosages with several threads."""
    pgenlib = pytest.importorskip("pgenlib")
    variants, people = 65_536 + 5, 3
    frame = pl.DataFrame({"chromosome": "1", "base_pair_location": range(1, variants + 1), "ref": "A", "alt": "C"}).with_columns(
        pl.format("rs{}", "base_pair_location").alias("variant_id")
    )
    dosages = np.random.default_rng(4).choice(np.array([0, 0.25, 1, 1.75, np.nan], np.float32), (variants, people))
    part, axes = Part(frame.select(VARIANT), {"alt_dosages": dosages}), {"alt_dosages": people_of(people)}
    pgen = write_table(PgenOutput(), part, tmp_path / "x", 2, axes)[0]
    found = np.empty((variants, people), np.float32)
    with pgenlib.PgenReader(str(pgen).encode()) as reader:
        reader.read_dosages_range(0, variants, found)
    np.testing.assert_array_equal(np.where(found < 0, np.nan, found), dosages)
    np.testing.assert_array_equal(read_table(PgenInput(path=(str(pgen),), field="dosages")).arrays["alt_dosages"], dosages)
    if plink := shutil.which("plink2"):
        command = [plink, "--pfile", str(pgen.with_suffix("")), "--freq", "--validate", "--threads", "2", "--out", str(tmp_path / "again")]
        subprocess.run(command, check=True, capture_output=True)
        theirs = np.loadtxt(
            tmp_path / "again.afreq", skiprows=1, usecols=4, converters=lambda text: float(text) if text != "nan" else np.nan
        )
        there = ~np.isnan(dosages)
        np.testing.assert_allclose(
            theirs, dosages.sum(axis=1, where=there) / np.where(there.any(axis=1), 2 * there.sum(axis=1), np.nan), atol=1e-6
        )


@needs_data
def test_hapmap3__is_the_same_to_plink_2_and_bcftools_in_every_format(tmp_path: Path) -> None:
    plink, bcftools = (shutil.which(program) for program in ("plink2", "bcftools"))
    if not plink or not bcftools:
        pytest.skip("plink2 and bcftools are not installed")
    source = PlinkInput(path=(str(DATA / "hapmap3" / "data.bed"),))
    whole = read_table(source)
    bed = (DATA / "hapmap3" / "data.bed").read_bytes()
    told = {"vcf": ["--vcf"], "bcf": ["--bcf"], "bgen": ["--bgen"], "pgen": ["--pfile"]}
    for name, (writer, _) in FORMATS.items():
        file = write_table(writer, whole, tmp_path / name, 3, source.axes())[0]
        path = [str(file.with_suffix(""))] if name == "pgen" else [str(file), *["ref-first"] * (name == "bgen")]
        command = [plink, *told[name], *path, "--make-bed", "--threads", "1", "--out", str(tmp_path / f"{name}-again")]
        subprocess.run(command, check=True, capture_output=True)
        assert (tmp_path / f"{name}-again.bed").read_bytes() == bed, name
        assert (tmp_path / f"{name}-again.bim").read_text().split() != []
    listed = subprocess.run([bcftools, "query", "-l", str(tmp_path / "vcf" / "whole.vcf.gz")], check=True, capture_output=True, text=True)
    assert listed.stdout.split() == source.axes()["calls"]["sample_id"].to_list()
    subprocess.run([bcftools, "index", str(tmp_path / "vcf" / "whole.vcf.gz")], check=True, capture_output=True)


@pytest.mark.parametrize("name", ["vcf", "bgen"])  # PLINK 2 has no fileset without variants
def test_written__of_no_rows_is_a_file_that_is_read(name: str, tmp_path: Path) -> None:
    writer, reader = FORMATS[name]
    part, axes = table("calls")
    empty = Part(part.frame[:0], {"calls": part.arrays["calls"][:0]})
    file = write_table(writer, empty, tmp_path / "x", 1, axes)[0]
    assert read_table(reader.model_validate({"path": str(file), "field": "calls"})).rows == 0


@pytest.mark.parametrize("name", [*FORMATS])
def test_written__what_a_format_cannot_hold_is_refused(name: str, tmp_path: Path) -> None:
    writer = FORMATS[name][0]
    part, axes = table("calls")
    columns = dtypes_of(VARIANT)
    people = pl.Schema({"sample_id": pl.String()})
    with pytest.raises(JobError, match=r"holds genotypes, and this table has none|needs the column 'sample_id'"):
        writer.check(Schema(pl.Schema(columns)), list(columns))
    with pytest.raises(JobError, match="needs the column 'alt', which is not written here"):
        writer.check(Schema(pl.Schema(columns), {"calls": people}), [name for name in columns if name != "alt"])
    for change, said in (
        ({"ref": pl.lit("<DEL>")}, "ref '<DEL>', alt 'C': its place must be known, and REF of A, C, G, T and N"),
        ({"base_pair_location": pl.lit(None, pl.Int64)}, "base_pair_location None"),
        ({"chromosome": pl.lit("1 2")}, "chromosome '1 2'"),
    ):
        with pytest.raises(DataError, match=said):
            write_table(writer, part.replaced(part.frame.with_columns(**change)), tmp_path / said[:5], 1, axes)
    spaced = axes["calls"].with_columns(sample_id=pl.lit("a b"))
    with pytest.raises(DataError, match="sample_id 'a b' is empty or holds a space"):
        write_table(writer, part, tmp_path / "spaced", 1, {"calls": spaced})
    unknown = part.replaced(part.frame.with_columns(ref=pl.lit("0"), alt=pl.lit("C"), variant_id=pl.lit(None, pl.String)))
    write_table(writer, unknown, tmp_path / "unknown", 1, axes)
