"""Bombs: what a small file comes to when it is unpacked, or a line without an end, is refused by the name of its bound."""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from pipeline import bounds
from pipeline.errors import InputError
from pipeline.format import InputFormat
from pipeline.formats._bgzip.blocks import TextRange
from pipeline.formats._bgzip.lines import read_lines
from pipeline.formats.avro import AvroInput
from pipeline.formats.csv import CsvInput
from pipeline.formats.excel import ExcelInput
from pipeline.formats.fasta import FastaInput
from pipeline.formats.fastq import FastqInput
from pipeline.formats.gtf import GtfInput
from pipeline.formats.jsonl import JsonlInput
from pipeline.formats.orc import OrcInput
from pipeline.formats.parquet import ParquetInput
from pipeline.formats.vcf import VcfInput
from pipeline.testing.formats import read_table

ROOM = 4 << 20  # of what a file may come to however small it is, here
BOMB_MIB = 32
VCF_HEAD = b"##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tA\n"
VCF_LINE = b"1\t1\tx\tA\tC\t.\t.\t.\tGT\t0/0\n"


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "FREE_BYTES", ROOM)


def packed(head: bytes, again: bytes, tail: bytes = b"") -> bytes:
    """A gzip file of a head and of as many repetitions as make a bomb."""
    return gzip.compress(head + again * ((BOMB_MIB << 20) // len(again)) + tail)


def zstd(text: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(text, asbytes=True))


def workbook(lying: bool = False) -> bytes:
    """An archive with a member of zeros that says, where it is `lying`, that it holds ten bytes."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", bytes(BOMB_MIB << 20))
    content = sink.getvalue()
    return content.replace(struct.pack("<I", BOMB_MIB << 20), struct.pack("<I", 10)) if lying else content


def avro_bomb(deflated: bool) -> bytes:
    """A file whose one block comes to far more than it has, or says so."""
    sink = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "string" if deflated else "null"}]}
    fastavro.writer(sink, fastavro.parse_schema(schema), [], codec="deflate" if deflated else "null")
    head = sink.getvalue()
    text = bytes([0x80, 0x80, 0x80, 0x20]) + bytes(BOMB_MIB << 20)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = deflate.compress(text) + deflate.flush() if deflated else b""
    return head + varint(1 if deflated else 1 << 40) + varint(len(data)) + data + head[-16:]


def varint(value: int) -> bytes:
    value, found = value << 1, bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def of_table(write: Callable[..., None], **options: Any) -> bytes:
    sink = io.BytesIO()
    write(pa.table({"a": pa.array([0], pa.int64()).take(pa.array([0] * (BOMB_MIB << 17)))}), sink, **options)
    return sink.getvalue()


BOMBS: dict[str, tuple[type[InputFormat], str, Callable[[], bytes]]] = {
    "csv.gz": (CsvInput, "x.csv.gz", lambda: packed(b"a,b\n", b"1,2\n")),
    "csv.zst": (CsvInput, "x.csv.zst", lambda: zstd(b"a,b\n" + b"1,2\n" * (BOMB_MIB << 18))),
    "jsonl.gz": (JsonlInput, "x.jsonl.gz", lambda: packed(b"", b'{"a":1}\n')),
    "jsonl.zst": (JsonlInput, "x.jsonl.zst", lambda: zstd(b'{"a":1}\n' * (BOMB_MIB << 17))),
    "vcf.gz": (VcfInput, "x.vcf.gz", lambda: packed(VCF_HEAD, VCF_LINE)),
    "gtf.gz": (GtfInput, "x.gtf.gz", lambda: packed(b"", b'1\tx\tgene\t1\t2\t.\t+\t.\tgene_id "a";\n')),
    "fa.gz": (FastaInput, "x.fa.gz", lambda: packed(b">1\n", b"ACGT\n")),
    "fq.gz": (FastqInput, "x.fq.gz", lambda: packed(b"", b"@r\nACGT\n+\nIIII\n")),
    "xlsx": (ExcelInput, "x.xlsx", workbook),
    "a lying xlsx": (ExcelInput, "x.xlsx", lambda: workbook(lying=True)),
    "avro": (AvroInput, "x.avro", lambda: avro_bomb(deflated=True)),
    "avro of nothing": (AvroInput, "x.avro", lambda: avro_bomb(deflated=False)),
    "parquet": (ParquetInput, "x.parquet", lambda: of_table(pq.write_table, compression="zstd")),
    "orc": (OrcInput, "x.orc", lambda: of_table(orc.write_table, compression="zlib")),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_bombs__are_refused_by_name_before_they_are_held(kind: str, tmp_path: Path) -> None:
    reader, name, content = BOMBS[kind]
    (path := tmp_path / name).write_bytes(content())
    limits = {"inflation": 40 if kind == "orc" else 100}
    if kind == "vcf.gz":  # what its kernels take to be loaded is no matter of the file's
        (tmp_path / "one.vcf").write_bytes(VCF_HEAD + VCF_LINE)
        read_table(VcfInput.model_validate({"path": str(tmp_path / "one.vcf")}))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=rf"{name}: has [\d,]+ bytes and .*raise limits.inflat"):
            read_table(reader.model_validate({"path": str(path), "limits": limits}))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (12 if kind == "vcf.gz" else 3) * ROOM  # of records as fields, before they are calls


def test_bombs__are_read_where_the_limit_was_raised(tmp_path: Path) -> None:
    (path := tmp_path / "x.csv.gz").write_bytes(packed(b"a,b\n", b"1,2\n"))
    found = read_table(CsvInput.model_validate({"path": str(path), "limits": {"inflation": 2000}}))
    assert found.frame.height == BOMB_MIB << 18


def test_bombs__of_an_absolute_size_are_refused_whatever_their_ratio() -> None:
    limits = bounds.Bounds(inflated_gib=1)
    with pytest.raises(InputError, match=r"may come to 1 GiB.*raise limits.inflated_gib"):
        limits.need_room("x.csv.gz", 1 << 30, (1 << 30) + 1)


ENDLESS: dict[str, tuple[type[InputFormat], str, bytes]] = {
    "vcf header": (VcfInput, "x.vcf.gz", gzip.compress(b"##fileformat=VCFv4.2\n##INFO=" + b"x" * (3 << 20))),
    "plain vcf header": (VcfInput, "x.vcf", b"##fileformat=VCFv4.2\n##INFO=" + b"x" * (3 << 20)),
    "vcf header of many lines": (VcfInput, "x.vcf", b"##fileformat=VCFv4.2\n" + b"##contig=<ID=x>\n" * 200_000),
    "csv": (CsvInput, "x.csv", b"a,b\n1," + b"2" * (3 << 20)),
    "csv header": (CsvInput, "x.csv.gz", gzip.compress(b"a," * (3 << 20))),
    "jsonl": (JsonlInput, "x.jsonl", b'{"a": "' + b"x" * (3 << 20) + b'"}'),
    "fastq": (FastqInput, "x.fq", b"@" * (3 << 20)),
    "gtf comments": (GtfInput, "x.gtf", b"#" * (3 << 20)),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_lines__longer_than_their_bound_are_refused_when_the_job_is_planned(kind: str, tmp_path: Path) -> None:
    reader, name, content = ENDLESS[kind]
    (path := tmp_path / name).write_bytes(content)
    given = reader.model_validate({"path": str(path), "limits": {"line_mib": 1}})
    with pytest.raises(InputError, match=rf"{name}: has a (line|header) of more than 1 MiB.*raise limits.line_mib"):
        (given.table_schema(), given.marks())


def test_lines__longer_than_their_bound_are_refused_in_a_task(tmp_path: Path) -> None:
    (path := tmp_path / "x.txt").write_bytes(b"a\n" + b"x" * (8 << 20))
    with pytest.raises(InputError, match="has a line of more than 1 MiB"):
        list(read_lines(TextRange(str(path), "plain", 0, 8 << 20), bounds.Bounds(line_mib=1)))


def test_limits__say_nothing_of_the_rows_of_a_file() -> None:
    assert "limits" in CsvInput.asides & VcfInput.asides & ParquetInput.asides & GtfInput.asides


def test_a_frame_that_packs_well__is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    pl.DataFrame({"a": [0] * 1_000_000, "b": ["x"] * 1_000_000}).write_parquet(path := tmp_path / "x.parquet")
    assert read_table(ParquetInput.model_validate({"path": str(path)})).frame.height == 1_000_000
