"""BCF, written by htslib from a VCF's text: the variants, calls, dosages and fields of that VCF, in any parts; and what is refused."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pysam
import pysam.bcftools
import pytest

from pipeline.bounds import DEFAULTS
from pipeline.errors import InputError
from pipeline.formats._bcf.header import read_bcf_header
from pipeline.formats._bcf.stretches import read_records
from pipeline.formats._bcf.text import record_fields
from pipeline.formats._bgzip.blocks import EOF_BLOCK
from pipeline.formats._bgzip.cutting import cut_blocks
from pipeline.formats._bgzip.writer import bgzip
from pipeline.formats.bcf import BcfInput
from pipeline.formats.vcf import VcfInput
from pipeline.tables.part import Part, concat_parts

PEOPLE = 23
FIELDS = ("QUAL", "FILTER", "AF", "R2", "NS", "DB", "TX")
META = """##fileformat=VCFv4.3
##FILTER=<ID=q10,Description="Quality, below 10">
##FILTER=<ID=s50,Description="y">
##INFO=<ID=AF,Number=A,Type=Float,Description="a">
##INFO=<ID=R2,Number=1,Type=Float,Description="a">
##INFO=<ID=NS,Number=1,Type=Integer,Description="a">
##INFO=<ID=DB,Number=0,Type=Flag,Description="a">
##INFO=<ID=TX,Number=1,Type=String,Description="a">
##FORMAT=<ID=GT,Number=1,Type=String,Description="x">
##FORMAT=<ID=DS,Number=A,Type=Float,Description="x">
##FORMAT=<ID=GP,Number=G,Type=Float,Description="x">
##FORMAT=<ID=HDS,Number=.,Type=Float,Description="x">
##FORMAT=<ID=DP,Number=1,Type=Integer,Description="x">
##contig=<ID=20,length=63025520>
##contig=<ID=X>
##contig=<ID=HLA:1>
"""


def _record(random: np.random.Generator, at: int, contig: str) -> str:
    """A record of no, one, or up to 70 ALT alleles, with haploid and missing calls, and fields that are there or not."""
    alts = int(random.choice([0, 1, 2, 3, 70])) if at % 9 == 0 else 1
    alleles = [*["C", "<DEL>", "GTT"][:alts], *("A" * (length + 2) for length in range(3, alts))]
    info = [f"AF={','.join(random.choice(['.', f'{share:.4f}']) for share in random.random(alts))}"] if alts else []
    info += [
        f"R2={random.random():.5f}",
        f"NS={random.choice([5, 200, 40_000, 1_000_000])}",
        "DB",
        f"TX={'q' * int(random.integers(1, 40))}",
    ]
    shown = ";".join(one for one in info if random.random() < 0.7) or "."
    keys = ["GT", "DP", "DS", "GP", "HDS"] if alts == 1 else ["GT", "DP"]
    keys = keys[1:] if random.random() < 0.05 else keys
    cells = []
    for person in range(PEOPLE):
        copies = 1 if contig == "X" and person % 2 else 2
        missing = -1 if random.random() < 0.2 else 0
        gt = random.choice(["/", "|"]).join("." if one < 0 else str(one) for one in random.integers(missing, alts + 1, copies))
        values = {"GT": gt, "DP": str(random.choice([3, 200, 70_000])), "DS": f"{random.random() * copies:.3f}"}
        values["GP"] = ",".join(f"{one:.3f}" for one in random.dirichlet(np.ones(copies + 1)))
        values["HDS"] = ",".join(f"{one:.3f}" for one in random.random(copies))
        cells.append(":".join("." if key != "GT" and random.random() < 0.05 else values[key] for key in keys))
    name, quality = random.choice([".", f"rs{at}"]), random.choice([".", f"{random.random() * 100:.3f}"])
    passed = random.choice(["PASS", ".", "q10", "q10;s50"])
    site = [contig, str(at + 1), name, "A", ",".join(alleles) or ".", quality, passed, shown, ":".join(keys)]
    return "\t".join([*site, *cells])


@cache
def text(records: int = 240) -> str:
    """A VCF of three contigs."""
    random = np.random.default_rng(5)
    head = ["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *(f"p{at}" for at in range(PEOPLE))]
    contigs = ["20"] * (records // 2) + ["X"] * (records // 3) + ["HLA:1"] * (records - records // 2 - records // 3)
    return META + "\n".join(["\t".join(head), *(_record(random, at, contig) for at, contig in enumerate(contigs))]) + "\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The VCF, and the BCF that bcftools makes of it."""
    folder = tmp_path_factory.mktemp("bcf")
    (folder / "x.vcf").write_text(text())
    pysam.bcftools.view("--no-version", "-Ob", "-o", str(folder / "x.bcf"), str(folder / "x.vcf"), catch_stdout=False)
    return folder / "x.vcf", folder / "x.bcf"


def read(kind: type[VcfInput] | type[BcfInput], path: Path, **keys: Any) -> Part:
    """All parts as one."""
    return concat_parts([source.load() for source in kind.model_validate({"path": str(path), **keys}).sources(1)])


@pytest.mark.parametrize(("field", "near"), [("calls", 0), ("dosages", 0), ("probabilities", 2e-7), ("haplotype_dosages", 2e-7)])
def test_bcf__has_what_the_vcf_has(field: str, near: float, files: tuple[Path, Path]) -> None:
    theirs, ours = read(VcfInput, files[0], field=field), read(BcfInput, files[1], field=field)
    assert ours.frame.equals(theirs.frame)
    assert {name: count for name, count in ours.counts.items() if count} == {name: count for name, count in theirs.counts.items() if count}
    name = "calls" if field == "calls" else "alt_dosages"
    np.testing.assert_allclose(ours.arrays[name], theirs.arrays[name], rtol=0, atol=near)
    assert ours.frame.height > 300
    keys = {"field": field}
    described = BcfInput.model_validate({"path": str(files[1]), **keys}), VcfInput.model_validate({"path": str(files[0]), **keys})
    assert described[0].table_schema() == described[1].table_schema()
    assert described[0].genome_build() == described[1].genome_build() == "GRCh37"
    assert described[0].axes()[name].equals(described[1].axes()[name])


