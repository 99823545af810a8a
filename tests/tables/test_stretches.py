"""More parts of a table that has few."""

from __future__ import annotations

import numpy as np
import polars as pl

from pipeline.tables.part import Part
from pipeline.tables.session import Session
from pipeline.tables.stretches import divided
from pipeline.tables.table import Table


def test_divided__has_the_same_rows_in_order_with_their_arrays_and_counts_once() -> None:
    pieces = [Part(pl.DataFrame({"v": range(rows)}), {"calls": np.arange(rows)}, {"lost": 3}) for rows in (5, 1, 0)]
    table = Table.of(Session(), "given", pieces)
    parts = divided(table, 7).futures()
    assert [part.rows for part in parts] == [1, 2, 2, 0, 0, 1, 0, 0, 0]
    assert [value for part in parts for value in part.frame["v"]] == [0, 1, 2, 3, 4, 0]
    assert [value for part in parts for value in part.arrays["calls"].tolist()] == [0, 1, 2, 3, 4, 0]
    assert divided(table, 3) is table


def test_divided__leaves_a_plans_table_of_no_rows_in_one_part() -> None:
    # A stage of 2,048 columns was planned eight times over.
    table = Table.of(Session(), "planned", [Part(pl.DataFrame({"v": [1]}).clear())])
    assert divided(table, 8) is table
