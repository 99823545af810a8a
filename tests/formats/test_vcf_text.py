from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cyvcf2 import VCF
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.formats._bgzip import lines
from pipeline.formats._bgzip.cutting import plan_ranges
from pipeline.formats._bgzip.lines import read_lines
from pipeline.formats._vcf import text as vcf_text
from pipeline.formats._vcf.calls import PackedRecords, pack_records
from pipeline.formats._vcf.header import VcfHeader, read_header
from pipeline.formats._vcf.records import TAIL, Records
from pipeline.formats._vcf.text import VARIANT_COLUMNS, VcfCounts, VcfRecords, parse_records

DATA = Path(__file__).parents[2] / ".." / "shared" / "data" / "kg_chr20"
TextFile = Callable[[str, bytes], Path]
HEADER = VcfHeader("x.vcf", ("s1", "s2"), ())
META = b"""##fileformat=VCFv4.3
##contig=<ID=20,length=63025520>
##contig=<ID=chrX>
##ALT=<ID=DEL,Description="Deletion">
##FILTER=<ID=PASS,Description="All filters passed">
##INFO=<ID=AF,Number=A,Type=Float,Description="Frequency">
##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">
##FORMAT=<ID=DP,Number=1,Type=Integer,Description="Depth">
##FORMAT=<ID=PL,Number=G,Type=Integer,Description="Likelihoods">
"""


def read_whole(path: Path, target_bytes: int = 1 << 30) -> VcfRecords:
    header = read_header(path)
    parts = [parse_records(chunk, header) for part in plan_ranges(path, target_bytes) for chunk in read_lines(part)]
    counts = sum((part.counts for part in parts), VcfCounts())
    return VcfRecords(pl.concat([part.variants for part in parts]), np.concatenate([part.array for part in parts]), counts)