def test_bcf__has_the_fields_of_its_sites_in_any_parts(files: tuple[Path, Path], tmp_path: Path) -> None:
    theirs, whole = read(VcfInput, files[0], fields=FIELDS), read(BcfInput, files[1], fields=FIELDS)
    assert whole.frame.equals(theirs.frame)
    # Blocks far smaller than a record, so that records begin anywhere in them and reach over several.
    raw = pysam.BGZFile(str(files[1])).read()
    small = tmp_path / "small.bcf"
    small.write_bytes(b"".join(bgzip(raw[at : at + 700]) for at in range(0, len(raw), 700)) + EOF_BLOCK)
    for parts in (2, 7, 100):
        reader = BcfInput.model_validate({"path": str(small), "fields": FIELDS, "parts": parts})
        found = concat_parts([source.load() for source in reader.sources(1)])
        assert len(reader.sources(1)) > parts // 2
        assert found.frame.equals(theirs.frame)
        assert np.array_equal(found.arrays["calls"], theirs.arrays["calls"])


def test_a_record__is_the_line_that_bcftools_prints(files: tuple[Path, Path]) -> None:
    header, lines = read_bcf_header(str(files[1])), []
    for part in cut_blocks(str(files[1]), 1 << 30, header.block, skip=header.skip):
        for data in read_records(part, header, DEFAULTS):
            at = 0
            while at < len(data):
                lines.append(b"\t".join(record_fields(data, at, header)).decode())
                at += 8 + int.from_bytes(data[at : at + 4], "little") + int.from_bytes(data[at + 4 : at + 8], "little")
    assert lines == pysam.bcftools.view("-H", str(files[1])).splitlines()


def test_bcf__whose_header_has_a_length_that_looks_like_a_line_end_is_read(files: tuple[Path, Path], tmp_path: Path) -> None:
    raw = pysam.BGZFile(str(files[1])).read()
    length = int.from_bytes(raw[5:9], "little")
    before, line, after = raw[9 : 9 + length].partition(b"##FILTER=<ID=q10")
    more = b"##x=" + b"y" * ((10 - length - 5) % 256) + b"\n"
    assert (length + len(more)).to_bytes(4, "little")[:1] == b"\n"
    head = (length + len(more)).to_bytes(4, "little") + before + more + line + after
    (tmp_path / "x.bcf").write_bytes(bgzip(raw[:5] + head + raw[9 + length :]) + EOF_BLOCK)
    assert read(BcfInput, tmp_path / "x.bcf").frame.equals(read(BcfInput, files[1]).frame)


def test_bcf__of_one_haploid_person_is_read(tmp_path: Path) -> None:
    lines = "".join(f"20\t{at}\t.\tA\tC\t.\t.\t.\tGT\t{at % 2}\n" for at in range(1, 6))
    (tmp_path / "x.vcf").write_text(META + "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tp\n" + lines)
    pysam.bcftools.view("-Ob", "-o", str(tmp_path / "x.bcf"), str(tmp_path / "x.vcf"), catch_stdout=False)
    assert read(BcfInput, tmp_path / "x.bcf").arrays["calls"].ravel().tolist() == [2, 0, 2, 0, 2]


def test_bcf__that_is_damaged_or_none_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    raw, path = pysam.BGZFile(str(files[1])).read(), tmp_path / "bad.bcf"
    start = 9 + int.from_bytes(raw[5:9], "little")

    def refused(content: bytes, match: str, **keys: Any) -> None:
        path.write_bytes(content)
        with pytest.raises(InputError, match=match):
            read(BcfInput, path, **keys)

    refused(bgzip(raw[:-9]) + EOF_BLOCK, "looks truncated: its last record is not whole")
    refused(bgzip(raw[: start + 3]) + EOF_BLOCK, "looks truncated: its last record is not whole")
    refused(bgzip(raw[:start] + raw[start : start + 8] + b"\x63\0\0\0" + raw[start + 12 :]) + EOF_BLOCK, r"record .* is damaged")
    refused(bgzip(raw[: start + 40] + b"\xff" * 30 + raw[start + 70 :]) + EOF_BLOCK, r"record .* is damaged")
    refused(raw, "is read from bgzip blocks, and this is not packed")
    refused(bgzip(text().encode()) + EOF_BLOCK, "not a BCF of version 2.*a VCF is read with format: vcf")
    refused(files[1].read_bytes()[:-28], "the block that ends every bgzip file is missing")
    with pytest.raises(InputError, match=r"this is a BCF \(binary\) file, which is read with format: bcf"):
        read(VcfInput, files[1])
    alone = META.replace("FORMAT=<ID=DS", "FORMAT=<ID=XX") + text().partition("##contig=<ID=HLA:1>\n")[2].split("\n")[0] + "\n"
    (tmp_path / "none.vcf").write_text(alone)
    pysam.bcftools.view("-Ob", "-o", str(path), str(tmp_path / "none.vcf"), catch_stdout=False)
    assert read(BcfInput, path).frame.is_empty()
    with pytest.raises(InputError, match="its header has no FORMAT field DS"):
        read(BcfInput, path, field="dosages")
