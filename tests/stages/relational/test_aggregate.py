"""aggregate."""

from __future__ import annotations

import random
from typing import Any, get_args

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pytest
from pydantic import ValidationError

from pipeline.backend.engines import collect
from pipeline.errors import ExpressionError, StageError
from pipeline.stages.relational._aggregates.asked import Interpolation
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.tables.session import ClusterSession, Session
from pipeline.testing.examples import Between, StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples

FUNCTIONS = ("sum", "mean", "min", "max", "count", "n_unique", "std", "var", "median")
COMPUTED = {
    **{f"{function}_{column}": f"{function}({column})" for function in FUNCTIONS for column in ("x", "n", "flag")},
    **{f"{function}_text": f"{function}(text)" for function in ("min", "max", "count", "n_unique")},
    "rows": "size()",
    "late": {"function": "size", "where": "x > 1"},
    "some": {"function": "mean", "of": "x * 2", "where": "flag"},
}
LAST = {"function": "last", "of": "x", "order_by": "n"}
PICKED = {
    "last": LAST,
    "first": {**LAST, "function": "first", "of": "text", "order_by": "x"},
    "sure": {**LAST, "ties": "none"},
    "soon": {**LAST, "function": "first", "ties": "none", "where": "flag"},
    "total": "sum(n)",
    "mean": "mean(x)",
}
WIDE = examples.MIXED.select(
    "key", i="id", u=pl.col("id").cast(pl.UInt64), d=pl.col("id").cast(pl.Decimal(15, 2)), w=pl.col("id").cast(pl.Decimal(38, 2))
)
SUMS = {f"{function}_{column}": f"{function}({column})" for function in ("sum", "mean") for column in "iudw"}
SHAPED = {
    "ninth": "quantile(x, 0.9)",
    "lower": {"function": "approx_quantile", "of": "n", "q": 0.3, "interpolation": "lower"},
    "often": "mode(text)",
    "cheapest": "arg_min(text, x)",
    "dearest": "arg_max(text, x)",
    "texts": "list(text)",
    "by_x": {"function": "list", "of": "n", "order_by": "x", "where": "n > 1"},
    "corr": "corr(x, n)",
    "covar": "covar(x, coalesce(n, 0))",
    "weighted": "weighted_mean(x, n)",
    "any": "any(flag)",
    "all": "all(x > 1)",
    "bins": {"function": "histogram", "of": "x", "edges": [1, 3.5]},
}
COUNTED = {"kinds": "n_unique(text)", "often": "mode(text)", "most": "max(text)", "sum": "sum(id)", "deviation": "std(x)"}
SPLIT = {name: what for name, what in SHAPED.items() if name in {"corr", "covar", "weighted", "any", "all", "bins", "cheapest"}}
EXAMPLES = [
    *(
        StageExample(Aggregate.model_validate({"by": by, "compute": compute, **kept}), {"rows": rows})
        for by, compute, kept in (
            (["key"], SHAPED, {"having": "any or weighted > 1"}),
            ([], SHAPED, {}),
            ([], {**SPLIT, "deviation": "std(x)", "rows": "size()", "sum": "sum(id)"}, {"having": "sum > 1"}),
            ("flag", COUNTED, {}),
            ([], {"kinds": "n_unique(key)"}, {}),
            ("flag", {**SPLIT, "deviation": "std(x)", "variance": "var(n)"}, {}),
        )
        for rows in (examples.MIXED, examples.MIXED.clear())
    ),
    StageExample(Aggregate.model_validate({"by": ["key"], "compute": SUMS}), {"rows": WIDE}),
    StageExample(Aggregate(by=["key"], compute=COMPUTED), {"rows": examples.MIXED}),
    StageExample(Aggregate(by=["key", "flag"], compute=PICKED), {"rows": examples.MIXED}),
]

