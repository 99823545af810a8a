"""union."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stage import Context
from pipeline.stages.relational.union import Union
from pipeline.tables.session import Session
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage, run_stage, table_schemas
from tests import example_tables as examples
from tests.harness import genotypes

EXAMPLES = [
    StageExample(Union(), {"a": examples.MIXED, "b": examples.MIXED.select(reversed(examples.MIXED.columns))}),
    StageExample(
        Union(missing="nulls"), {"a": examples.MIXED.drop("x"), "b": examples.MIXED.drop("text"), "c": examples.MIXED.select("n")}
    ),
]

ONE = pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None]})
TWO = pl.DataFrame({"b": ["z", "w"], "a": [4, 5]})


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_union__stacks_rows_by_the_names_of_columns(parts: int) -> None:
    found = run_stage(Union(), {"first": ONE, "second": TWO, "third": ONE.clear()}, parts)[""]
    assert found.to_dict(as_series=False) == {"a": [1, 2, 3, 4, 5], "b": ["x", "y", None, "z", "w"]}


@pytest.mark.parametrize("parts", [1, 2])
def test_union__puts_nulls_where_a_table_lacks_a_column(parts: int) -> None:
    third = pl.DataFrame({"c": [0.5], "a": [9]})
    found = run_stage(Union(missing="nulls"), {"first": ONE.drop("b"), "second": TWO, "third": third}, parts)[""]
    assert found.columns == ["a", "b", "c"]
    assert found.rows() == [(1, None, None), (2, None, None), (3, None, None), (4, "z", None), (5, "w", None), (9, None, 0.5)]
    with pytest.raises(StageError, match="'a' is Int64 in 'first' and Float64 in 'second'"):
        plan_stage(Union(missing="nulls"), {"first": ONE, "second": third.rename({"c": "a", "a": "c"})})


def test_union__refuses_other_columns_and_types() -> None:
    with pytest.raises(StageError, match="column 'b' is missing in 'second'"):
        plan_stage(Union(), {"first": ONE, "second": TWO.drop("b")})
    with pytest.raises(StageError, match="column 'b' is missing in 'first'"):
        plan_stage(Union(), {"first": ONE.drop("b"), "second": TWO})
    with pytest.raises(StageError, match="'a' is Int64 in 'first' and Int32 in 'second'"):
        plan_stage(Union(), {"first": ONE, "second": TWO.cast({"a": pl.Int32})})
    table, axes = genotypes()
    with pytest.raises(StageError, match="'first' is a genotype table"):
        Union().plan(table_schemas({"first": table, "second": TWO}, axes), Context("u", 1, Session()))
