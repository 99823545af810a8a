"""Genome files in buckets and on HTTP servers: the table is that of a disk, a part fetches its own bytes, and what fails is a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import polars as pl
import pytest

from pipeline import pieces, web
from pipeline.errors import DataError, InputError
from pipeline.format import InputFormat
from pipeline.formats._bgzip import cutting
from pipeline.formats._bgzip.cutting import plan_ranges
from pipeline.formats._bgzip.lines import read_lines
from pipeline.formats._parquet import ranges
from pipeline.formats.gtf import GtfInput
from pipeline.formats.vcf import VcfInput
from pipeline.plan.unchanged import need_unchanged, stamps_of
from pipeline.tables.part import Part
from tests.formats.conftest import write_text
from tests.formats.genotype_files import MAKERS, bgen, pgen, plink, vcf
from tests.formats.indexed_vcf import indexed
from tests.formats.reading import parts_of, read
from tests.servers import Site, web_server


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server without files, which is asked again without a pause, and is not known yet."""
    monkeypatch.setattr(web, "PAUSE_S", 0.0)
    pieces._lacks.cache_clear()
    with web_server() as found:
        yield found


def served(site: Site, reader: InputFormat, path: Path, **given: Any) -> InputFormat:
    """The same reader of the file on the site, with all that lies beside it."""
    site.files |= {f"/{file.name}": file.read_bytes() for file in path.parent.iterdir()}
    return reader.model_copy(update={"path": (f"{site.url}/{path.name}",), **given})


def assert_same(found: Part, expected: Part) -> None:
    """The same rows, arrays and counts."""
    assert found.frame.equals(expected.frame)
    assert found.frame.schema == expected.frame.schema
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)
        assert found.arrays[name].dtype == array.dtype
    assert found.counts == expected.counts


def fetched(site: Site, name: str) -> int:
    """The bytes of a file that were asked for since the last time; a request without a range asks for all."""
    whole, total = len(site.files[f"/{name}"]), 0
    for method, path, asked in site.asked:
        if method == "GET" and path == f"/{name}":
            found = re.fullmatch(r"bytes=(\d+)-(\d+)", asked)
            total += min(int(found[2]), whole - 1) - int(found[1]) + 1 if found else whole
    site.asked.clear()
    return total


@pytest.mark.parametrize("kind", MAKERS)
def test_input__at_a_url_is_the_table_of_the_disk(kind: str, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "COUNTED", 0)
    reader, path = MAKERS[kind](tmp_path, 230, 37)
    for parts in (1, 7):
        there = served(site, reader, path, parts=parts)
        assert_same(read(there), read(reader.model_copy(update={"parts": parts})))
        assert len(there.sources(2)) == (1 if parts == 1 or "gtf" in kind or kind in {"fa", "fa.gz", "fq.gz", "gff.gz", "vcf.gz"} else 7)
    assert all(there.axes()[name].equals(axis) for name, axis in reader.axes().items())
    assert [mark.value for mark in there.marks()] == [mark.value for mark in reader.marks()]


@pytest.mark.parametrize("kind", MAKERS)
def test_input__in_a_bucket_is_the_table_of_the_disk(kind: str, bucket: str, tmp_path: Path) -> None:
    reader, path = MAKERS[kind](tmp_path, 60, 11)
    for file in tmp_path.iterdir():
        fsspec.filesystem("s3").put_file(str(file), f"{bucket}/in/{file.name}")
    there = reader.model_copy(update={"path": (f"{bucket}/in/{path.name}",), "parts": 3})
    assert_same(read(there), read(reader))
    assert {file.rpartition("/")[2] for file in stamps_of(there)} >= {file.rpartition("/")[2] for file in reader.content()}


def test_pgen_input__at_a_url_reads_parts_over_several_blocks(site: Site, tmp_path: Path) -> None:
    reader, path = pgen(tmp_path, (1 << 16) + 50, 3)
    there = served(site, reader, path)
    for parts in (1, 3):
        found = there.model_copy(update={"parts": parts})
        assert len(found.sources(2)) == parts
        assert_same(read(found), read(reader))


