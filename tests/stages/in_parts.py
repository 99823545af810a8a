"""Tables in parts for tests of what is more than a task may hold, and what DuckDB says of the same rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import duckdb
import polars as pl
import pytest

from pipeline.stage import Context, Stage
from pipeline.tables.budget import Size, row_bytes
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table

PARTS = 7


def in_parts(session: Session, frame: pl.DataFrame, *, most: int = 0) -> Table:
    """Rows in parts, one of which is empty; of a table that may have had `most`, where these are more."""
    edges = [*(frame.height * part // PARTS for part in range(PARTS + 1)), frame.height]
    schema = Schema(frame.schema)
    parts = [Part(frame[low:high]) for low, high in pairwise(edges)]
    return Table.of(session, "given", parts, schema=schema, size=Size(max(frame.height, most), row_bytes(schema)))


def given_by(stage: Stage, session: Session, frame: pl.DataFrame, *, most: int = 0) -> pl.DataFrame:
    """What a stage gives of rows in such parts."""
    found = stage.run({"rows": in_parts(session, frame, most=most)}, Context("tested", 1, session)).tables[""]
    whole: pl.DataFrame = found.gather().futures()[0].frame
    return whole


def of_duckdb(query: str, rows: pl.DataFrame) -> pl.DataFrame:
    """What it says of a query of the table `given`."""
    with duckdb.connect() as database:
        database.register("given", rows)
        found: pl.DataFrame = database.sql(query).pl()
        return found


def called(monkeypatch: pytest.MonkeyPatch, kind: type[Any], name: str) -> list[Any]:
    """What the calls of a method are noted in."""
    seen, before = list[Any](), getattr(kind, name)

    def noted(self: Any, *arguments: Any) -> Any:
        """The call, noted."""
        seen.append(self)
        return before(self, *arguments)

    monkeypatch.setattr(kind, name, noted)
    return seen
