"""unnest."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages.relational.unnest import Unnest
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage, run_stage

ROWS = pl.DataFrame(
    {
        "id": [1, 2, 3],
        "where": [{"town": "A", "at": {"x": 1.5}}, {"town": None, "at": {"x": float("nan")}}, None],
        "last": [True, False, None],
    }
)
EXAMPLES = [StageExample(Unnest(columns=("where",), separator="."), {"rows": ROWS}, ordered=True)]


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_unnest__puts_fields_in_the_place_of_their_structure(parts: int) -> None:
    found = run_stage(Unnest(columns=("where",)), {"rows": ROWS}, parts)[""]
    assert found.columns == ["id", "town", "at", "last"]
    assert found["town"].to_list() == ["A", None, None]
    within = run_stage(Unnest(columns=("at",), separator="_"), {"rows": found}, parts)[""]
    assert within.select("id", "at_x").rows() == [(1, 1.5), (2, None), (3, None)]


def test_unnest__refuses_at_plan_time() -> None:
    with pytest.raises(StageError, match="'id' is Int64, and no structure"):
        plan_stage(Unnest(columns=("id",)), {"rows": ROWS})
    with pytest.raises(StageError, match=r"two columns 'town'\. Give a separator"):
        plan_stage(Unnest(columns=("where",)), {"rows": ROWS.with_columns(town=pl.lit(1))})
