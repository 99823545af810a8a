"""Dosages of VCFs, FORMAT field DS: the plain code and cyvcf2 (htslib) are the oracles of the compiled kernel."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cyvcf2 import VCF
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.formats._vcf import text as vcf_text
from pipeline.formats._vcf.dosages import read_plain_dosages, read_plain_sums
from pipeline.formats._vcf.header import VcfHeader
from pipeline.formats._vcf.records import TAIL, Records
from pipeline.formats._vcf.text import parse_records
from pipeline.formats.vcf import VcfInput
from pipeline.tables.part import concat_parts

TextFile = Callable[[str, bytes], Path]
HEADER = VcfHeader("x.vcf", ("s1", "s2"), ())
META = b"""##fileformat=VCFv4.3
##contig=<ID=20,length=64444167>
##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">
##FORMAT=<ID=DS,Number=A,Type=Float,Description="Dosage">
##FORMAT=<ID=GP,Number=G,Type=Float,Description="Probabilities">
#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t"""


def record(*samples: bytes, alt: bytes = b"C", keys: bytes = b"GT:DS", position: int = 100) -> bytes:
    return b"\t".join((b"20", b"%d" % position, b"rs1", b"A", alt, b".", b".", b".", keys, *samples)) + b"\n"


def random_records(n_samples: int, count: int, seed: int) -> list[bytes]:
    """Records with DS in any place, or none, of one ALT allele or two, with and without values."""
    rng, found = random.Random(seed), list[bytes]()

    def number() -> str:
        return rng.choice(
            ["0", "1", "2", "2.000", ".", f"{rng.random():.3f}", f"{2 * rng.random():.12f}", f"{rng.random():.17f}", "1e-3", ".5", "1."]
        )

    for i in range(count):
        keys = rng.choice([b"GT:DS", b"GT:DS:GP", b"DS", b"GT:GP:DS", b"GT"])
        alt = rng.choice([b"C", b"C", b"C,G", b"."])
        samples = []
        for _ in range(n_samples):
            dosages = ",".join(number() for _ in range(alt.count(b",") + 1)) if alt != b"." and rng.random() < 0.9 else "."
            parts = {"GT": "0|1", "DS": dosages, "GP": "0.1,0.2,0.7"}
            text = [parts[key] for key in keys.decode().split(":")]
            samples.append(":".join(text[:1] if rng.random() < 0.1 else text).encode())
        found.append(record(*samples, alt=alt, keys=keys, position=i + 1))
    return found


def oracle(path: Path) -> NDArray[np.float32]:
    """Dosages by htslib, a row for each ALT allele."""
    rows, file = [], VCF(str(path))
    for site in file:
        values = site.format("DS")
        for k in range(len(site.ALT)):
            if values is None:
                rows.append(np.full(len(file.samples), np.nan, np.float32))
            else:
                rows.append(values[:, k] if values.shape[1] > k else np.full(len(values), np.nan, np.float32))
    return np.array(rows, np.float32)


@pytest.mark.parametrize("n_samples", [1, 4, 7, 33])
def test_vcf_input__dosages_are_what_htslib_reads(text_file: TextFile, n_samples: int) -> None:
    names = b"\t".join(b"s%d" % i for i in range(n_samples)) + b"\n"
    lines = random_records(n_samples, 150, n_samples)
    path = text_file("a.bgzip.vcf.gz", META + names + b"".join(lines))
    table = VcfInput.model_validate({"path": str(path), "field": "dosages", "parts": 3})
    whole = concat_parts([source.load() for source in table.sources(2)])
    assert list(table.table_schema().arrays) == list(table.axes()) == ["alt_dosages"]
    assert whole.arrays["alt_dosages"].dtype == np.float32
    np.testing.assert_array_equal(whole.arrays["alt_dosages"], oracle(path))
    assert whole.counts["without_ds"] == sum(b"\tGT\t" in line for line in lines)
    assert whole.counts["records"] == 150


