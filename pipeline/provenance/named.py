"""Whom of some people the content of a file, or an input, names."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import polars as pl

from pipeline.errors import InputError
from pipeline.format import InputFormat
from pipeline.tables.steps import Source

ID_COLUMNS = frozenset({"sample_id", "iid", "eid", "id"})
TOKEN = re.compile(rb"[^\s,;\"'<>|\[\]{}()=&\\\x00-\x1f]+")
BLOCK = 16 << 20
SCANS: Mapping[str, Callable[[Path], pl.LazyFrame]] = {".parquet": pl.scan_parquet, ".arrow": pl.scan_ipc}


def people_in(path: str | Path) -> frozenset[str]:
    """The ids of a file: of its column sample_id (IID, eid, id) where a header names one, else the first of every line.

    Raises InputError where there is no such file, or nobody in it.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}. Give a CSV file with a column sample_id, or an id a line.") from error
    rows = [[cell.strip().strip('"') for cell in re.split(r"[,;\t ]+", line.strip())] for line in lines if line.strip()]
    header = [cell.lower().lstrip("#") for cell in rows[0]] if rows else []
    columns = [number for number, name in enumerate(header) if name in ID_COLUMNS]
    at, rows = (columns[0], rows[1:]) if columns else (0, rows)
    if short := next((row for row in rows if len(row) <= at), None):
        raise InputError(f"{path}: the line {' '.join(short)!r} has no {header[at]}. Give every line an id.")
    if not rows:
        raise InputError(f"{path}: there is nobody in it. Give a CSV file with a column sample_id, or an id a line.")
    return frozenset(row[at] for row in rows)


def named_in_input(reader: InputFormat, ids: frozenset[str]) -> frozenset[str]:
    """Those whom an input has: among the samples of genotypes, or in a text of a table. Raises InputError or OSError where it is gone."""
    axes = [frame for frame in reader.axes().values() if "sample_id" in frame.columns]
    if axes:
        return frozenset().union(*(_named(frame.lazy(), ids) for frame in axes))
    return frozenset().union(*(_named(_rows(source), ids) for source in reader.sources(1)))


def named_in_file(path: Path, ids: frozenset[str]) -> frozenset[str]:
    """Those whose id is a text of a table, or stands by itself anywhere in another file."""
    if scan := SCANS.get(path.suffix):
        return _named(scan(path), ids)
    wanted, found = {name.encode() for name in ids}, set[bytes]()
    for block in _blocks(path):
        found |= wanted.intersection(TOKEN.findall(block))
    return frozenset(name.decode() for name in found)


def _rows(source: Source) -> pl.LazyFrame:
    loaded = source.load()
    return loaded if isinstance(loaded, pl.LazyFrame) else loaded.frame.lazy()


def _named(rows: pl.LazyFrame, ids: frozenset[str]) -> frozenset[str]:
    schema, found = rows.collect_schema(), frozenset[str]()
    wanted = pl.Series(sorted(ids), dtype=pl.String)
    for name, dtype in schema.items():
        text = isinstance(dtype, pl.String | pl.Categorical | pl.Enum) or (dtype.is_integer() and name.lower() in ID_COLUMNS)
        inner = isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.String)
        if text or inner:
            values = rows.select(pl.col(name).explode(empty_as_null=True) if inner else pl.col(name).cast(pl.String))
            found |= frozenset(values.filter(pl.col(name).is_in(wanted.implode())).unique().collect().to_series())
    return found


def _blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked where it is gzip, each block to the end of a word."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    rest = b""
    with gzip.open(path) if packed else path.open("rb") as file:
        while block := file.read(BLOCK):
            block = rest + block
            cut = max(block.rfind(b"\n"), block.rfind(b" "), block.rfind(b"\t"), block.rfind(b",")) + 1
            cut = cut or len(block)
            yield block[:cut]
            rest = block[cut:]
    yield rest