RANDOM = random.Random(4)
ROWS = 200
FRAME = pl.DataFrame(
    {
        "g": [RANDOM.choice("abcd") for _ in range(ROWS)],
        "h": [RANDOM.choice([1, 2]) for _ in range(ROWS)],
        "i": pl.Series([RANDOM.choice([None, *range(9)]) for _ in range(ROWS)], dtype=pl.Int32),
        "x": [RANDOM.choice([None, RANDOM.gauss(5, 3)]) for _ in range(ROWS)],
        "t": RANDOM.sample(range(ROWS), ROWS),
        "s": [RANDOM.choice([None, "u", "v", "w"]) for _ in range(ROWS)],
    }
)
PLAIN = {
    "sum": "sum(i)",
    "mean": "mean(x)",
    "least": "min(x)",
    "most": "max(s)",
    "count": "count(x)",
    "rows": "size()",
    "ends": {"function": "last", "of": "x", "order_by": "t"},
    "begins": {"function": "first", "of": "s", "order_by": "t", "ties": "none"},
    "late": {"function": "count", "of": "i", "where": "x > 5"},
    "twice": {"function": "sum", "of": "2 * i"},
}
OTHERS = {"kinds": "n_unique(s)", "sd": "std(x)", "variance": "var(i)", "middle": "median(i)"}


def aggregate(by: Any, compute: dict[str, Any]) -> Aggregate:
    return Aggregate.model_validate({"by": by, "compute": compute})


def by_pandas() -> pl.DataFrame:
    groups = []
    for (g, h), rows in FRAME.to_pandas().groupby(["g", "h"]):
        x, i = rows["x"], rows["i"].astype("Int64")
        ordered = rows.sort_values("t")
        groups.append(
            {
                "g": g,
                "h": h,
                "sum": int(i.sum()),
                "mean": x.mean(),
                "least": x.min(),
                "most": max(value for value in rows["s"] if isinstance(value, str)),
                "count": int(x.count()),
                "rows": len(rows),
                "ends": ordered["x"].dropna().iloc[-1],
                "begins": ordered["s"].dropna().iloc[0],
                "late": int(i[x > 5].count()),
                "twice": 2 * int(i.sum()),
                "kinds": rows["s"].nunique(),
                "sd": x.std(),
                "variance": float(i.var()),
                "middle": float(i.median()),
            }
        )
    return pl.from_pandas(pd.DataFrame(groups))


def test_aggregate__equals_pandas_for_any_parts() -> None:
    found = assert_same_for_any_parts(aggregate(["g", "h"], {**PLAIN, **OTHERS}), {"rows": FRAME}, ["g", "h"])
    pl.testing.assert_frame_equal(found, by_pandas(), rel_tol=1e-12)


def test_aggregate__over_workers_is_the_same(workers: ClusterSession) -> None:
    """Both with partial sums sent (PLAIN) and, where a function needs all rows, with the rows sent."""
    pandas = by_pandas()
    for compute in (PLAIN, OTHERS):
        found = run_stage(aggregate(["g", "h"], compute), {"rows": FRAME}, 5, workers)[""].sort("g", "h")
        pl.testing.assert_frame_equal(found, pandas.select(found.columns), rel_tol=1e-12)


def test_aggregate__partial_results_are_fewer_rows() -> None:
    stage = aggregate(["g"], PLAIN)
    halves = [collect(stage.partial(FRAME[low:high].lazy()), "cpu") for low, high in ((0, 90), (90, 90), (90, ROWS))]
    assert [half.height for half in halves] == [4, 0, 4]
    pl.testing.assert_frame_equal(stage.final(pl.concat(halves).lazy()).collect(), stage.apply(FRAME.lazy()).collect(), rel_tol=1e-12)


def test_aggregate__sends_each_value_once_where_that_is_enough() -> None:
    assert collect(aggregate([], {"k": "n_unique(s)", "o": "mode(s)", "m": "mean(x)"}).partial(FRAME.lazy()), "cpu").height == 4
    assert collect(aggregate("h", {"k": "n_unique(g)"}).partial(FRAME.lazy()), "cpu").height == 8
    both = aggregate("h", {"k": "n_unique(g)", "o": "mode(s)"}), aggregate("h", {"k": "n_unique(g)", "m": "median(x)"})
    for stage in both:
        assert collect(stage.partial(FRAME.lazy()), "cpu").height == ROWS


