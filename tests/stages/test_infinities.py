"""No stage makes an infinity, or NaN, of finite numbers: it is null and counted for that stage, or an error by name."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import pipeline
from pipeline.errors import DataError
from pipeline.stage import Stage
from pipeline.stages.features.fill_missing import FillMissing
from pipeline.stages.features.standardize import Standardize
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.stages.relational.cast import Cast
from pipeline.stages.relational.derive import Derive
from pipeline.stages.relational.filter import Filter
from pipeline.tables.part import added_counts
from pipeline.testing.examples import Between
from pipeline.testing.stages import counts_of, cut, even_sizes, run_parts, run_stage
from tests.small import inside

SIZES = [0.0, 1.0, -2.5, 1e-308, 5e-324, 1e154, -1e200, 1.7e308, -1.7e308, None]
ROWS = pl.DataFrame([(i % 7, x, y) for i, (x, y) in enumerate((x, y) for x in SIZES for y in SIZES)], schema=["k", "x", "y"], orient="row")
ROWS = ROWS.with_columns(f=pl.col("x").clip(-3e38, 3e38).cast(pl.Float32), row=pl.int_range(pl.len()))

# An expression, and what of it may be infinite, as DuckDB writes it; '' where these are the same.
EXPRESSIONS = dict.fromkeys(["x + y", "x - y", "x * y", "x * 2", "2 * x + y - x", "x * y - y * x", "exp(x)", "-x - y", "f * f"], "")
EXPRESSIONS |= dict.fromkeys(["power(x, 3)", "degrees(x)", "2.5 - x", "x * 0.5", "x + 1e28 * 3"], "")
EXPRESSIONS |= {
    "x / y": "x / nullif(y, 0)",
    "x / 1e-5": "",
    "coalesce(x * y, 0)": "x * y",
    "greatest(x * y, 1)": "x * y",
    "abs(x + y)": "x + y",
}
EXPRESSIONS |= {
    "case when k > 3 then x * y else 1 end": "case when k > 3 then x * y end",
    "k > 3 and x * y > 1": "case when k > 3 then x * y end",
}
EXPRESSIONS |= {
    "1 / (x * y)": "case when isfinite(x * y) then 1 / nullif(x * y, 0) else x * y end",
    "try_cast(y as real)": "case when abs(y) > 3.5e38 then 'inf'::double end",
    "sqrt(x * x)": "x * x",
}


def rows() -> duckdb.DuckDBPyRelation:
    return duckdb.connect().from_arrow(ROWS.to_arrow())


def infinite(expression: str) -> int:
    """How many values of an expression DuckDB finds to be no finite number."""
    found = rows().aggregate(f"count(*) filter (not isfinite({EXPRESSIONS.get(expression) or expression}))").fetchall()
    return int(found[0][0])


@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_derive__has_no_infinity_and_counts_those_that_were(expression: str, parts: int) -> None:
    stage = Derive(columns={"z": expression})
    found = run_stage(stage, {"rows": ROWS}, parts)[""]["z"]
    assert found.dtype == pl.Boolean or found.drop_nulls().is_finite().all()
    assert counts_of(stage, {"rows": ROWS}, parts).get("infinities", 0) == infinite(expression)


@pytest.mark.parametrize("sign", ["<", ">", "<>", ">="])
def test_an_infinity__is_null_in_a_comparison(sign: str) -> None:
    stage = Filter(where=f"x * y {sign} 3")
    expected = rows().filter(f"isfinite(x * y) and x * y {sign} 3").order("row").project("row").fetchall()
    assert run_stage(stage, {"rows": ROWS})[""]["row"].to_list() == [row for (row,) in expected]
    assert counts_of(stage, {"rows": ROWS}, 2) == {"infinities": infinite("x * y")}


FUNCTIONS = ["sum(x)", "mean(x)", "std(x)", "var(y)", "median(y)", "sum(f)", "max(x)", "min(y)"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_aggregate__has_no_infinity_and_counts_those_that_were(function: str) -> None:
    stage = Aggregate.model_validate({"by": ["k"], "compute": {"z": function}})
    whole = run_stage(stage, {"rows": ROWS})[""]["z"]
    assert whole.drop_nulls().is_finite().all()
    some = rows().aggregate(f"k, count({function[-2]}) as n", "k").filter("n > 1").fetchall()
    assert counts_of(stage, {"rows": ROWS}).get("infinities", 0) == whole.null_count() <= len(some)
    for parts, session in ((2, Between()), (7, Between())):
        pieces = run_parts(stage, {"rows": cut(ROWS, even_sizes(ROWS.height, parts))}, session)[""]
        nulls = sum(part.frame["z"].null_count() for part in pieces)
        assert sum(added_counts([part.counts for part in pieces]).values()) == nulls


def test_aggregate__counts_those_of_the_expressions_that_it_adds_up() -> None:
    stage = Aggregate.model_validate({"by": ["k"], "compute": {"n": {"function": "count", "of": "x * y", "where": "x * 4 > 0 or k > 3"}}})
    expected = rows().aggregate("k, count(*) filter (isfinite(x * y) and (isfinite(x * 4) and x * 4 > 0 or k > 3)) as n", "k").order("k")
    assert run_stage(stage, {"rows": ROWS}, 2)[""].rows() == expected.fetchall()
    assert counts_of(stage, {"rows": ROWS}, 2)["infinities"] > 0


CASTS: list[tuple[list[Any], str, int]] = [
    (["inf", "-Infinity", "1.5", "nan", None, " INF "], "float64", 3),
    (["1e39", "1e300", "2"], "float32", 2),
    ([1e39, -1e300, 2.0, None], "float32", 2),
]


@pytest.mark.parametrize(("values", "to", "count"), CASTS)
def test_cast__counts_infinities_that_it_makes(values: list[Any], to: str, count: int) -> None:
    stage = Cast.model_validate({"columns": {"x": to}, "strict": False})
    frame = pl.DataFrame({"x": values})
    assert run_stage(stage, {"rows": frame})[""]["x"].drop_nulls().is_finite().all()
    assert counts_of(stage, {"rows": frame}, 2) == {"infinities": count}
    if "1e39" in map(str, values) or 1e39 in values:
        with pytest.raises(
            DataError, match=r"column 'x' cannot be cast to float32: a value does not fit, first in row 1 of its part, where x"
        ):
            run_stage(Cast.model_validate({"columns": {"x": to}}), {"rows": frame})


def test_stages_that_learn__count_what_they_make_missing_and_fail_where_what_they_learn_is_infinite() -> None:
    frame = pl.DataFrame({"part": ["a"] * 3 + ["b"] * 3, "x": [1e-150, 2e-150, 3e-150, 1e300, math.inf, None]})
    scaled = Standardize.model_validate({"columns": ["x"], "fit_where": "part = 'a'"})
    assert run_stage(scaled, {"rows": frame})[""]["x"].null_count() == 6 - 3
    assert counts_of(scaled, {"rows": frame}, 2) == {"infinities": 2}
    filled = FillMissing.model_validate({"columns": ["x"], "method": "mean", "fit_where": "part = 'a'"})
    assert counts_of(filled, {"rows": frame}, 2) == {"infinities": 1}
    large = pl.DataFrame({"x": [1.7e308, 1.7e308, None]})
    learning: list[tuple[Stage, str]] = [(Standardize(columns=("x",)), "the mean or the variance of 'x' is beyond Float64")]
    fills = [FillMissing.model_validate({"columns": ["x"], "method": method}) for method in ("mean", "median")]
    learning += [(fill, "what 'x' would be filled with is beyond Float64") for fill in fills]
    for stage, text in learning:
        with pytest.raises(DataError, match=rf"stage tested\.columns: {text}\. Divide the column in a derive before"):
            run_stage(stage, {"rows": large}, 2)


JOB = """\
job: infinite
results: results
inputs:
  rows: {format: parquet, path: in.parquet}
