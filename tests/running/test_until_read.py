"""Tables leave a run when their last reader has them."""

from __future__ import annotations

import polars as pl

from pipeline.running.until_read import UntilRead
from pipeline.tables.part import Part
from pipeline.tables.session import Session
from pipeline.tables.table import Table


def test_a_table__is_there_until_it_was_read_as_often_as_it_is_used() -> None:
    table = Table.of(Session(), "made", [Part(pl.DataFrame({"x": [1]}))])
    tables = UntilRead({"made": 3, "written": 2})
    tables["made"] = tables["written"] = tables["beside"] = table
    assert tables.read({"rows": "made"}) == {"rows": table}
    assert "made" in tables
    assert tables.read({"left": "made", "right": "made", "more": "written"}) == {"left": table, "right": table, "more": table}
    assert [*tables] == ["written", "beside"]