def test_parquet__all_bytes_of_a_file_that_polars_does_not_read_are_kept_by_no_scan(tmp_path: Path) -> None:
    rows = pl.DataFrame({"a": range(1_000)})
    url = f"memory://{tmp_path}/rows.parquet"
    rows.write_parquet(tmp_path / "rows.parquet")
    fsspec.filesystem("memory").pipe_file(url, (tmp_path / "rows.parquet").read_bytes())
    there = [ranges.scan(path) for path in (url, f"{tmp_path}/rows.parquet", url, f"{tmp_path}/rows.parquet")]
    assert [scan.collect()["a"].sum() for scan in there] == [499_500] * 4
    assert there[1] is there[3]
    assert there[0] is not there[2]


@pytest.mark.parametrize("kind", ["plain", "gzip", "bgzip"])
@pytest.mark.parametrize(("target", "counted"), [(40, False), (97, False), (4001, False), (4001, True), (1 << 30, False)])
def test_read_lines__at_a_url_gives_every_line_once_for_any_ranges(
    kind: str, target: int, counted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And in the ranges of the disk: whether blocks are counted, as those of a small file are, or a file is cut anywhere."""
    monkeypatch.setattr(cutting, "COUNTED", cutting.COUNTED if counted else 0)
    text = (
        b"##one\n##two " + b"x" * 900 + b"\n" + b"".join(b"%d %s\n" % (i, b"abc" * (i * i % 400 if i % 9 == 0 else 5)) for i in range(150))
    )
    url = f"memory://{tmp_path}/lines.{kind}"
    here = write_text(tmp_path / f"lines.{kind}", text)
    fsspec.filesystem("memory").pipe_file(url, here.read_bytes())
    cut = plan_ranges(url, target)
    assert [replace(part, path=str(here)) for part in cut] == plan_ranges(here, target)
    assert b"".join(chunk for part in cut for chunk in read_lines(part)) == text
    assert len(cut) > (10 if target < 100 and kind != "gzip" else 0)


@pytest.mark.parametrize(("index", "counted"), [("tbi", 0), ("csi", 0), ("csi", 1 << 20)])
@pytest.mark.parametrize("regions", ["20", "chrX:600-3000", ["20:1-2000000", "chrX"]])
def test_vcf_input__at_a_url_reads_regions_by_its_index(
    site: Site, index: str, counted: int, regions: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "COUNTED", counted)
    path = indexed(tmp_path, index)
    reader = VcfInput.model_validate({"path": str(path), "regions": regions})
    there = served(site, reader, path)
    assert_same(read(there), read(reader))
    assert {file.rpartition("/")[2] for file in there.content()} == {path.name, f"{path.name}.{index}"}


def test_vcf_input__at_a_url_refuses_an_index_of_a_shorter_file(site: Site, tmp_path: Path) -> None:
    path = indexed(tmp_path, "tbi")
    there = served(site, VcfInput.model_validate({"path": str(path), "regions": "20"}), path)
    longer = vcf(tmp_path, 400, 300, "vcf.bgz")[1].read_bytes()
    site.files[f"/{path.name}"] += longer
    with pytest.raises(
        InputError, match=r"t\.vcf\.gz\.tbi: is not of .*t\.vcf\.gz, which goes on where it ends; make it again with: tabix"
    ):
        there.table_schema()


@pytest.mark.parametrize(
    ("make", "people", "headers"),
    [
        (plink, 8000, 0.2),
        (pgen, 8000, 0.2),
        (bgen, 800, 0.2),
        (partial(vcf, ending="vcf.bgz"), 4000, 1.5),
        (partial(vcf, ending="vcf"), 3000, 1.5),
    ],
)
def test_part__at_a_url_fetches_its_own_bytes(
    make: Any, people: int, headers: float, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`headers` in MB: what a plan looks at, however large the file is."""
    monkeypatch.setattr(cutting, "COUNTED", 0)
    reader, path = make(tmp_path, 1000, people)
    there = served(site, reader, path, parts=6)
    whole = len(site.files[f"/{path.name}"])
    for look in (there.table_schema, there.axes, there.marks):
        look()
    sources = there.sources(2)
    assert fetched(site, path.name) < headers * 1e6 < 0.7 * whole
    for source in sources[2:4]:
        source.load()
        assert whole / 8 < fetched(site, path.name) < min(whole / 3 + 200_000, whole / 2)


def test_part__of_a_file_that_changed_since_the_plan_is_noticed(site: Site, tmp_path: Path) -> None:
    reader, path = plink(tmp_path, 50, 9)
    there = served(site, reader, path)
    seen = stamps_of(there)
    assert [file.rpartition("/")[2] for file in seen] == ["x.bed", "x.bim", "x.fam"]
    site.files["/x.fam"] = site.files["/x.fam"].replace(b"p3", b"q3")
    with pytest.raises(DataError, match=r"x\.fam: was written anew since the job was planned"):
        need_unchanged(seen)


def test_plink_input__at_a_url_keeps_what_says_who_may_read(site: Site, tmp_path: Path) -> None:
    reader, path = plink(tmp_path, 20, 5)
    there = served(site, reader, path).model_copy(update={"path": (f"{site.url}/x.bed?signature=abc",)})
    assert_same(read(there), read(reader))
    assert {asked for _, asked, _ in site.asked} == {f"/x.{ending}?signature=abc" for ending in ("bed", "bim", "fam")}


@pytest.mark.parametrize(
    ("manners", "said"),
    [
        (
            {"no ranges"},
            "x.bed: is read piece by piece, and the server gives no ranges: asked for one byte, it sends the whole file. Copy it",
        ),
        ({"gzip"}, "x.bed: is read piece by piece, and the server gives no ranges"),
        ({"no tags"}, "x.bed: is read piece by piece, and the server tells neither ETag nor Last-Modified"),
        ({"403"}, "x.bed: cannot be reached (the server answers 403 Forbidden)."),
        ({"no fam"}, "x.fam: no such file; a plink input is three files with one name"),
        ({"no bed"}, "x.bed: no such file. Is the path right"),
    ],
    ids=str,
)
def test_input__at_a_url_says_in_a_line_what_is_wrong(manners: set[str], said: str, site: Site, tmp_path: Path) -> None:
    there = served(site, *plink(tmp_path, 20, 5))
    site.manners = manners
    site.answers = [int(name) for name in manners if name.isdigit()] * 99
    for name in manners:
        site.files.pop(f"/x.{name.removeprefix('no ')}", None)
    with pytest.raises(InputError, match=re.escape(said)) as raised:
        there.table_schema()
    assert "\n" not in str(raised.value)


def test_part__of_a_connection_that_is_cut_says_so_in_a_line(site: Site, tmp_path: Path) -> None:
    for make in (plink, pgen, bgen, partial(vcf, ending="vcf.bgz")):
        site.manners = set()
        reader, path = make(tmp_path, 20, 5)
        sources = served(site, reader, path).sources(1)
        if make is not bgen and not isinstance(make, partial):
            sources[0].load()  # what lies beside the genotypes is remembered
        site.manners = {"cut"}
        with pytest.raises(InputError, match=rf"{path.name}: cannot be reached \(IncompleteRead"):
            sources[0].load()


def test_bgen_input__at_a_url_is_refused_without_its_index(site: Site, tmp_path: Path) -> None:
    there = served(site, *bgen(tmp_path, 20, 5))
    index = site.files.pop("/x.bgen.bgi")
    with pytest.raises(
        InputError, match=r"x\.bgen: a BGEN file at a URL is read by its index, and there is no http.*x\.bgen\.bgi\. Make it"
    ):
        there.table_schema()
    site.files["/x.bgen.bgi"] = index[:-4096]
    with pytest.raises(InputError, match=r"x\.bgen\.bgi: is the index of another file: it lists no variants that can be read"):
        there.table_schema()


def test_gtf_input__needs_no_ranges_of_a_server(site: Site, tmp_path: Path) -> None:
    (tmp_path / "x.gtf").write_bytes(b'1\tH\tgene\t1\t5\t.\t+\t.\tgene_id "g";\n')
    site.manners = {"no ranges"}
    there = served(site, GtfInput(path=(str(tmp_path / "x.gtf"),)), tmp_path / "x.gtf")
    assert parts_of(there)[0].frame["gene_id"].to_list() == ["g"]


@pytest.mark.parametrize("make", [pgen, bgen])
def test_part__leaves_no_copy_behind(make: Any, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "in").mkdir()
    read(served(site, *make(tmp_path / "in", 20, 5)))
    assert list((tmp_path / "scratch").iterdir()) == []
