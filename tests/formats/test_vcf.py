"""The vcf format: files to genotype tables, in any parts; cyvcf2 is the oracle of what the calls are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from cyvcf2 import VCF
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.formats.vcf import VcfInput
from pipeline.genome.columns import dtypes_of
from pipeline.tables.part import Part, concat_parts
from tests.formats.reading import parts_of, read

TextFile = Callable[[str, bytes], Path]
SHIPPED = Path(__file__).parents[2] / "data" / "genomics" / "cohort.vcf.gz"
KG = Path(__file__).parents[2] / ".." / "shared" / "data" / "kg_chr20"
needs_kg = pytest.mark.skipif(not KG.is_dir(), reason=f"{KG} is not there")
NAMES = ("chromosome", "base_pair_location", "variant_id", "ref", "alt")
HEAD = b"##fileformat=VCFv4.2\n##contig=<ID=1>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t"


def text_of(low: int, high: int, samples: tuple[str, ...] = ("a", "b", "c", "d", "e"), end: str = "\n") -> bytes:
    """Records at positions low to high - 1; every third has two ALT alleles, and the call of sample s in record i is of (i + s) % 4."""
    lines = []
    for i in range(low, high):
        alt = "G,T" if i % 3 == 0 else "G"
        calls = "\t".join(("0/0", "0|1", "1/1", "./.")[(i + s) % 4] for s in range(len(samples)))
        lines.append(f"1\t{i}\trs{i}\tA\t{alt}\t.\tPASS\t.\tGT\t{calls}{end}")
    return HEAD + "\t".join(samples).encode() + end.encode() + "".join(lines).encode()


def reader(path: Path | list[str], **given: Any) -> VcfInput:
    return VcfInput.model_validate({"path": path if isinstance(path, list) else str(path), **given})


def codes(rows: Part, people: int) -> NDArray[np.uint8]:
    calls: NDArray[np.uint8] = rows.arrays["calls"]
    return np.stack([calls[:, s // 4] >> 2 * (s % 4) & 3 for s in range(people)], axis=1)


def oracle(path: Path) -> tuple[pl.DataFrame, NDArray[np.uint8]]:
    """Variants and ALT counts of a diploid biallelic file as cyvcf2 reads them."""
    rows, calls = [], []
    for record in VCF(str(path), gts012=True):
        rows.append(
            (record.CHROM, record.POS, record.ID or f"{record.CHROM}:{record.POS}:{record.REF}:{record.ALT[0]}", record.REF, record.ALT[0])
        )
        calls.append(record.gt_types.astype(np.uint8))
    return pl.DataFrame(rows, schema=dtypes_of(NAMES), orient="row"), np.array(calls)


def assert_is_oracles(path: Path, parts: int) -> None:
    whole, (variants, calls) = read(reader(path, parts=parts)), oracle(path)
    assert whole.frame.equals(variants)
    np.testing.assert_array_equal(codes(whole, calls.shape[1]), calls)
    assert reader(path).axes()["calls"]["sample_id"].to_list() == VCF(str(path)).samples


def test_vcf_input__the_shipped_cohort_is_what_cyvcf2_reads() -> None:
    assert_is_oracles(SHIPPED, 7)


@needs_kg
@pytest.mark.parametrize(("name", "parts"), [("reference.vcf.gz", 2), ("unphased.vcf.gz", 7)])
def test_vcf_input__real_people_are_what_cyvcf2_reads(name: str, parts: int) -> None:
    assert_is_oracles(KG / name, parts)


@pytest.mark.parametrize("kind", ["plain", "gzip", "bgzip"])
@pytest.mark.parametrize("parts", [None, 1, 2, 7])
def test_vcf_input__parts_keep_every_row_once_and_in_order(text_file: TextFile, kind: str, parts: int | None) -> None:
    path = text_file(f"{kind}.vcf", text_of(1, 200))
    table = reader(path, parts=parts)
    found = parts_of(table)
    if parts:
        assert len(found) == 1 if kind == "gzip" else parts / 2 < len(found) <= parts
    whole = concat_parts(found)
    expected = [(f"rs{i}:{alt}" if i % 3 == 0 else f"rs{i}", alt) for i in range(1, 200) for alt in ("GT" if i % 3 == 0 else "G")]
    assert whole.frame.select("variant_id", "alt").rows() == expected
    first = [i for i in range(1, 200) for _ in range(2 if i % 3 == 0 else 1)]
    wanted = [[(i + s) % 4 if alt == "G" or (i + s) % 4 == 3 else 0 for s in range(5)] for i, (_, alt) in zip(first, expected, strict=True)]
    np.testing.assert_array_equal(codes(whole, 5), wanted)
    assert whole.counts["cohort:records"] == 199
    assert whole.counts["cohort:multi_allelic"] == 66


def test_vcf_input__states_its_schema_and_its_samples(text_file: TextFile) -> None:
    table = reader(text_file("plain.vcf", text_of(1, 3)))
    schema = table.table_schema()
    assert list(schema.columns.items()) == [(name, pl.Int64() if name == "base_pair_location" else pl.String()) for name in NAMES]
    assert schema.arrays == {"calls": pl.Schema({"sample_id": pl.String()})}
    assert table.axes()["calls"].rows() == [("a",), ("b",), ("c",), ("d",), ("e",)]


@pytest.mark.parametrize("parts", [None, 2, 7])
def test_vcf_input__several_files_of_the_same_samples_are_one_table(tmp_path: Path, text_file: TextFile, parts: int | None) -> None:
    for number, (kind, low, high) in enumerate((("plain", 1, 40), ("gzip", 40, 40), ("bgzip", 40, 90))):
        text_file(f"{number}-{kind}.vcf", text_of(low, high))
    whole, alone = read(reader(tmp_path, parts=parts)), read(reader(text_file("whole.txt", text_of(1, 90))))
    assert whole.frame.equals(alone.frame)
    np.testing.assert_array_equal(whole.arrays["calls"], alone.arrays["calls"])


def test_vcf_input__windows_line_ends_change_nothing(text_file: TextFile) -> None:
    plain, windows = (read(reader(text_file(name, text_of(1, 30, end=end)))) for name, end in (("a.vcf", "\n"), ("b.vcf", "\r\n")))
    assert windows.frame.equals(plain.frame)
    np.testing.assert_array_equal(windows.arrays["calls"], plain.arrays["calls"])
    assert reader(text_file("b.vcf", text_of(1, 3, end="\r\n"))).axes()["calls"]["sample_id"].to_list() == list("abcde")


def test_vcf_input__a_header_alone_is_a_table_with_no_rows(text_file: TextFile) -> None:
    whole = read(reader(text_file("plain.vcf", text_of(1, 1)), parts=2))
    assert whole.frame.height == 0
    assert whole.arrays["calls"].shape == (0, 2)


@pytest.mark.parametrize("samples", [("a", "b", "c", "e", "d"), ("a", "b", "c", "d"), ("a", "b", "c", "d", "x")])
def test_vcf_input__refuses_files_of_other_samples(tmp_path: Path, text_file: TextFile, samples: tuple[str, ...]) -> None:
    text_file("a.vcf", text_of(1, 5))
    text_file("b.vcf", text_of(5, 9, samples))
    with pytest.raises(InputError, match=r"b\.vcf: its samples are not those of .*a\.vcf, in their order; read it as an input of its own"):
        reader(tmp_path).table_schema()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("plain.vcf", b"", r"plain\.vcf: the file is empty"),
        ("plain.vcf", b"id,age\n1,2\n", r"plain\.vcf: not a VCF: its first line must begin with '##fileformat=VCF'"),
        ("plain.vcf", HEAD.replace(b"\tFORMAT\t", b"\n"), r"plain\.vcf: has no sample columns .* give the file that holds the genotypes"),
        ("plain.vcf", text_of(1, 2, ("a", "b", "a")), r"plain\.vcf: 1 sample id\(s\) stand more than once, such as a"),
        ("plain.vcf", b"##fileformat=VCFv4.2\n", r"plain\.vcf: there is no #CHROM line"),
    ],
)
def test_vcf_input__refuses_before_anything_runs(text_file: TextFile, name: str, text: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        reader(text_file(name, text)).table_schema()


@pytest.mark.parametrize("parts", [None, 7])
@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b"1\t500\trs\tA\tG\t.\t.\t.\tGT\t0/1\t0/1\n", r"bad\.vcf.*1:500.*fields"),
        (b"1\t500\trs\tA\tG\t.\t.\t.\tGT\t0/1\t0/1\t0/2\t0/0\t0/0\n", r"bad\.vcf.*1:500.*sample 'c': '0/2' has allele 2, but .* 1 ALT"),
        (b"1\t500\trs\tA\tG\t.\t.\t.\tGT\t0/1\t0/1\t0/x\t0/0\t0/0\n", r"bad\.vcf.*1:500.*sample 'c': '0/x' is not a genotype"),
        (b"1\tx500\trs\tA\tG\t.\t.\t.\tGT\t0/1\t0/1\t0/1\t0/0\t0/0\n", r"bad\.vcf.*POS must be a number from 0, found 'x500'"),
    ],
)
def test_vcf_input__says_which_record_is_wrong(text_file: TextFile, parts: int | None, record: bytes, message: str) -> None:
    table = reader(text_file("bad.vcf", text_of(1, 30) + record), parts=parts)
    with pytest.raises(InputError, match=message):
        parts_of(table)


def test_vcf_input__refuses_torn_files(tmp_path: Path, text_file: TextFile) -> None:
    whole = text_file("bgzip.vcf.gz", text_of(1, 400)).read_bytes()
    (tmp_path / "bgzip.vcf.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"bgzip\.vcf\.gz: looks truncated: .* Copy or download it again"):
        reader(tmp_path / "bgzip.vcf.gz").table_schema()
    whole = text_file("gzip.vcf.gz", text_of(1, 400)).read_bytes()
    (tmp_path / "gzip.vcf.gz").write_bytes(whole[:-30])
    with pytest.raises(InputError, match=r"gzip\.vcf\.gz: looks truncated: the gzip data stop in the middle"):
        parts_of(reader(tmp_path / "gzip.vcf.gz"))
