"""Tables of files as these have them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.formats.parquet import ParquetInput
from pipeline.stages.science._matrices import matrix_of
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
    sources = ParquetInput(path=path).sources(1)
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


def test_a_matrix_of_a_file__says_what_stands_there(tmp_path: Path) -> None:
    path = str(tmp_path / "matrix.parquet")
    ROWS.select("key", x=pl.Series([1.0, 2.0, math.inf])).write_parquet(path)
    part = evaluate(as_in_files(read(path), ["x"]).blocks[0], "cpu")
    with pytest.raises(DataError, match=r"a value is inf: column 'x', key 3\.0"):
        matrix_of(part, ["x"], "cpu", ["key"])