def test_aggregate__of_no_values_is_zero_or_null() -> None:
    frame = pl.DataFrame({"g": [1, 1, None], "x": pl.Series([None, None, 2.0]), "t": [1, 2, 3]})
    compute = {name: f"{name}(x)" for name in ("sum", "mean", "min", "count", "n_unique", "std", "median")}
    found = run_stage(aggregate("g", {**compute, "last": {"function": "last", "of": "x", "order_by": "t"}}), {"rows": frame})[""]
    assert found.rows() == [(1, 0.0, None, None, 0, 0, None, None, None), (None, 2.0, 2.0, 2.0, 1, 1, None, 2.0, 2.0)]


def test_aggregate__does_not_overflow_narrow_integers() -> None:
    frame = pl.DataFrame(
        {"g": [1, 1], "i": pl.Series([2**31 - 1] * 2, dtype=pl.Int32), "b": [True, True], "u": pl.Series([2**63, 1], dtype=pl.UInt64)}
    )
    found = run_stage(aggregate("g", {"i": "sum(i)", "b": "sum(b)", "u": "sum(u)", "m": "mean(i)"}), {"rows": frame})[""]
    assert found.rows() == [(1, 2**32 - 2, 2, 2**63 + 1, 2.0**31 - 1)]
    assert found.schema["b"] == pl.Int64


def test_aggregate__last_of_rows_that_tie_is_the_greatest_value() -> None:
    frame = pl.DataFrame({"g": [1] * 5, "x": [3, 9, 4, None, 1], "t": [7, 7, 7, 8, 2]})
    last = {"function": "last", "of": "x", "order_by": "t"}
    stage = aggregate("g", {"last": last, "where": {**last, "where": "x < 9"}, "first": {**last, "function": "first"}})
    assert assert_same_for_any_parts(stage, {"rows": frame}, ["g"]).rows() == [(1, 9, 4, 1)]


def test_aggregate__forgets_what_files_say_of_columns_it_computes() -> None:
    assert aggregate("g", {"h": "sum(h)"}).writes() == {"h"}


def test_aggregate__takes_deviations_of_values_far_from_0() -> None:
    near = np.random.default_rng(11).normal(size=400)
    rows = pl.DataFrame({"g": [0, 1] * 200, "x": near + 2.0**40})
    found = run_stage(aggregate("g", {"s": "std(x)", "v": "var(x)"}), {"rows": rows})[""]
    exact = [np.std((rows["x"].to_numpy() - 2.0**40)[key::2], ddof=1) for key in (0, 1)]
    np.testing.assert_allclose(found["s"], exact, rtol=1e-12)
    np.testing.assert_allclose(found["v"], np.square(exact), rtol=1e-12)


@pytest.mark.parametrize("large", [1e20, -1e20, -(10.0**15)])
def test_aggregate__takes_deviations_of_small_values_beside_a_key_of_large_ones(large: float) -> None:
    x, y = np.random.default_rng(13).normal(size=(2, 400))
    x[1::2], y[1::2] = large * x[1::2] + large, large
    stage = aggregate("g", {"s": "std(x)", "v": "var(x)", "r": "corr(x, y)", "c": "covar(x, y)"})
    rows = pl.DataFrame({"g": [0, 1] * 200, "x": x, "y": y})
    for parts, session in ((1, None), (7, None), (2, Between())):
        found = run_stage(stage, {"rows": rows}, parts, session)[""].sort("g")
        a, b = x[::2], y[::2]
        exact = [a.std(ddof=1), a.var(ddof=1), np.corrcoef(a, b)[0, 1], np.cov(a, b)[0, 1]]
        np.testing.assert_allclose(found.row(0)[1:], exact, rtol=1e-12)
        np.testing.assert_allclose(found["s"][1], x[1::2].std(ddof=1), rtol=1e-12)


def test_aggregate__by_no_key_is_one_row_of_an_empty_table_too() -> None:
    stage = aggregate([], {"rows": "size()", "ones": "sum(1)", "sum": "sum(i)", "most": "max(x)", "list": "list(s)", "sd": "std(x)"})
    found = assert_same_for_any_parts(stage, {"rows": FRAME.clear()}, ["rows"])
    assert found.rows() == [(0, 0, 0, None, [], None)]
    for frame in (FRAME, FRAME.head(1)):
        assert run_stage(stage, {"rows": frame}, 3, Between())[""]["ones"].to_list() == [frame.height]


