"""Tables of files as these have them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.format import InputFormat, OutputFormat
from pipeline.formats.arrow import ArrowInput, ArrowOutput
from pipeline.formats.avro import AvroInput, AvroOutput
from pipeline.formats.csv import CsvInput, CsvOutput
from pipeline.formats.delta import DeltaInput
from pipeline.formats.jsonl import JsonlInput, JsonlOutput
from pipeline.formats.orc import OrcInput, OrcOutput
from pipeline.formats.parquet import ParquetInput, ParquetOutput
from pipeline.stages.science._matrices import matrix_of
from pipeline.tables.part import Part
from pipeline.tables.plain import AsItIs, as_in_files
from pipeline.tables.session import Session
from pipeline.tables.sources import Placed
from pipeline.tables.steps import Source, Step, evaluate
from pipeline.tables.table import Table

ROWS = pl.DataFrame({"key": [1.0, math.nan, 3.0], "x": [1.0, math.inf, math.nan], "y": [math.nan, 5.0, None], "n": [1, 2, None]})


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "rows.parquet"
    ROWS.write_parquet(path)
    return str(path)


def read(path: str) -> Table:
    return table_of(ParquetInput(path=path).sources(1))


def table_of(sources: Sequence[Source]) -> Table:
    return Table(Session(), "read", tuple(Step("read", "read", source=source) for source in sources))


def rows_of(table: Table, backend: Backend = "cpu") -> list[Any]:
    return [row for block in table.blocks for row in evaluate(block, backend).frame.rows()]


def test_chosen_columns__have_what_the_file_has_and_all_others_null(file: str) -> None:
    assert rows_of(read(file)) == [(1.0, 1.0, None, 1), (None, None, 5.0, 2), (3.0, None, None, None)]
    first, second, third = rows_of(as_in_files(read(file), ["x"]))
    assert (first, second) == ((1.0, 1.0, None, 1), (None, math.inf, 5.0, 2))
    assert third[0] == 3.0
    assert math.isnan(third[1])


def test_a_stacked_table__is_read_so_in_every_file_and_what_is_held_is_as_it_was(file: str) -> None:
    stacked = read(file).concat(read(file)).merged([range(2)])
    assert sum(math.isinf(row[1] or 0.0) for row in rows_of(as_in_files(stacked, ["x"]))) == 2
    held = Step("read", "held", source=evaluate(read(file).blocks[0], "cpu"))
    table = Table(Session(), "held", (held,))
    assert as_in_files(table, ["x"]).blocks == table.blocks


def test_a_source__knows_of_its_files_what_it_knew(file: str) -> None:
    source, plain = read(file).blocks[0].source, as_in_files(read(file), ["x"]).blocks[0].source
    assert isinstance(plain, AsItIs)
    assert isinstance(plain, Source)
    assert isinstance(plain, Placed)
    assert (plain.cheap, plain.places(), plain.interval("n"), plain.explain()) == (True, source.places(), source.interval("n"), None)


@pytest.mark.parametrize(
    ("kind", "writer"),
    [
        (ArrowInput, ArrowOutput()), (AvroInput, AvroOutput()), (CsvInput, CsvOutput()), (JsonlInput, JsonlOutput()),
        (OrcInput, OrcOutput()), (ParquetInput, ParquetOutput()),
    ],
)  # fmt: skip
def test_parts_of_a_file__are_its_rows_once(kind: type[InputFormat], writer: OutputFormat, tmp_path: Path) -> None:
    rows, path = pl.DataFrame({"x": [0.5, -1.5, None, 2.5, 3.5, 4.5], "n": [1, 2, 3, 4, 5, 6]}), str(tmp_path / f"rows.{kind.name}")
    writer.write(Part(rows), {}, path)
    sources = kind(path=path, parts=3).sources(1)
    assert len(sources) == 3
    assert rows_of(as_in_files(table_of(sources), ["x"])) == rows.rows()


def test_parts_of_a_version_of_a_table__are_its_rows_once(tmp_path: Path) -> None:
    rows = pl.DataFrame({"x": [0.5, -1.5, math.inf, 2.5], "y": [1.0, math.inf, 3.0, 4.0]})
    rows.write_delta(tmp_path / "rows")
    sources = DeltaInput(path=str(tmp_path / "rows"), parts=3).sources(1)
    assert rows_of(as_in_files(table_of(sources), ["x"])) == [(0.5, 1.0), (-1.5, None), (math.inf, 3.0), (2.5, 4.0)]


def test_rows_of_a_csv__are_as_many_fields_as_its_header_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("key,x,y\n1,inf,inf\n2,3\n")
    source = as_in_files(table_of(CsvInput(path=str(path)).sources(1)), ["x"])
    with pytest.raises(DataError, match=r"rows\.csv:3: 2 fields where the header line has 3"):
        rows_of(source)
    filled = table_of(CsvInput(path=str(path), short_rows="fill").sources(1))
    part = evaluate(as_in_files(filled, ["x"]).blocks[0], "cpu")
    assert part.frame.rows() == [(1, math.inf, None), (2, 3.0, None)]
    assert sum(part.counts.values()) == 1


def test_a_matrix_of_a_file__says_what_stands_there(tmp_path: Path) -> None:
    path = str(tmp_path / "matrix.parquet")
    ROWS.select("key", x=pl.Series([1.0, 2.0, math.inf])).write_parquet(path)
    part = evaluate(as_in_files(read(path), ["x"]).blocks[0], "cpu")
    with pytest.raises(DataError, match=r"a value is inf: column 'x', key 3\.0"):
        matrix_of(part, ["x"], "cpu", ["key"])
