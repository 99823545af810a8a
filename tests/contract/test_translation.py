"""Every query of the relational and feature stages is one that cuDF runs: asked of its translator, with no GPU."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.backend import UntranslatableError, collect
from pipeline.errors import PipelineError
from pipeline.part import concat_parts
from pipeline.registry import stage_class, stage_files
from pipeline.session import Session
from tests.harness import Tables, cut, even_sizes, height, run_parts, run_stage

pytestmark = pytest.mark.contract

FRAME = pl.DataFrame(
    {
        "id": [1, 2, 3, 4, 5, 6],
        "key": ["a", "b", "a", None, "c", "b"],
        "x": [0.5, None, 2.5, 3.5, 4.5, 5.5],
        "n": pl.Series([1, 2, None, 4, 5, 6], dtype=pl.Int32),
        "flag": [True, False, None, True, False, True],
        "text": ["1", "2", "3", "4", None, "6"],
        "day": ["2020-01-01", "2020-01-02", None, "2020-02-29", "2021-01-01", "2020-01-01"],
    }
)
LAST = {"function": "last", "of": "x", "order_by": "n"}
FUNCTIONS = ("sum", "mean", "min", "max", "count", "n_unique", "std", "var", "median")
COMPUTED = {
    **{f"{function}_{column}": f"{function}({column})" for function in FUNCTIONS for column in ("x", "n", "flag")},
    **{f"{function}_text": f"{function}(text)" for function in ("min", "max", "count", "n_unique")},
    "rows": "size()",
    "late": {"function": "size", "where": "x > 1"},
    "some": {"function": "mean", "of": "x * 2", "where": "flag"},
}
PICKED = {
    "last": LAST,
    "first": {**LAST, "function": "first", "of": "text", "order_by": "x"},
    "sure": {**LAST, "ties": "none"},
    "soon": {**LAST, "function": "first", "ties": "none", "where": "flag"},
    "total": "sum(n)",
    "mean": "mean(x)",
}
PAIR: Tables = {"left": FRAME, "right": FRAME.select("key", "n", z=pl.col("x"))}
ONE: Tables = {"rows": FRAME}
CASES: list[tuple[str, dict[str, Any], Tables]] = [
    ("select", {"columns": ["x", "id"]}, ONE),
    ("select", {"drop": ["x"]}, ONE),
    ("rename", {"columns": {"x": "y", "id": "x"}}, ONE),
    ("filter", {"where": "x > 1 and lower(trim(key)) in ('a', 'b')"}, ONE),
    ("derive", {"columns": {"r": "x / n", "c": "case when r > 1 then 1 else 0 end", "s": "coalesce(text, 'none')"}}, ONE),
    ("cast", {"columns": {"text": "int64", "day": "date", "n": "int8", "x": "float32", "flag": "string", "id": "boolean"}}, ONE),
    (
        "cast",
        {"columns": {"text": "int8", "day": "datetime", "x": "int16", "flag": "int8", "id": "uint64", "key": "boolean"}, "strict": False},
        ONE,
    ),
    ("cast", {"columns": {"text": "float32", "n": "string", "id": "uint8"}}, ONE),
    ("join", {"on": "key"}, PAIR),
    ("join", {"on": ["key", "n"], "how": "left", "validate": "one_to_one"}, PAIR),
    ("join", {"on": "key", "how": "semi"}, PAIR),
    ("join", {"on": {"id": "id"}, "how": "anti"}, {"left": FRAME, "right": FRAME}),
    ("aggregate", {"by": ["key"], "compute": COMPUTED}, ONE),
    ("aggregate", {"by": ["key", "flag"], "compute": PICKED}, ONE),
    ("sort", {"by": ["-x", "key"]}, ONE),
    ("sort", {"by": ["key", "-id"], "limit": 3}, ONE),
    ("drop_duplicates", {"columns": ["key"], "order_by": ["-n"]}, ONE),
    ("union", {}, {"a": FRAME, "b": FRAME.select(reversed(FRAME.columns))}),
    ("sample", {"fraction": 0.5, "key": ["id", "n"]}, ONE),
    ("sample", {"fraction": 0.5, "key": ["key", "flag"]}, ONE),
    ("split", {"key": "id"}, ONE),
    ("split", {"key": ["key", "n"]}, ONE),
    ("fill_missing", {"columns": ["x", "n"], "method": "mean", "indicator": True, "fit_where": "id < 5"}, ONE),
    (
        "fill_missing",
        {"columns": {"x": {"method": "median"}, "key": {"method": "most_frequent"}, "flag": {"method": "most_frequent"}}},
        ONE,
    ),
    ("fill_missing", {"columns": {"x": {"value": 1}, "key": {"value": "none"}, "n": {"method": "zero"}}}, ONE),
    ("categorify", {"columns": ["key", "n", "flag"], "min_count": 1}, ONE),
    ("standardize", {"columns": ["x", "n"]}, ONE),
]


class TwoWorkers(Session):
    """Tasks at once in this process, exchanged as between two workers; every query is first shown to cuDF."""

    backend = "translate"
    workers = 2


@pytest.mark.parametrize(("name", "given", "tables"), CASES, ids=[f"{name}-{number}" for number, (name, _, _) in enumerate(CASES)])
@pytest.mark.parametrize("parts", [1, 2])
def test_every_query_of_a_stage__translates_for_cudf(name: str, given: dict[str, Any], tables: Tables, parts: int) -> None:
    stage = stage_class(name).model_validate(given)
    pieces = {role: cut(data, even_sizes(height(data), parts)) for role, data in tables.items()}
    found = concat_parts(run_parts(stage, pieces, TwoWorkers())[""]).frame
    expected = run_stage(stage, tables)[""]
    assert_frame_equal(found, expected, check_row_order=False, rel_tol=1e-12)


def test_cases__are_of_every_relational_and_feature_stage() -> None:
    wanted = {name for name, module in stage_files().items() if ".relational." in module or ".features." in module}
    assert wanted == {name for name, _, _ in CASES}


def test_a_query_that_cudf_cannot_run__is_refused() -> None:
    with pytest.raises(UntranslatableError, match="cuDF cannot run this stage's query"):
        collect(FRAME.lazy().select(pl.col("text").cast(pl.Boolean)), "translate")
    stage = stage_class("derive").model_validate({"columns": {"angle": "atan2(x, n)"}})
    with pytest.raises((PipelineError, UntranslatableError), match="cuDF cannot run"):
        run_parts(stage, {"rows": cut(FRAME, [6])}, TwoWorkers())