def test_aggregate__by_no_key_takes_sums_of_parts() -> None:
    """The rows of a table do not come together where sums are enough."""
    stage = aggregate([], PLAIN)
    (found,) = (run_stage(stage, {"rows": FRAME}, parts, session)[""] for parts, session in ((7, Between()),))
    pl.testing.assert_frame_equal(found, run_stage(stage, {"rows": FRAME})[""], rel_tol=1e-12)
    assert collect(stage.partial(FRAME.lazy()), "cpu").height == 1


def test_aggregate__having_keeps_results() -> None:
    found = run_stage(
        Aggregate.model_validate({"by": "g", "compute": {"rows": "size()", "m": "mean(x)"}, "having": "rows > 50 and g <> 'a'"}),
        {"rows": FRAME},
    )[""]
    expected = FRAME.group_by("g").agg(rows=pl.len().cast(pl.Int64), m=pl.col("x").mean()).filter(pl.col("rows") > 50, pl.col("g") != "a")
    pl.testing.assert_frame_equal(found, expected.sort("g"), rel_tol=1e-12)


def test_aggregate__moments_of_values_far_from_0_are_the_same_merged_from_parts() -> None:
    """Means of parts differ in their last digits, and are as large as all that is asked for."""
    near = np.random.default_rng(12).normal(size=(2, 400))
    near[1] += near[0]
    rows = pl.DataFrame({"g": [0, 1] * 200, "x": near[0] + 2.0**40, "y": 2.0**40 - near[1]})
    x, y = rows["x"].to_numpy() - 2.0**40, rows["y"].to_numpy() - 2.0**40
    stage = aggregate("g", {"s": "std(x)", "v": "var(y)", "r": "corr(x, y)", "c": "covar(x, y)"})
    for parts, session in ((1, None), (7, Between()), (2, Between())):
        found = run_stage(stage, {"rows": rows}, parts, session)[""].sort("g")
        for key in (0, 1):
            a, b = x[key::2], y[key::2]
            exact = [a.std(ddof=1), b.var(ddof=1), np.corrcoef(a, b)[0, 1], np.cov(a, b)[0, 1]]
            np.testing.assert_allclose(found.row(key)[1:], exact, rtol=1e-12)


@pytest.mark.parametrize("session", [Session(), Between()])
def test_aggregate__of_values_that_are_all_the_same_has_no_spread(session: Session) -> None:
    rows = pl.DataFrame({"x": [0.1] * 9, "y": [*range(8), None]})
    found = run_stage(aggregate([], {"s": "std(x)", "c": "covar(x, y)", "r": "corr(y, x)"}), {"rows": rows}, 4, session)[""]
    assert found.rows() == [(0.0, 0.0, None)]


def test_aggregate__mode_of_several_is_the_least() -> None:
    rows = pl.DataFrame({"g": [1, 1, 1, 1, 1, 2], "x": ["b", "a", "b", "a", None, None]})
    assert assert_same_for_any_parts(aggregate("g", {"x": "mode(x)"}), {"rows": rows}, ["g"]).rows() == [(1, "a"), (2, None)]


def test_aggregate__lists_are_in_order_whatever_the_rows() -> None:
    rows = pl.DataFrame({"g": [1, 1, 1, 1, 2, 2], "x": [3, 1, 2, None, 5, 4], "t": [0, 0, None, 1, 9, 8]})
    stage = aggregate("g", {"plain": "list(x)", "timed": "list(x, t)", "big": {"function": "list", "of": "x", "where": "x > 9"}})
    assert assert_same_for_any_parts(stage, {"rows": rows}, ["g"]).rows() == [(1, [1, 2, 3], [1, 3, 2], []), (2, [4, 5], [4, 5], [])]