@pytest.mark.parametrize("n_samples", [1, 5, 32])
def test_parse_records__compiled_and_plain_code_read_the_same_dosages(n_samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    header, lines = VcfHeader("x.vcf", tuple(f"s{i}" for i in range(n_samples)), ()), random_records(n_samples, 90, 3)
    fields = [line.rstrip().split(b"\t", TAIL) for line in lines]
    n_alts = np.array([{b".": 0, b"C": 1, b"C,G": 2}[line[4]] for line in fields])
    plain = read_plain_dosages(Records("x.vcf", header.samples, fields, n_alts))
    odd: list[int] = []

    def seen(records: Records) -> NDArray[np.float32]:
        odd.append(len(records.fields))
        return read_plain_dosages(records)

    monkeypatch.setattr(vcf_text, "read_plain_dosages", seen)
    np.testing.assert_array_equal(parse_records(b"".join(lines), header, "dosages").array, plain)
    assert 0 < odd[0] < 90


def test_parse_records__a_record_without_ds_is_missing_throughout() -> None:
    found = parse_records(record(b"0/1", b"1/1", keys=b"GT") + record(b"0/1:0.9", b"1/1"), HEADER, "dosages")
    np.testing.assert_array_equal(found.array, np.array([[np.nan, np.nan], [0.9, np.nan]], np.float32))
    assert found.counts.without_ds == 1


def test_parse_records__a_dosage_beside_a_haploid_call_counts_twice_as_in_plink() -> None:
    """PLINK 2.00a3.5 `--vcf X dosage=DS` has 2, 1.4, 1.2, 0.9 and 0.4 of these."""
    header = VcfHeader("x.vcf", ("a", "b", "c", "d", "e"), ())
    line = record(b"1:1", b".:0.7", b"0/1:1.2", b".|.:0.9", b"0:0.2")
    expected = np.array([[2, 1.4, 1.2, 0.9, 0.4]], np.float32)
    np.testing.assert_array_equal(parse_records(line, header, "dosages").array, expected)
    odd = line.replace(b"0.2", b"2e-1")  # which plain code reads
    np.testing.assert_array_equal(parse_records(odd, header, "dosages").array, expected)
    without = record(b"1:1:0", b"0.5:1:0", b"2:1:0", b".:1:0", b"0:1:0", keys=b"DS:GT:GP")  # GT is first, or is none
    np.testing.assert_array_equal(parse_records(without, header, "dosages").array, np.array([[1, 0.5, 2, np.nan, 0]], np.float32))


def test_parse_records__of_nothing_are_no_dosages() -> None:
    assert parse_records(b"", HEADER, "dosages").array.shape == (0, 2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (record(b"0/1:1"), r"record 20:100 has 10 fields where 11 are expected"),
        (record(b"0/1:1", b"0/1:1", b"0/1:1"), r"record 20:100 has 12 fields where 11 are expected"),
        (record(b"0/1", keys=b"GT"), r"record 20:100 has 10 fields where 11 are expected"),
        (record(b"0/1:1", b"0/1:2.1"), r"record 20:100, sample 's2': '2\.1' is no ALT dosage \(DS is a number from 0 to 2"),
        (record(b"1:1.2", b"0/1:1"), r"sample 's1': '1\.2' is no ALT dosage \(DS is a number from 0 to 1, as its GT is haploid,"),
        (record(b"0/1:-0.1", b"0/1:1"), r"sample 's1': '-0\.1' is no ALT dosage"),
        (record(b"0/1:x", b"0/1:1"), r"sample 's1': 'x' is no ALT dosage"),
        (record(b"0/1:1_0", b"0/1:1"), r"sample 's1': '1_0' is no ALT dosage"),
        (record(b"0/1:inf", b"0/1:1"), r"sample 's1': 'inf' is no ALT dosage"),
        (record(b"0/1:1,1", b"0/1:1"), r"sample 's1': '1,1' has 2 dosages, but the record has 1 ALT allele"),
        (record(b"0/1:1", b"0/1:1,1", alt=b"C,G"), r"sample 's1': '1' has 1 dosages, but the record has 2 ALT allele"),
    ],
)
def test_parse_records__refuses_what_is_no_dosage(line: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_records(record(b"0/0:0", b"0/1:1", position=7) + line, HEADER, "dosages")


def test_vcf_input__needs_the_field_in_the_header(text_file: TextFile) -> None:
    path = text_file("a.plain.vcf", META.replace(b"ID=DS", b"ID=DX") + b"s\n" + record(b"0/1", keys=b"GT"))
    with pytest.raises(InputError, match=r"a\.plain\.vcf: its header has no FORMAT field DS \(it has: GT, DX, GP\); .* field: calls"):
        VcfInput.model_validate({"path": str(path), "field": "dosages"}).table_schema()


@pytest.mark.parametrize(
    ("meta", "given", "build"),
    [
        (META, None, "GRCh38"),
        (META, "hg19", "GRCh37"),
        (META.replace(b",length=64444167", b""), None, None),
        (META.replace(b"length=64444167", b"assembly=b37"), None, "GRCh37"),
        (META.replace(b",length=64444167>", b">\n##reference=file:///ref/hg38.fa"), None, "GRCh38"),
    ],
)
def test_vcf_input__tells_the_genome_build(text_file: TextFile, meta: bytes, given: str | None, build: str | None) -> None:
    path = text_file("a.plain.vcf", meta + b"s\n")
    assert VcfInput.model_validate({"path": str(path), "build": given}).genome_build() == build


def sums_of(n_samples: int, count: int) -> list[bytes]:
    """Records with GP and HDS of diploid and haploid samples, with gaps, and without one ALT allele."""
    rng, found = random.Random(7), list[bytes]()
    for i in range(count):
        alt = rng.choice([b"C"] * 8 + [b"."])
        samples = []
        for _ in range(n_samples):
            copies = rng.choice([1, 2, 2, 2])
            gp = rng.choice(["."] + [",".join(f"{rng.random():.{rng.choice([2, 17])}f}" for _ in range(copies + 1))] * 9)
            hds = rng.choice([".", *[",".join(rng.choice([f"{rng.random():.3f}", "0", "1", ".5", "1e-2"]) for _ in range(copies))] * 9])
            samples.append(f"{'0' if copies == 1 else '0|1'}:{gp}:{hds}".encode() if rng.random() < 0.95 else b"./.")
        found.append(record(*samples, alt=alt, keys=rng.choice([b"GT:GP:HDS"] * 9 + [b"GT:DS:XX"]), position=i + 1))
    return found


@pytest.mark.parametrize("field", ["probabilities", "haplotype_dosages"])
def test_vcf_input__gp_and_hds_are_dosages_of_what_htslib_reads(text_file: TextFile, field: Any) -> None:
    names = b"\t".join(b"s%d" % i for i in range(9)) + b"\n"
    meta = META.replace(b"#CHROM", b'##FORMAT=<ID=HDS,Number=.,Type=Float,Description="Haplotypes">\n#CHROM')
    path = text_file("a.vcf", meta + names + b"".join(sums_of(9, 120)))
    expected = []
    for site in VCF(str(path)):
        values = site.format("GP" if field == "probabilities" else "HDS") if site.ALT else None
        if not site.ALT:
            continue
        if values is None:
            expected.append(np.full(9, np.nan))
            continue
        known = ~np.isnan(values)
        copies = known.sum(axis=1) - (field == "probabilities")
        total = np.where(known, values, 0).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            if field == "probabilities":
                values = np.where(known, values, 0) @ np.arange(3)[: values.shape[1]] * 2 / copies / total
            else:
                values = 2 * total / copies
        expected.append(np.where(known.any(axis=1), values, np.nan))
    whole = concat_parts([source.load() for source in VcfInput.model_validate({"path": str(path), "field": field}).sources(1)])
    np.testing.assert_allclose(whole.arrays["alt_dosages"], np.array(expected), rtol=2e-6, atol=1e-6)
    lines = [line.rstrip().split(b"\t", TAIL) for line in sums_of(9, 120)]
    records = Records("x.vcf", tuple(f"s{i}" for i in range(9)), lines, np.array([line[4] != b"." for line in lines]).astype(np.int64))
    plain = read_plain_sums(records, vcf_text.KEYS[field])
    np.testing.assert_array_equal(whole.arrays["alt_dosages"], plain)
    assert whole.counts["without_ds"] == sum(b"GT:DS:XX" in line[TAIL - 1] for line in lines)


@pytest.mark.parametrize(
    ("line", "field", "message"),
    [
        (record(b"0/1:1,0,0", b"0/1:0,0,0", keys=b"GT:GP"), "probabilities", "sample 's2': '0,0,0' is no GP"),
        (record(b"0/1:1,0,0,0", b"0/1:0,0,1", keys=b"GT:GP"), "probabilities", "sample 's1': '1,0,0,0' is no GP"),
        (record(b"0/1:0.5", b"0/1:0,0,1", keys=b"GT:GP"), "probabilities", r"sample 's1': '0\.5' is no GP"),
        (record(b"0/1:1,1.2", b"0/1:0,1", keys=b"GT:HDS"), "haplotype_dosages", r"sample 's1': '1,1\.2' is no HDS"),
        (record(b"0/1:1,0,0", b"0/1:0,1", keys=b"GT:HDS"), "haplotype_dosages", "sample 's1': '1,0,0' is no HDS"),
        (
            record(b"0/1:1,0", b"0/1:0,1", keys=b"GT:HDS", alt=b"C,G"),
            "haplotype_dosages",
            "'1,0' is of 2 ALT alleles, and HDS",
        ),
    ],
)
def test_parse_records__refuses_what_is_no_probability_or_haplotype(line: bytes, field: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_records(line, HEADER, field)
