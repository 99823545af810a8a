"""A check that fails in a query of many stages is told with its own stage, and the row of the part that it is in."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.errors import DataError
from pipeline.sql.checks import Problem, failing
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.stages.relational.derive import Derive
from pipeline.tables.part import Part
from pipeline.tables.session import Session
from pipeline.tables.table import Table

ROWS = [pl.DataFrame({"k": [1] * 5, "x": [1, 2, 3, 4, 5]}), pl.DataFrame({"k": [1] * 3, "x": [6, 2**62, 2**62 + 1]})]


def test_the_stage_of_a_fused_query_that_fails__is_named_with_the_row_of_its_part() -> None:
    rows = Table.of(Session(), "rows", [Part(frame) for frame in ROWS])
    derived = rows.named("small").map(Derive(columns={"y": "x + 1"}).apply).named("large").map(Derive(columns={"z": "y * 2"}).apply)
    total = Aggregate.model_validate({"by": ["k"], "compute": {"total": "sum(z)"}})
    query = derived.named("total").exchange(["k"]).map(total.apply).named("sorted").map(lambda rows: rows.sort("total"))
    with pytest.raises(DataError, match=r"stage large: the result of `\*` is beyond Int64, first in row 2 of its part, where y is 46"):
        query.futures()


def test_a_check_within_an_aggregate__is_named_with_the_row_of_its_part() -> None:
    total = Aggregate.model_validate({"by": ["k"], "compute": {"total": "sum(x * 2)"}})
    query = Table.of(Session(), "rows", [Part(frame) for frame in ROWS]).exchange(["k"]).named("total").map(total.apply)
    with pytest.raises(DataError, match=r"stage total: the result of `\*` is beyond Int64, first in row 2 of its part, where x is 46"):
        query.futures()


def test_any_text__comes_through_an_engine_as_it_is() -> None:
    problem = Problem('a "b" | 100 % of `c`\nd \\ "ä"', "é | '\"", ("x y", "\"|%'", "z"), "columns.z")
    frame = pl.DataFrame({"x": [1, 2]})
    with pytest.raises(pl.exceptions.InvalidOperationError, match="check failed") as caught:
        frame.lazy().select(failing(pl.col("x"), pl.col("x") > 1, problem)).collect(engine="streaming")
    assert Problem.found(str(caught.value)) == problem
    assert Problem.found("conversion from `str` failed") is None
