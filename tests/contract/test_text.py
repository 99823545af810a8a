"""Files of text are read by Polars on every backend: cuDF's own readers would take bad values in silence."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pyarrow.orc import write_table as write_orc

from pipeline.backend.devices import Backend
from pipeline.backend.engines import collect, refusals
from pipeline.errors import RunError
from pipeline.format import InputFormat
from pipeline.formats.csv import CsvInput
from pipeline.registry import FORMATS, format_side
from pipeline.tables.part import Part
from pipeline.tables.session import Session
from pipeline.tables.steps import Step, lazy_of
from pipeline.tables.table import Table
from tests.example_tables import MIXED

pytestmark = pytest.mark.contract

HEADER = "id,n,x,text\n"
GOOD = "1,10,0.3,a\n2,20,0.1,\n3,,NA,c\n"
BAD = {
    "a word in a column of integers": "4,many,0.5,d\n",
    "a float in a column of integers": "4,3.7,0.5,d\n",
    "an integer beyond its type": "4,99999999999999999999,0.5,d\n",
    "a word in a column of floats": "4,40,half,d\n",
    "two numbers in one field": "4,40,0.5.5,d\n",
}
TYPES = {"id": "int64", "n": "int64", "x": "float64", "text": "string"}
QUERIES: dict[str, Callable[[pl.LazyFrame], pl.LazyFrame]] = {
    "all": lambda rows: rows,
    "some columns": lambda rows: rows.select("x", "id"),
    "some rows": lambda rows: rows.filter(pl.col("n") > 10).select("text"),
    "new columns": lambda rows: rows.with_columns(twice=pl.col("x") * 2),
    "a sum": lambda rows: rows.select(pl.col("n").sum(), rows=pl.len()),
    "their number": lambda rows: rows.select(pl.len()),
    "their order": lambda rows: rows.sort("x", nulls_last=True).head(2),
    "numbered": lambda rows: rows.with_row_index("row").select("row"),
}


def reader(folder: Path, text: str = GOOD, **given: Any) -> CsvInput:
    (folder / "a.csv").write_text(HEADER + text, encoding="utf-8")
    return CsvInput.model_validate({"path": str(folder / "a.csv"), "columns": TYPES, **given})


def answer(table: CsvInput, query: Callable[[pl.LazyFrame], pl.LazyFrame], backend: Backend) -> pl.DataFrame | str:
    """The rows of the first part, or the text of the error."""
    session = Session()
    session.backend = backend
    try:
        part = Table.of(session, "read", table.sources(2)[:1]).map(query).futures()[0]
    except RunError as error:
        return str(error)
    frame: pl.DataFrame = part.frame
    return frame


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_csv_with_a_bad_number__fails_alike_on_both_backends(tmp_path: Path, bad: str, query: Callable[..., Any]) -> None:
    table = reader(tmp_path, GOOD + bad)
    on_cpu, on_gpu = (answer(table, query, backend) for backend in ("cpu", "translate"))
    assert isinstance(on_cpu, str) or query is not QUERIES["all"]
    if isinstance(on_cpu, str):
        assert "a.csv:5: " in on_cpu
        assert on_cpu == on_gpu
    else:  # a column that nobody reads is not parsed
        assert isinstance(on_gpu, pl.DataFrame)
        assert_frame_equal(on_gpu, on_cpu)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("parts", [None, 2])
@pytest.mark.parametrize("short_rows", ["", "5,50\n"])
def test_a_csv__gives_the_same_on_both_backends(tmp_path: Path, query: Callable[..., Any], parts: int | None, short_rows: str) -> None:
    table = reader(tmp_path, GOOD + short_rows, parts=parts, short_rows="fill")
    on_cpu, on_gpu = (answer(table, query, backend) for backend in ("cpu", "translate"))
    assert isinstance(on_cpu, pl.DataFrame)
    assert isinstance(on_gpu, pl.DataFrame)
    assert_frame_equal(on_gpu, on_cpu)


def test_a_gzipped_csv__is_read_for_a_gpu_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((HEADER + GOOD).encode()))
    found = answer(
        CsvInput.model_validate({"path": str(tmp_path), "columns": TYPES}), lambda rows: rows.filter(pl.col("n") > 10), "translate"
    )
    assert isinstance(found, pl.DataFrame)
    assert found.rows() == [(2, 20, 0.1, None)]


def test_a_scan_of_text__is_refused_wherever_one_is_left(tmp_path: Path) -> None:
    MIXED.write_csv(tmp_path / "a.csv")
    MIXED.write_ndjson(tmp_path / "a.ndjson")
    MIXED.write_parquet(tmp_path / "a.parquet")
    assert refusals(pl.scan_csv(tmp_path / "a.csv").select("x")) == ["its reader of csv takes bad values in silence"]
    assert refusals(pl.scan_ndjson(tmp_path / "a.ndjson").select("x")) == ["its reader of ndjson takes bad values in silence"]
    assert refusals(pl.scan_parquet(tmp_path / "a.parquet").select("x")) == []


def write_table(folder: Path, name: str) -> Path:
    """The mixed table as a file of a format whose parts may be scans."""
    path = folder / f"a.{name}"
    writers = {"csv": "write_csv", "parquet": "write_parquet", "jsonl": "write_ndjson", "arrow": "write_ipc"}
    if name == "orc":
        write_orc(MIXED.to_arrow(), path)
    elif name in writers:
        getattr(MIXED, writers[name])(path)
    else:
        pytest.skip(f"what writes {name} is an extra of its own, and not installed beside RAPIDS")
    return path


def scanning() -> list[str]:
    """Formats whose sources may load a scan; the others give parts, whose frames lie in memory."""
    found = []
    for name in FORMATS.modules:
        kind = format_side(name, InputFormat)
        if kind is not None:
            (source,) = get_args(get_type_hints(kind.sources)["return"])
            if get_type_hints(source.load)["return"] is not Part:
                found.append(name)
    return found


@pytest.mark.parametrize("parts", [None, 1, 3])
@pytest.mark.parametrize("name", scanning())
def test_no_query_over_a_format__has_a_scan_that_cudf_reads_otherwise(tmp_path: Path, name: str, parts: int | None) -> None:
    kind = format_side(name, InputFormat)
    assert kind is not None
    sources = kind.model_validate({"path": str(write_table(tmp_path, name)), "parts": parts}).sources(2)
    queries = [lazy_of(Step("read", "read", source=source), "translate").query for source in sources]
    for query in (*queries, *(one.select("x") for one in queries), *(one.filter(pl.col("id") > 2) for one in queries), pl.concat(queries)):
        assert refusals(query) == []
    on_cpu = [lazy_of(Step("read", "read", source=source), "cpu").query for source in sources]
    assert_frame_equal(collect(pl.concat(queries), "translate"), collect(pl.concat(on_cpu), "cpu"))