stages:
  - {use: derive, from: rows, as: made, columns: {z: x * y, small: x * 0.5}}
  - {use: filter, from: made, as: some, where: "k >= 0"}
  - {use: join, from: {left: some, right: made}, as: both, on: row}
  - {use: aggregate, from: some, as: total, by: k, compute: {total: sum(y)}}
outputs:
  both: {from: both}
  total: {from: total}
"""


def test_a_run__counts_by_stage_and_once_where_a_stage_is_computed_again(tmp_path: Path) -> None:
    ROWS.write_parquet(tmp_path / "in.parquet", row_group_size=20)
    (tmp_path / "job.yaml").write_text(JOB)
    with inside(tmp_path):
        run = pipeline.load("job.yaml").run()
    counts = {name: stage["counts"].get("infinities", 0) for name, stage in run.record["stages"].items()}
    assert counts == {"made": infinite("x * y"), "some": 0, "both": 0, "total": run.table("total").to_polars()["total"].null_count()}
    assert "infinite values that were computed, now missing" in Path(run.report).read_text(encoding="utf-8")


FITTED = """\
job: fitted
results: results
inputs:
  rows: {format: parquet, path: in.parquet}
stages:
  - {use: categorify, from: rows, as: coded, columns: [k], fit_where: "coalesce(x * y, 0) >= 0"}
outputs:
  coded: {from: coded}
"""


def test_a_run__counts_those_that_a_condition_on_the_rows_to_learn_from_meets(tmp_path: Path) -> None:
    ROWS.write_parquet(tmp_path / "in.parquet", row_group_size=20)
    (tmp_path / "job.yaml").write_text(FITTED)
    with inside(tmp_path):
        run = pipeline.load("job.yaml").run()
    assert run.record["stages"]["coded"]["counts"] == {"infinities": infinite("x * y")}
