"""unpivot."""

from __future__ import annotations

import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import StageError
from pipeline.stages.relational.unpivot import Unpivot
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage, run_stage

WIDE = pl.DataFrame({"shop": ["b", "a", "c"], "Q1": [1, None, 5], "Q2": [2, 4, None], "note": ["x", None, "z"]})
EXAMPLES = [
    StageExample(Unpivot(on=("Q2", "Q1"), variable_name="quarter", value_name="amount"), {"rows": WIDE}, ordered=True),
    StageExample(Unpivot(on=("Q1", "Q2"), index=("shop",), drop_nulls=True), {"rows": WIDE}, ordered=True),
]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_unpivot__gives_rows_in_order(parts: int) -> None:
    found = run_stage(Unpivot(on=("Q2", "Q1"), index=("shop",), variable_name="quarter"), {"rows": WIDE}, parts)[""]
    assert found.columns == ["shop", "quarter", "value"]
    assert found.rows() == [("b", "Q2", 2), ("b", "Q1", 1), ("a", "Q2", 4), ("a", "Q1", None), ("c", "Q2", None), ("c", "Q1", 5)]


def test_unpivot__keeps_all_other_columns_and_drops_nulls_where_asked() -> None:
    found = run_stage(Unpivot(on=("Q1", "Q2"), drop_nulls=True), {"rows": WIDE})[""]
    assert found.select("shop", "note", "value").rows() == [("b", "x", 1), ("b", "x", 2), ("a", None, 4), ("c", "z", 5)]


def test_unpivot__refuses_at_plan_time() -> None:
    with pytest.raises(StageError, match="'Q1' is Int64 and 'note' is String, and one column has one type"):
        plan_stage(Unpivot(on=("Q1", "note")), {"rows": WIDE})
    with pytest.raises(StageError, match="no column 'Q3'"):
        plan_stage(Unpivot(on=("Q1", "Q3")), {"rows": WIDE})
    with pytest.raises(StageError, match="two columns 'shop'"):
        plan_stage(Unpivot(on=("Q1",), value_name="shop"), {"rows": WIDE})
    with pytest.raises(StageError, match="'Q1' is one of the columns that become rows"):
        plan_stage(Unpivot(on=("Q1", "Q2"), index=("shop",), value_name="Q1"), {"rows": WIDE})
    with pytest.raises(ValidationError, match="two columns 'x'"):
        Unpivot(on=("Q1",), value_name="x", variable_name="x")
    with pytest.raises(ValidationError, match="on names 'Q1' twice"):
        Unpivot(on=("Q1", "Q1"))