def test_aggregate__histograms_count_what_lies_beyond_their_edges_too() -> None:
    rows = pl.DataFrame({"x": [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, None]})
    stage = aggregate([], {"bins": {"function": "histogram", "of": "x", "edges": [0, 1, 2]}})
    (found,) = run_stage(stage, {"rows": rows}, 3, Between())[""]["bins"].to_list()
    assert found == [*np.bincount(np.digitize(rows["x"].drop_nulls().to_numpy(), [0, 1, 2]), minlength=4)]


@pytest.mark.parametrize("how", get_args(Interpolation))
@pytest.mark.parametrize("q", [0, 0.25, 0.37, 0.5, 0.9, 1])
def test_aggregate__quantiles_equal_numpys(how: Interpolation, q: float) -> None:
    stage = aggregate("g", {"x": {"function": "quantile", "of": "x", "q": q, "interpolation": how}})
    found = run_stage(stage, {"rows": FRAME}, 3, Between())[""].sort("g")
    values = FRAME.drop_nulls("x").sort("g").partition_by("g")
    expected = [np.quantile(rows["x"].to_numpy(), q, method=how) for rows in values]
    if how == "nearest":  # of two that are as near NumPy takes the one of even rank, Polars and cuDF the upper
        expected = [rows["x"][int(q * (rows.height - 1) + 0.5)] for rows in (rows.sort("x") for rows in values)]
    np.testing.assert_allclose(found["x"], expected, rtol=1e-12)


def test_aggregate__short_forms_have_commas_in_brackets_and_quotes() -> None:
    written = aggregate("g", {"a": 'corr(coalesce(x, 0), "y, z")', "b": "quantile(if(s = ',', 1, 2), 0.5)", "c": "sum(coalesce(x, 1))"})
    assert [(c.of, c.other, c.q) for c in written.compute.values()] == [
        ("coalesce(x, 0)", '"y, z"', None),
        ("if(s = ',', 1, 2)", None, 0.5),
        ("coalesce(x, 1)", None, None),
    ]


def test_aggregate__refuses_at_plan_time() -> None:
    last = {"function": "last", "of": "x", "order_by": "tt"}
    refused: list[tuple[str, dict[str, Any], type[ValueError], str]] = [
        ("q", {"n": "size()"}, StageError, "no column 'q'"),
        ("x", {"n": "size()"}, StageError, "a fraction is no key"),
        ("g", {"g": "size()"}, StageError, "'g', which is a key"),
        ("g", {"m": "mean(s)"}, StageError, r"compute.m: mean\(s\) needs numbers"),
        ("g", {"m": "mean(xx)"}, ExpressionError, "compute.m: there is no column 'xx'"),
        ("g", {"m": {"function": "sum", "of": "x", "where": "i"}}, ExpressionError, "compute.m.where: .*condition"),
        ("g", {"m": "corr(x, s)"}, StageError, r"compute.m.other: corr\(s\) needs numbers"),
        ("g", {"m": "any(i)"}, StageError, r"compute.m: any\(i\) needs a condition, .* Compare it"),
        ("g", {"l": "list(x, tt)"}, StageError, "compute.l.order_by: no column 'tt'.*Did you mean 't'"),
        ("g", {"l": last}, StageError, "compute.l.order_by: no column 'tt'.*Did you mean 't'"),
    ]
    for by, compute, error, message in refused:
        with pytest.raises(error, match=message):
            plan_stage(aggregate(by, compute), {"rows": FRAME})
    for wrong, message in [
        ("mean x", "is not function"),
        ("size(x)", "takes no column"),
        ("mean()", "needs `of`"),
        ("last(x)", "last needs order_by"),
        ("kurtosis(x)", "'sum'"),
        ({"function": "sum", "of": "x", "order_by": "t"}, "sum takes no order_by"),
        ("quantile(x)", "quantile needs q"),
        ("quantile(x, 2)", "less than or equal to 1"),
        ("corr(x, i, t)", "takes of, other, and 3 are given"),
        ({"function": "histogram", "of": "x", "edges": [1, 1]}, "edges must rise"),
    ]:
        with pytest.raises(ValidationError, match=message):
            aggregate("g", {"m": wrong})
