"""Regions of indexed VCFs: the indexes are what tabix and bcftools made for the file that `indexed` writes; cyvcf2 is the oracle."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from cyvcf2 import VCF

from pipeline.errors import InputError
from pipeline.formats._bgzip.tabix import read_index
from pipeline.formats._vcf.region import LAST, Region, region_of, regions_of
from pipeline.formats.vcf import VcfInput
from pipeline.tables.part import Part, concat_parts
from tests.formats.conftest import EOF_BLOCK, bgzf_block
from tests.formats.indexed_vcf import HEAD, indexed, stored_block


def read(path: Path | str, *regions: str, **given: Any) -> Part:
    table = VcfInput.model_validate({"path": str(path), "regions": list(regions), **given})
    table.table_schema()
    return concat_parts([source.load() for source in table.sources(2)])


def places(part: Part) -> list[tuple[str, int]]:
    return part.frame.select("chromosome", "base_pair_location").rows()


@pytest.mark.parametrize("kind", ["tbi", "csi"])
def test_regions__are_what_htslib_reads(tmp_path: Path, kind: str) -> None:
    path, rng = indexed(tmp_path, kind), random.Random(5)
    for _ in range(40):
        contig = rng.choice(["20", "chrX"])
        low = rng.randrange(1, 60_000_000 if contig == "20" else 9000)
        region = f"{contig}:{low}-{low + rng.choice([0, 131, 5000, 900_000, 70_000_000])}"
        assert places(read(path, region)) == [(record.CHROM, record.POS) for record in VCF(str(path))(region)]


@pytest.mark.parametrize("kind", ["tbi", "csi"])
def test_regions__read_only_the_blocks_that_hold_them(tmp_path: Path, kind: str) -> None:
    table = VcfInput.model_validate({"path": str(indexed(tmp_path, kind)), "regions": ["20:53000000-56000000"]})
    parts = [part for source in table.sources(2) for part, _ in source.ranges]
    assert sum(part.end - part.start for part in parts) < 700  # of 4,733 bytes
    assert len(VcfInput.model_validate({"path": table.path, "regions": ["20"]}).sources(2)) == 1


def test_regions__several_are_read_once_each_and_in_the_files_order(tmp_path: Path) -> None:
    path = indexed(tmp_path, "tbi")
    part = read(path, "chrX:500-631", "20:1-37001", "chrX:600-900", "20:1-37001", "20:55,537,000-")
    wanted = [("20", 1), ("20", 37001), ("20", 39 * 39 * 37_000 + 1), ("chrX", 500), ("chrX", 631), ("chrX", 762), ("chrX", 893)]
    assert places(part) == wanted
    whole = read(path)
    rows = whole.frame.with_row_index().join(part.frame, on="variant_id", how="semi")["index"].to_numpy()
    np.testing.assert_array_equal(part.arrays["calls"], whole.arrays["calls"][rows])
    assert part.counts["records"] == len(wanted)


def test_regions__that_hold_nothing_give_a_table_with_no_rows(tmp_path: Path) -> None:
    path = indexed(tmp_path, "csi")
    for region in ("21", "20:2-3", "chrX:1-499", "chrX:100000-"):
        part = read(path, region)
        assert (part.frame.height, part.arrays["calls"].shape) == (0, (0, 1))
        assert part.frame.schema == read(path).frame.schema


def test_regions__may_be_one_text_or_a_number(tmp_path: Path) -> None:
    path = indexed(tmp_path, "tbi")
    assert read(path, regions="20:1").frame.height == 1
    assert read(path, regions=20).frame.height == read(path, regions=[20]).frame.height == 40


@pytest.mark.parametrize(
    ("text", "region"),
    [
        ("20", Region("20")),
        ("20:5", Region("20", 5, 5)),
        ("20:5-", Region("20", 5, LAST)),
        ("chr20:1,000-2,000", Region("chr20", 1000, 2000)),
        ("HLA-A*01:01:7-9", Region("HLA-A*01:01", 7, 9)),
    ],
)
def test_region_of__reads_what_people_write(text: str, region: Region) -> None:
    assert region_of(text) == region


@pytest.mark.parametrize("text", ["", " 20", "20:", "20:-5", "20:5-6-7", "20: 5-6", "20:9-5"])
def test_region_of__refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no region; write CONTIG|ends before it begins"):
        region_of(text)
    with pytest.raises(ValueError, match=r"is no region|ends before it begins"):
        VcfInput.model_validate({"path": "x.vcf.gz", "regions": [text]})


def test_regions_of__knows_contigs_with_colons_and_names_near_ones() -> None:
    assert regions_of(["HLA:1"], ["1", "HLA:1"]) == [Region("HLA:1")]
    with pytest.raises(InputError, match=r"regions: there is no contig 'chr20'; this file writes it '20'$"):
        regions_of(["chr20:5-6"], ["20", "X"])
    with pytest.raises(InputError, match=r"there is no contig '20'; this file writes it 'chr20'$"):
        regions_of(["20:5-6"], ["chr20", "chrX"])
    with pytest.raises(InputError, match=r"there is no contig '30'\. .*Known: 20, X"):
        regions_of(["30"], ["20", "X"])


@pytest.mark.parametrize("name", ["a.plain.vcf", "a.gzip.vcf.gz"])
def test_regions__need_bgzip(text_file: Any, name: str) -> None:
    with pytest.raises(
        InputError, match=r"regions can only be read from a bgzip file .* \| bgzip > NEW\.vcf\.gz && tabix -p vcf NEW\.vcf\.gz"
    ):
        read(text_file(name, HEAD), "20")


def test_regions__need_an_index_that_fits(tmp_path: Path) -> None:
    path = indexed(tmp_path, "tbi")
    index = tmp_path / "t.vcf.gz.tbi"
    good = index.read_bytes()
    os.utime(path, ns=(0, index.stat().st_mtime_ns + 10**9))
    with pytest.raises(InputError, match=r"t\.vcf\.gz\.tbi: is older than .*t\.vcf\.gz, .* tabix -f -p vcf"):
        read(path, "20")
    os.utime(path, ns=(0, 0))
    index.write_bytes(bgzf_block(b"TBI\x01 and then" + bytes(50)) + EOF_BLOCK)
    with pytest.raises(InputError, match=r"tbi: the index is damaged"):
        read(path, "20")
    index.write_bytes(gzip.compress(b"another file"))
    with pytest.raises(InputError, match=r"tbi: is no index of tabix or bcftools \(it begins with b'anot'\)"):
        read(path, "20")
    index.write_bytes(good)
    whole = path.read_bytes()
    path.write_bytes(whole[: 4 * 331] + EOF_BLOCK)
    os.utime(path, ns=(0, 0))
    with pytest.raises(InputError, match=r"tbi: is not of .*, which ends before what it points to"):
        read(path, "20")
    path.write_bytes(whole[: 3 * 331] + stored_block(b"") + whole[3 * 331 :])
    os.utime(path, ns=(0, 0))
    with pytest.raises(InputError, match=r"tbi: does not fit the file .*no bgzip block begins at byte"):
        read(path, "chrX")
    index.unlink()
    with pytest.raises(InputError, match=r"t\.vcf\.gz: regions need an index beside it; make one with: tabix -p vcf .* and filter"):
        read(path, "20")


def test_read_index__has_the_contigs_in_order(tmp_path: Path) -> None:
    indexed(tmp_path, "csi")
    path = indexed(tmp_path, "tbi")
    os.utime(path, ns=(0, 0))
    index = read_index(str(path))
    assert list(index.contigs) == ["20", "chrX"]
    assert index.path.endswith(".csi")  # of both, the one that htslib takes
    assert index.chunks("20", 1, LAST)[0].end <= index.chunks("chrX", 1, LAST)[0].end
    assert index.chunks("21", 1, LAST) == []


def test_regions__keep_whole_contigs_whole(tmp_path: Path) -> None:
    path = indexed(tmp_path, "tbi")
    both, whole = read(path, "20", "chrX"), read(path)
    assert both.frame.equals(whole.frame)
    np.testing.assert_array_equal(both.arrays["calls"], whole.arrays["calls"])
    assert both.frame["base_pair_location"].dtype == pl.Int64
