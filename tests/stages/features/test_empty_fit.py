"""A fit of no rows fails, with what the columns of its condition hold, for every stage that learns."""

from __future__ import annotations

from datetime import date
from typing import Any

import polars as pl
import pytest

from pipeline.errors import DataError
from pipeline.stage import FittedRows
from pipeline.stages.features.bucketize import Bucketize
from pipeline.stages.features.categorify import Categorify
from pipeline.stages.features.clip import Clip
from pipeline.stages.features.count_encode import CountEncode
from pipeline.stages.features.fill_missing import FillMissing
from pipeline.stages.features.rescale import Rescale
from pipeline.stages.features.standardize import Standardize
from pipeline.stages.features.target_encode import TargetEncode
from pipeline.testing.stages import run_stage

FRAME = pl.DataFrame(
    {
        "x": [1.0, None, 3.0, 4.0],
        "k": [1, 2, 3, 4],
        "s": ["a", "b", "a", None],
        "split": ["train", "test", "train", None],
        "ok": [True, True, None, True],
        "day": [date(2020, 1, 31), date(2021, 2, 28), None, date(2020, 5, 1)],
        "none": pl.Series([None] * 4, dtype=pl.Float64),
    }
)
STAGES: dict[str, type[FittedRows]] = {"standardize": Standardize, "mean": FillMissing, "categorify": Categorify}
STAGES |= {"rescale": Rescale, "clip": Clip, "bucketize": Bucketize, "count_encode": CountEncode, "target_encode": TargetEncode}
KEYS: dict[str, dict[str, Any]] = {
    "standardize": {"columns": ["x"]},
    "mean": {"columns": ["x", "k"], "method": "median"},
    "categorify": {"columns": ["s"]},
    "rescale": {"columns": ["x"], "method": "robust"},
    "clip": {"columns": ["x"], "quantiles": [0.1, 0.9]},
    "bucketize": {"columns": ["x"], "buckets": 2},
    "count_encode": {"columns": ["s"]},
    "target_encode": {"columns": ["s"], "target": "x", "key": ["k"]},
}
CONDITIONS = {
    "split = 'trian'": r"'split' has 'train' \(2 rows\), null \(1 rows\), 'test' \(1 rows\)",
    "k > 4": r"'k' runs from 1 to 4",
    "not ok": r"'ok' has 'true' \(3 rows\), null \(1 rows\)",
    "day > date '2022-01-01'": r"'day' runs from 2020-01-31 to 2021-02-28",
    "none = 1": r"'none' is null in all of them",
    "split = 'test' and k = 1": r"'k' runs from 1 to 4; 'split' has .*",
}


@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.parametrize("name", STAGES)
def test_fit__of_no_rows_fails_with_what_there_is(name: str, where: str, parts: int) -> None:
    stage = STAGES[name].model_validate({**KEYS[name], "fit_where": where})
    with pytest.raises(DataError, match=rf"fit_where: .* picks none of 4 rows to learn from: {CONDITIONS[where]}\. Correct the condition"):
        run_stage(stage, {"rows": FRAME}, parts)


@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize("name", STAGES)
def test_fit__of_some_rows_is_that_of_a_table_of_them(name: str, parts: int) -> None:
    for where in ("split = 'train'", "k >= 3", "ok", "day < date '2020-12-31'"):
        some = FRAME.filter(pl.sql_expr(where))
        stage = STAGES[name].model_validate({**KEYS[name], "fit_where": where})
        alone = STAGES[name].model_validate(KEYS[name])
        assert (
            run_stage(stage, {"rows": FRAME}, parts)["fitted"]
            .drop("rows seen", strict=False)
            .equals(run_stage(alone, {"rows": some}, 1)["fitted"].drop("rows seen", strict=False))
        )


@pytest.mark.parametrize("name", STAGES)
def test_fit__of_a_table_without_rows_learns_nothing_and_is_no_error(name: str) -> None:
    stage = STAGES[name].model_validate({**KEYS[name], "fit_where": "k > 4"})
    assert run_stage(stage, {"rows": FRAME.clear()}, 1)[""].height == 0