def codes(packed: NDArray[np.uint8], n_samples: int) -> NDArray[np.uint8]:
    """Codes `uint8[v, n]`, unpacked the slow way."""
    return np.stack([packed[:, s // 4] >> 2 * (s % 4) & 3 for s in range(n_samples)], axis=1)


def oracle(path: Path) -> tuple[list[tuple[str, int, str, str, str]], NDArray[np.uint8]]:
    """Rows and codes as cyvcf2 (htslib) reads the alleles: -1 is missing, -2 is what a haploid call has not."""
    rows, calls = [], []
    file = VCF(str(path))
    for record in file:
        alleles = record.genotype.array()[:, :-1] if "GT" in record.FORMAT else np.full((len(file.samples), 2), -1)
        for k, alt in enumerate(record.ALT, start=1):
            built = f"{record.CHROM}:{record.POS}:{record.REF}:{alt}"
            name = built if record.ID is None else record.ID + (f":{alt}" if len(record.ALT) > 1 else "")
            rows.append((record.CHROM, record.POS, name, record.REF, alt))
            dosage = (alleles == k).sum(1) * np.where((alleles == -2).any(1), 2, 1) if alleles.shape[1] == 2 else 2 * (alleles == k)[:, 0]
            calls.append(np.where((alleles == -1).any(1), 3, dosage))
    return rows, np.array(calls, np.uint8)


def file_text(records: list[bytes], n_samples: int) -> bytes:
    names = b"\t".join(b"s%d" % i for i in range(n_samples))
    columns = b"\t".join((b"#CHROM", b"POS", b"ID", b"REF", b"ALT", b"QUAL", b"FILTER", b"INFO", b"FORMAT", names))
    return META + columns + b"\n" + b"".join(record + b"\n" for record in records)


def random_call(rng: random.Random, n_alts: int, style: str) -> bytes:
    def allele() -> str:
        return "." if style != "clean" and rng.random() < 0.1 else str(rng.randrange(n_alts + 1))

    first, second = allele(), allele()
    if style == "haploid" and rng.random() < 0.5:
        return first.encode()
    if style == "whole" and "." in (first, second):
        first = second = "."
    return (first + rng.choice("/|") + second).encode()


def odd_records(n_samples: int, count: int, seed: int) -> list[bytes]:
    """Records with everything that the format allows, in random mixture."""
    rng = random.Random(seed)
    records = []
    for i in range(count):
        alts = rng.choice(
            [b"C", b"C", b"C", b"G,T", b"<DEL>", b"*", b"AC,*,<DEL>", b".", b"A[20:55[", b",".join(b"A" * k for k in range(2, 14))]
        )
        style = rng.choice(["clean", "clean", "whole", "whole", "half", "haploid"])
        keys = rng.choice([b"GT", b"GT", b"GT", b"GT:DP", b"GT:PL:DP", b"DP"])
        n_alts = 0 if alts == b"." else alts.count(b",") + 1
        genotypes = [b"7" if keys == b"DP" else random_call(rng, n_alts, style) for _ in range(n_samples)]
        extra = {b"GT:DP": b":12", b"GT:PL:DP": b":0,30,300:9"}.get(keys, b"")
        fields = [genotype + (extra if rng.random() < 0.8 else b"") for genotype in genotypes]
        name = rng.choice([b"rs%d" % i, b"."])
        fixed = (rng.choice([b"20", b"chrX"]), b"%d" % (1000 + 7 * i), name, b"A", alts, b".", b"PASS", b"AF=0.5", keys)
        records.append(b"\t".join((*fixed, *fields)))
    return records


def record(*samples: bytes, alt: bytes = b"C", keys: bytes = b"GT", position: bytes = b"100") -> bytes:
    return b"\t".join((b"20", position, b"rs1", b"A", alt, b".", b".", b".", keys, *samples)) + b"\n"


@pytest.mark.parametrize("name", ["reference.vcf.gz", "unphased.vcf.gz"])
def test_parse_records__reads_chr20_as_htslib_does(name: str) -> None:
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is not there")
    found, (rows, calls) = read_whole(DATA / name, 5_000_000), oracle(DATA / name)
    assert found.variants.rows() == rows
    np.testing.assert_array_equal(codes(found.array, calls.shape[1]), calls)
    assert found.counts == VcfCounts(records=24990)


@pytest.mark.parametrize("kind", ["plain", "gzip", "bgzip"])
@pytest.mark.parametrize("n_samples", [1, 4, 7])
def test_parse_records__reads_odd_records_as_htslib_does(text_file: TextFile, kind: str, n_samples: int) -> None:
    path = text_file(f"odd.{kind}.vcf", file_text(odd_records(n_samples, 300, n_samples), n_samples))
    found, (rows, calls) = read_whole(path), oracle(path)
    assert found.variants.rows() == rows
    assert found.variants.schema == pl.Schema(VARIANT_COLUMNS)
    np.testing.assert_array_equal(codes(found.array, n_samples), calls)
    assert not (found.array[:, -1] >> (2 * (n_samples % 4 or 4))).any() or n_samples % 4 == 0
    assert {name for name, count in asdict(found.counts).items() if not count} == {"without_ds"}


@pytest.mark.parametrize("n_samples", [1, 3, 4, 5, 31, 33, 130])
def test_parse_records__compiled_and_plain_code_read_the_same(n_samples: int) -> None:
    lines = [*odd_records(n_samples, 60, n_samples), *(record(*gt).rstrip() for gt in ([b"./."] * n_samples, [b"1|0"] * n_samples))]
    header = VcfHeader("x.vcf", tuple(f"s{i}" for i in range(n_samples)), ())
    found = parse_records(b"\n".join(lines), header)
    fields = [line.split(b"\t", TAIL) for line in lines]
    n_alts = np.array([0 if alt == b"." else alt.count(b",") + 1 for *_, alt in (line[:5] for line in fields)])
    plain = pack_records(Records("x.vcf", header.samples, fields, n_alts))
    np.testing.assert_array_equal(found.array, plain.calls)
    assert found.counts.half_missing_calls == plain.half_missing
    assert (found.counts.haploid_calls, found.counts.without_gt) == (plain.haploid, plain.without_gt)


def test_parse_records__leaves_only_odd_records_to_plain_code(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def plain(records: Records) -> PackedRecords:
        seen.append(len(records.fields))
        return pack_records(records)

    monkeypatch.setattr(vcf_text, "pack_records", plain)
    lines = record(b"0/1", b"1|1") + record(b"0/1:3", b"2", alt=b"C,G", keys=b"GT:DP") + record(b".", b"0/.") + record(b"/0/1", b"1/1")
    assert codes(parse_records(lines, HEADER).array, 2).tolist() == [[1, 2], [1, 0], [0, 2], [3, 3], [1, 2]]
    assert seen == [1]


def test_parse_records__passes_over_comments_and_blank_lines() -> None:
    lines = b"#a comment\n\n" + record(b"0/1", b"1/1") + b"\r\n#another\n" + record(b"1/1", b"0/0")[:-1]
    assert codes(parse_records(lines, HEADER).array, 2).tolist() == [[1, 2], [2, 0]]


def test_parse_records__takes_names_that_are_not_ascii() -> None:
    for name, read in (("ä".encode(), "ä"), (b"\xff", "\ufffd")):
        found = parse_records(record(b"0/1", b"1/1").replace(b"rs1", name), HEADER)
        assert found.variants["variant_id"].to_list() == [read]


@pytest.mark.parametrize("kind", ["plain", "bgzip"])
def test_parse_records__gives_the_same_rows_for_any_ranges(text_file: TextFile, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    text = file_text(odd_records(5, 400, 3), 5)
    path = text_file(f"odd.{kind}.vcf", text)
    whole = read_whole(path)
    for ranges, chunk_bytes in ((1, 2000), (2, 1 << 20), (7, 900)):
        monkeypatch.setattr(lines, "CHUNK_BYTES", chunk_bytes)
        target = -(-len(text) // ranges)
        assert len(plan_ranges(path, target)) == ranges if kind == "plain" else len(plan_ranges(path, target)) in (ranges, ranges - 1)
        found = read_whole(path, target)
        assert found.variants.equals(whole.variants)
        np.testing.assert_array_equal(found.array, whole.array)
        assert found.counts == whole.counts


def test_parse_records__reads_windows_line_ends_and_no_final_newline(text_file: TextFile) -> None:
    text = file_text(odd_records(5, 60, 5), 5)
    whole = read_whole(text_file("unix.vcf", text))
    for name, other in (("windows", text.replace(b"\n", b"\r\n")), ("open", text[:-1]), ("both", text.replace(b"\n", b"\r\n")[:-2])):
        found = read_whole(text_file(f"{name}.vcf", other))
        assert found.variants.equals(whole.variants)
        np.testing.assert_array_equal(found.array, whole.array)


def test_parse_records__splits_a_multi_allelic_record() -> None:
    header = VcfHeader("x.vcf", tuple("abcdef"), ())
    found = parse_records(record(b"0/1", b"1/2", b"2|2", b"3/1", b"./.", b"2", alt=b"C,G,<DEL>"), header)
    assert found.variants["alt"].to_list() == ["C", "G", "<DEL>"]
    assert found.variants["variant_id"].to_list() == ["rs1:C", "rs1:G", "rs1:<DEL>"]
    assert codes(found.array, 6).tolist() == [[1, 1, 0, 1, 3, 0], [0, 1, 2, 0, 3, 2], [0, 0, 0, 1, 3, 0]]
    assert found.counts == VcfCounts(records=1, multi_allelic=1, symbolic=1, haploid_calls=1)


def test_parse_records__counts_what_it_met() -> None:
    lines = (
        record(b"./1", b"0|.")
        + record(b"0", b".")
        + record(b"0/0", b"./.", alt=b".")
        + record(b"5", b"6", keys=b"DP")
        + record(b"1/1", b"0:3", alt=b"*")
    )
    found = parse_records(lines, HEADER)
    assert found.counts == VcfCounts(5, monomorphic=1, symbolic=1, without_gt=1, half_missing_calls=2, haploid_calls=2)
    assert codes(found.array, 2).tolist() == [[3, 3], [0, 3], [3, 3], [2, 0]]


@pytest.mark.parametrize("alt", [b"<DEL>", b"C,<DUP:TANDEM>", b"*", b"C,*", b"]20:5]A", b"A[20:5[", b".A", b"A.", b"C,A."])
def test_parse_records__counts_symbolic_alleles(alt: bytes) -> None:
    assert parse_records(record(b"0/1", b"0/0", alt=alt), HEADER).counts.symbolic == 1
    assert parse_records(record(b"0/1", b"0/0", alt=b"C,GT"), HEADER).counts.symbolic == 0


def test_parse_records__of_nothing_is_an_empty_table() -> None:
    found = parse_records(b"", HEADER)
    assert found.variants.schema == pl.Schema(VARIANT_COLUMNS)
    assert (len(found.variants), found.array.shape, found.counts) == (0, (0, 1), VcfCounts())


def test_parse_records__takes_an_odd_byte_in_info() -> None:
    found = parse_records(record(b"0/1", b"1/1").replace(b"\t.\t.\t.\t", b"\t.\t.\tNOTE=caf\xe9\t"), HEADER)
    assert codes(found.array, 2).tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (record(b"0/1"), r"x\.vcf: record 20:100 has 10 fields where 11 are expected \(9 and 2 samples\)"),
        (record(b"0/1", b"0/1", b"0/1"), "has 12 fields where 11 are expected"),
        (record(b"0/1:2", b"0/1", b"0/1", keys=b"GT:DP"), "has 12 fields where 11 are expected"),
        (record(b"1", keys=b"DP"), "has 10 fields where 11 are expected"),
        (b"20\t100\trs1\tA\n", "record 20:100 has 4 fields where 11 are expected"),
        (b"20 100 rs1 A C . . . GT 0/0 0/1\n", r"has 1 fields .* separated by something else than tabs"),
        (record(b"0/1", b"0/2"), r"record 20:100, sample 's2': '0/2' has allele 2, but the record has 1 ALT allele\(s\); correct"),
        (record(b"0/1", b"0/1", alt=b"."), r"sample 's1': '0/1' has allele 1, but the record has 0 ALT"),
        (record(b"0/0", b"12/0:3", alt=b"C,G", keys=b"GT:DP"), "sample 's2': '12/0' has allele 12, but the record has 2 ALT"),
        (record(b"0/1", b"0/x"), "sample 's2': '0/x' is not a genotype"),
        (record(b"0-1", b"0/0"), "sample 's1': '0-1' is not a genotype"),
        (record(b"-1/1", b"0/0"), "sample 's1': '-1/1' is not a genotype"),
        (record(b"0/", b"0/0"), "sample 's1': '0/' is not a genotype"),
        (record(b"", b"0/0"), "sample 's1': '' is not a genotype"),
        (record(b"0/0", b":5", keys=b"GT:DP"), "sample 's2': '' is not a genotype"),
        (record(b"0/0/1", b"0/0"), "sample 's1': '0/0/1' has 3 alleles; only haploid and diploid"),
        (record(b"0/0", b"5:0/0", keys=b"DP:GT"), "GT must be the first key of FORMAT, found 'DP:GT'"),
        (record(b"0/0", b"0/0", position=b"1e5"), "record 20:1e5: POS must be a number from 0, found '1e5'"),
        (record(b"0/0", b"0/0", position=b"-5"), "POS must be a number from 0, found '-5'"),
        (record(b"0/0", b"0/0", position=b""), "POS must be a number from 0, found ''"),
        (record(b"0/0", b"0/0", alt=b"C,,G"), "alt is 'C,,G', but no part of it may be empty"),
        (record(b"0/0", b"0/0").replace(b"rs1", b""), "variant_id is '', but no part of it may be empty"),
    ],
)
def test_parse_records__refuses(line: bytes, message: str) -> None:
    good = record(b"0/0", b"0/1", position=b"7")
    with pytest.raises(InputError, match=message):
        parse_records(good + line + good, HEADER)


def test_parse_records__reads_the_separator_that_version_4_4_allows_in_front() -> None:
    assert codes(parse_records(record(b"/0/1", b"|1|1"), HEADER).array, 2).tolist() == [[1, 2]]


@pytest.mark.parametrize("kind", ["plain", "gzip", "bgzip"])
def test_read_header__gives_samples_and_contigs_and_pickles(text_file: TextFile, kind: str) -> None:
    path = text_file(f"a.{kind}.vcf", file_text([], 3).replace(b"\n", b"\r\n"))
    header = read_header(path)
    assert (header.samples, header.contigs, header.path) == (("s0", "s1", "s2"), ("20", "chrX"), str(path))
    assert pickle.loads(pickle.dumps(header)) == header
    assert read_whole(path, 100).variants.is_empty()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "the file is empty"),
        (b"chrom,pos\n1,2\n", "not a VCF: its first line must begin with '##fileformat=VCF' and begins with 'chrom,pos'"),
        (b"BCF\x02\x02", "not a VCF: this is a BCF .*, which is read with format: bcf"),
        (META, "there is no #CHROM line"),
        (META + record(b"0/0"), "there is no #CHROM line"),
        (file_text([], 1).replace(b"\tFORMAT\ts0", b""), "has no sample columns"),
        (file_text([], 1).replace(b"\ts0", b""), "has no sample columns"),
        (file_text([], 2).replace(b"s1", b"s0"), r"1 sample id\(s\) stand more than once, such as s0; rename"),
        (file_text([], 2).replace(b"\tPOS", b" POS"), "must begin with the columns #CHROM POS ID .* separated by tabs"),
        (file_text([], 1).replace(b"s0", b"\xff"), "a sample id in the #CHROM line is not UTF-8"),
    ],
)
def test_read_header__refuses(text_file: TextFile, text: bytes, message: str) -> None:
    with pytest.raises(InputError, match=rf"bad\.vcf: .*{message}"):
        read_header(text_file("bad.vcf", text))


def test_read_header__refuses_missing_and_truncated_files(text_file: TextFile, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.vcf: there is no such file"):
        read_header(tmp_path / "absent.vcf")
    text = file_text(odd_records(3, 50, 1), 3)
    for kind, message in (("gzip", "the gzip data stop"), ("bgzip", "the block that ends every bgzip file is missing")):
        path = text_file(f"cut.{kind}.vcf.gz", text)
        path.write_bytes(path.read_bytes()[:180])
        with pytest.raises(InputError, match=f"looks truncated: {message}"):
            read_header(path)
