"""pivot."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stages.relational.pivot import Pivot
from pipeline.tables.session import Session
from pipeline.testing.examples import Between, StageExample
from pipeline.testing.stages import assert_same_for_any_parts, counts_of, plan_stage, run_stage
from tests import example_tables as examples

SALES = pl.DataFrame(
    {
        "shop": ["a", "a", "b", "b", None, "a"],
        "quarter": ["Q1", "Q2", "Q1", "Q1", "Q2", None],
        "amount": [1.0, 2.0, 3.0, None, 5.0, 6.0],
        "flag": [True, False, True, None, False, True],
        "year": [2024, 2025, 2024, 2025, 2024, 2024],
        "day": [dt.date(2026, 1, 1 + i % 2) for i in range(6)],
    }
)


def pivot(by: Any, on: str, values: list[Any], compute: dict[str, Any], **more: Any) -> Pivot:
    return Pivot.model_validate({"by": by, "on": on, "values": values, "compute": compute, **more})


EXAMPLES = [
    StageExample(
        pivot("flag", "key", ["a", "b"], {"x": "sum(x)", "texts": "list(text)", "n": "median(n)"}, unseen="count"), {"rows": examples.MIXED}
    ),
    StageExample(pivot([], "key", ["a", "b", None, "c"], {"x": "mean(x)", "ids": "sum(id)"}), {"rows": examples.MIXED}),
]


def test_pivot__makes_columns_of_values() -> None:
    stage = pivot("shop", "quarter", ["Q2", "Q1", None], {"total": "sum(amount)"})
    found = assert_same_for_any_parts(stage, {"rows": SALES}, ["shop"])
    assert found.columns == ["shop", "Q2", "Q1", "null"]
    assert found.rows() == [("a", 2.0, 1.0, 6.0), ("b", 0.0, 3.0, 0.0), (None, 5.0, 0.0, 0.0)]


def test_pivot__names_several_results_by_value_and_name() -> None:
    compute = {"total": "sum(amount)", "most": {"function": "max", "of": "amount", "where": "flag"}}
    found = run_stage(pivot([], "year", [2024, 2025], compute), {"rows": SALES}, 3, Between())[""]
    assert found.rows(named=True) == [{"2024_total": 15.0, "2024_most": 6.0, "2025_total": 2.0, "2025_most": None}]


@pytest.mark.parametrize(("on", "values", "names"), [("day", ["2026-01-01", "2026-01-02"], None), ("flag", [True, None, False], "true")])
def test_pivot__takes_dates_and_conditions(on: str, values: list[Any], names: str | None) -> None:
    found = run_stage(pivot([], on, values, {"rows": "size()"}), {"rows": SALES})[""]
    assert found.columns[0] == (names or values[0])
    assert sum(found.row(0)) == SALES.height


@pytest.mark.parametrize("session", [Session(), Between()])
def test_pivot__fails_on_values_without_a_column_or_counts_them(session: Session) -> None:
    with pytest.raises(DataError, match=r"'quarter' has the value 'Q2', for which no column is stated \(\d rows"):
        run_stage(pivot("shop", "quarter", ["Q1", None], {"x": "size()"}), {"rows": SALES}, 3, session)
    with pytest.raises(DataError, match="has the value null"):
        run_stage(pivot("shop", "quarter", ["Q1", "Q2"], {"x": "size()"}), {"rows": SALES}, 3, session)
    counting = pivot("shop", "quarter", ["Q1"], {"x": "size()"}, unseen="count")
    assert run_stage(counting, {"rows": SALES}, 3, session)[""].sort("shop", nulls_last=True).rows() == [("a", 1), ("b", 2), (None, 0)]
    assert counts_of(counting, {"rows": SALES}, 3) == {"unseen": 3}


def test_pivot__refuses_at_plan_time() -> None:
    for stage, message in [
        (pivot("shop", "quarte", ["Q1"], {"x": "size()"}), "no column 'quarte'"),
        (pivot("shop", "year", ["Q1"], {"x": "size()"}), "'Q1' is no value of column 'year', which is Int64"),
        (pivot("shop", "day", ["soon"], {"x": "size()"}), "'soon' is no value of column 'day', which is Date"),
        (pivot("shop", "amount", [1], {"x": "size()"}), "1 is no value of column 'amount', which is Float64"),
        (pivot("shop", "quarter", ["Q1", "Q1"], {"x": "size()"}), "two columns 'Q1'"),
        (pivot("shop", "quarter", ["shop"], {"x": "size()"}), "two columns 'shop'"),
        (pivot("shop", "quarter", [""], {"x": "size()"}), "the empty text cannot name a column"),
        (pivot("shop", "quarter", ["Q1"], {"x": "sum(shop)"}), "needs numbers"),
    ]:
        with pytest.raises(StageError, match=message):
            plan_stage(stage, {"rows": SALES})
