"""Groups of more rows than a task may hold: what DuckDB says of them, whatever is on disk meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.stage import Context
from pipeline.stages.relational._aggregates import large
from pipeline.stages.relational._window import of_groups
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.stages.relational.as_of import AsOf
from pipeline.stages.relational.pivot import Pivot
from pipeline.stages.relational.top_n import TopN
from pipeline.stages.relational.window import Window
from pipeline.tables import budget
from pipeline.tables.budget import Budget
from pipeline.tables.session import Session
from tests.stages.in_parts import called, given_by, in_parts, of_duckdb

ROWS = 20_000


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """One whose tables may have as little memory as a tenth of these rows take."""
    monkeypatch.setattr(budget, "LEAST_BYTES", 20_000)
    found = Session()
    found.budget = Budget(100_000, 2, str(tmp_path))
    return found


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """Two fifths have one key, many have none; numbers and texts have gaps, and zeros have both signs."""
    random = np.random.default_rng(3)
    key = np.where(random.random(ROWS) < 0.4, 3, random.integers(0, 2_000, ROWS))
    value = np.where(random.random(ROWS) < 0.1, random.choice([0.0, -0.0], ROWS), np.round(random.normal(0, 10, ROWS), 1))
    frame = pl.DataFrame({"place": np.arange(ROWS), "key": key, "value": value, "count": random.integers(0, 50, ROWS)})
    frame = frame.with_columns(pl.Series("word", [f"word {number}" for number in random.integers(0, 900, ROWS)]))
    return frame.with_columns(
        pl.when(pl.col("key") % 5 != 2).then("key"),
        pl.when(pl.col("value") > -20).then("value"),
        pl.when(pl.col("count") != 4).then("word"),
    )


COMPUTED = {
    "middle": ("median(value)", "median(value)"),
    "tenth": ("quantile(value, 0.1)", "quantile_cont(value, 0.1)"),
    "third": ("quantile(count, 0.37)", "quantile_cont(count::double, 0.37)"),
    "words": ("n_unique(word)", "count(distinct word)"),
    "values": ("n_unique(value)", "count(distinct value + 0.0)"),
    "total": ("sum(count)", "sum(count)::bigint"),
    "size": ("size()", "count(*)"),
    "spread": ("std(value)", "stddev_samp(value)"),
}


@pytest.mark.parametrize("by", [["key"], []])
def test_an_aggregate_of_large_groups__is_duckdbs(
    session: Session, rows: pl.DataFrame, by: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = called(monkeypatch, large.Large, "table")
    stage = Aggregate.model_validate({"by": by, "compute": {name: ours for name, (ours, _) in COMPUTED.items()}})
    found = given_by(stage, session, rows)
    said = ", ".join(f'{theirs} as "{name}"' for name, (_, theirs) in COMPUTED.items())
    expected = of_duckdb(f"select {'key, ' if by else ''}{said} from given {'group by key' if by else ''}", rows)
    expected = expected.select(found.columns)
    found, expected = (found.sort(by), expected.sort(by)) if by else (found, expected)
    assert_frame_equal(found, expected, rel_tol=1e-12, abs_tol=1e-12)
    assert [one.keys.height for one in seen] == ([2] if by else [0])  # the hot key, and the missing one


def test_the_most_frequent_value_of_large_groups__is_the_least_of_several(session: Session, rows: pl.DataFrame) -> None:
    stage = Aggregate.model_validate({"by": ["key"], "compute": {"word": "mode(word)", "count": "mode(count)"}})
    found = given_by(stage, session, rows).sort("key")
    columns = []
    for name in ("word", "count"):
        most = of_duckdb(
            f"select key, {name} from (select key, {name}, count(*) as n from given where {name} is not null group by key, {name})"
            f" qualify row_number() over (partition by key order by n desc, {name}) = 1",
            rows,
        )
        columns.append(most)
    expected = rows.select("key").unique().join(columns[0], on="key", how="left", nulls_equal=True)
    expected = expected.join(columns[1], on="key", how="left", nulls_equal=True)
    assert_frame_equal(found, expected.sort("key"))


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_a_quantile_of_large_groups__is_between_two_values_as_polars_has_it(
    session: Session, rows: pl.DataFrame, interpolation: Any
) -> None:
    shares = (0.0, 0.1234, 0.5, 0.999, 1.0)
    compute = {f"q{share}": {"function": "quantile", "of": "value", "q": share, "interpolation": interpolation} for share in shares}
    found = given_by(Aggregate.model_validate({"by": ["key"], "compute": compute}), session, rows).sort("key")
    of = pl.col("value")
    expected = rows.group_by("key").agg(of.quantile(share, interpolation).alias(f"q{share}") for share in shares)
    assert_frame_equal(found, expected.sort("key"), rel_tol=1e-14)


def test_a_large_group_without_values__has_what_no_values_come_to(session: Session, rows: pl.DataFrame) -> None:
    none = rows.with_columns(pl.when(pl.col("key") != 3).then("value"))
    stage = Aggregate.model_validate({"by": ["key"], "compute": {"middle": "median(value)", "values": "n_unique(value)"}})
    assert given_by(stage, session, none).filter(pl.col("key") == 3).row(0) == (3, None, 0)


WINDOWS = {
    "middle": ("median(value)", "median(value) over groups"),
    "words": ("n_unique(word)", "count(distinct word) over groups"),
    "count": ("sum(count)", "sum(count) over groups::bigint"),  # in the place of the column that others are computed from
    "share": ("share(count)", "count / sum(count) over groups"),
    "size": ("size()", "count(*) over groups"),
    "twice": ("mean(value * 2)", "avg(value * 2) over groups"),
    "least": ("min(word)", "min(word) over groups"),
}


@pytest.mark.parametrize("by", [["key"], []])
def test_a_window_of_large_groups__is_duckdbs(session: Session, rows: pl.DataFrame, by: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = called(monkeypatch, of_groups.OfGroups, "table")
    stage = Window.model_validate({"by": by, "compute": {name: ours for name, (ours, _) in WINDOWS.items()}})
    found = given_by(stage, session, rows).sort("place")
    others = ", ".join(name for name in rows.columns if name not in WINDOWS)
    said = ", ".join(f'{theirs} as "{name}"' for name, (_, theirs) in WINDOWS.items()).replace(
        "over groups", f"over ({'partition by key' if by else ''})"
    )
    expected = of_duckdb(f"select {others}, {said} from given order by place", rows)
    assert_frame_equal(found, expected.select(found.columns), rel_tol=1e-12, abs_tol=1e-12)
    assert len(seen) == 1


IN_ORDER = {
    "number": ("row_number()", "row_number() over groups_in_order"),
    "before": ("lag(count)", "lag(count) over groups_in_order"),
    "running": ("cum_sum(count)", "sum(count) over (groups_in_order rows unbounded preceding)::bigint"),
    "least": ("cum_min(value)", "min(value) over (groups_in_order rows unbounded preceding)"),
    "last_word": ("cum_max(word)", "max(word) over (groups_in_order rows unbounded preceding)"),
    "spread": ("cum_std(value)", "stddev_samp(value) over (groups_in_order rows unbounded preceding)"),
    "varies": ("cum_var(count)", "var_samp(count) over (groups_in_order rows unbounded preceding)"),
    "first": ("first(word)", "first(word) over groups_in_order"),
    "end": ("last(value)", "last(value) over (groups_in_order rows between unbounded preceding and unbounded following)"),
    **{name: (ours, theirs.replace("over groups", "over whole_groups")) for name, (ours, theirs) in WINDOWS.items() if name != "count"},
}


@pytest.mark.parametrize("by", [["key"], []])
def test_a_window_in_order_of_large_groups__is_duckdbs(session: Session, rows: pl.DataFrame, by: list[str]) -> None:
    stage = Window.model_validate({"by": by, "order": "place", "compute": {name: ours for name, (ours, _) in IN_ORDER.items()}})
    found = given_by(stage, session, rows).sort("place")
    said = ", ".join(f'{theirs} as "{name}"' for name, (_, theirs) in IN_ORDER.items())
    of = "partition by key" if by else ""
    expected = of_duckdb(
        f"select key, place, value, count, word, {said} from given "
        f"window groups_in_order as ({of} order by place), whole_groups as ({of}) order by place",
        rows,
    )
    assert_frame_equal(found, expected.select(found.columns), rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.parametrize("by", [["key"], []])
@pytest.mark.parametrize("order", ["count", "-word"])
def test_ranks_in_large_groups__tie_as_duckdbs_do(session: Session, rows: pl.DataFrame, by: list[str], order: str) -> None:
    ranks = ("rank", "dense_rank", "percent_rank")
    stage = Window.model_validate({"by": by, "order": order, "compute": {name: f"{name}()" for name in ranks}})
    found = given_by(stage, session, rows).sort("place")
    of, way = "partition by key" if by else "", f"{order.strip('-')} {'desc' if order.startswith('-') else ''} nulls last"
    said = ", ".join(f"{name}() over groups_in_order as {name}" for name in ranks)
    expected = of_duckdb(f"select *, {said} from given window groups_in_order as ({of} order by {way}) order by place", rows)
    assert_frame_equal(found, expected.select(found.columns))


def test_running_figures__carry_what_many_parts_without_values_had(session: Session) -> None:
    frame = pl.DataFrame({"place": np.arange(ROWS), "value": np.full(ROWS, np.nan), "word": [None] * ROWS}).with_columns(
        pl.when(pl.col("place").is_in([5, 7, ROWS - 2])).then(pl.col("place").cast(pl.Float64)).alias("value"),
        pl.when(pl.col("place").is_in([9, ROWS - 9])).then(pl.lit("a word")).alias("word"),
    )
    asked = {
        "least": ("cum_min(value)", "min(value) over running"),
        "most": ("cum_max(word)", "max(word) over running"),
        "spread": ("cum_std(value)", "stddev_samp(value) over running"),
        "first": ("first(word)", "first(word) over all_of_them"),
        "last": ("last(value)", "last(value) over all_of_them"),
    }
    stage = Window.model_validate({"order": "place", "compute": {name: ours for name, (ours, _) in asked.items()}})
    found = given_by(stage, session, frame).sort("place")
    whole = "rows between unbounded preceding and unbounded following"
    windows = f"running as (order by place rows unbounded preceding), all_of_them as (order by place {whole})"
    said = ", ".join(f'{theirs} as "{name}"' for name, (_, theirs) in asked.items())
    assert_frame_equal(found, of_duckdb(f"select *, {said} from given window {windows} order by place", frame), rel_tol=1e-12)


NEAR = {
    "before": ("lag(count, 3)", "lag(count, 3) over (groups_in_order)"),
    "three": ("rolling_mean(value, 3)", "avg(value) over (groups_in_order rows 2 preceding)"),
    "spanned": ("rolling_sum(count, 500)", "coalesce(sum(count) over (groups_in_order rows 499 preceding), 0)::bigint"),
    "early": (
        {"function": "rolling_sum", "of": "count", "span": "700"},
        "sum(count) over (groups_in_order range between 699 preceding and current row)::bigint",
    ),
    "middle": (
        {"function": "rolling_max", "of": "word", "rows": 5, "center": True},
        "max(word) over (groups_in_order rows between 2 preceding and 2 following)",
    ),
}


@pytest.mark.parametrize("by", [["key"], []])
@pytest.mark.parametrize(
    "more", [{}, {"running": ("cum_sum(count)", "sum(count) over (groups_in_order rows unbounded preceding)::bigint")}]
)
def test_a_window_over_near_rows_of_large_groups__is_duckdbs(
    session: Session, rows: pl.DataFrame, by: list[str], more: dict[str, tuple[str, str]]
) -> None:
    asked: dict[str, tuple[Any, str]] = {**NEAR, **more}
    stage = Window.model_validate({"by": by, "order": "place", "compute": {name: ours for name, (ours, _) in asked.items()}})
    found = given_by(stage, session, rows).sort("place")
    said = ", ".join(f'{theirs} as "{name}"' for name, (_, theirs) in asked.items())
    of = "partition by key" if by else ""
    expected = of_duckdb(f"select *, {said} from given window groups_in_order as ({of} order by place) order by place", rows)
    assert_frame_equal(found, expected.select(found.columns), rel_tol=1e-12, abs_tol=1e-12)


def test_windows_of_rows_that_are_brought__are_not_looked_at(session: Session) -> None:
    signs = np.resize([1, -1, -1, 1], ROWS)  # four in a row sum to 0; some two of them, where a window begins amid them, to 2**63
    large = pl.DataFrame({"place": np.arange(ROWS), "key": 1, "count": signs * 2**62})
    stage = Window.model_validate({"by": "key", "order": "place", "compute": {"sum": "rolling_sum(count, 4)"}})
    found = given_by(stage, session, large).sort("place")
    assert found["sum"].head(3).to_list() == [2**62, 0, -(2**62)]
    assert found["sum"][3:].unique().to_list() == [0]


@pytest.mark.parametrize(("with_ties", "function"), [(False, "row_number"), (True, "rank")])
def test_very_many_first_rows__are_those_of_duckdb(session: Session, rows: pl.DataFrame, with_ties: bool, function: str) -> None:
    frame = rows.drop_nulls("key")
    stage = TopN.model_validate({"n": ROWS // 3, "order": ["-count", "key"], "with_ties": with_ties})
    found = given_by(stage, session, frame)
    order = "count desc, key" if with_ties else "count desc, key, place, value nulls last, word nulls last"
    expected = of_duckdb(
        f"select * from given qualify {function}() over (order by {order}) <= {ROWS // 3} "
        "order by count desc, key, place, value nulls last, word nulls last",
        frame,
    )
    assert_frame_equal(found, expected)


def test_a_pivot_of_a_hot_key__adds_up_where_rows_are(session: Session, rows: pl.DataFrame) -> None:
    values = [1, 2, 3]
    stage = Pivot.model_validate({"by": "key", "on": "count", "values": values, "unseen": "count", "compute": {"total": "sum(place)"}})
    found = given_by(stage, session, rows).sort("key")
    said = ", ".join(f'coalesce(sum(place) filter (count = {value}), 0)::bigint as "{value}"' for value in values)
    assert_frame_equal(found, of_duckdb(f"select key, {said} from given group by key", rows).sort("key"))


@pytest.mark.parametrize("how", ["left", "inner"])
def test_a_nearest_row_of_a_hot_key__is_duckdbs(session: Session, rows: pl.DataFrame, how: str) -> None:
    random = np.random.default_rng(8)
    left = rows.select("key", "place", pl.Series("time", random.integers(0, 10**6, ROWS)))
    keys = np.where(random.random(ROWS) < 0.2, 3, random.integers(0, 2_000, ROWS))
    right = pl.DataFrame({"key": keys, "time": random.permutation(ROWS) * 50, "price": random.random(ROWS)})
    stage = AsOf.model_validate({"by": "key", "on": "time", "direction": "backward", "how": how})
    tables = {"left": in_parts(session, left), "right": in_parts(session, right)}
    given = stage.run(tables, Context("tested", 1, session)).tables[""]
    assert max(session.evaluate(block).rows for block in given.blocks) < ROWS / 4  # two fifths of the rows have one key
    with duckdb.connect() as database:
        database.register("trades", left)
        database.register("quotes", right)
        join = "asof left join" if how == "left" else "asof join"
        said = f"select t.*, q.time as time_right, price from trades t {join} quotes q on t.key = q.key and t.time >= q.time"
        expected = database.sql(said).pl()
    found = given.gather().futures()[0].frame
    assert_frame_equal(found.sort("place"), expected.select(found.columns).sort("place"))


def test_small_groups__are_not_counted_apart(session: Session, rows: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = called(monkeypatch, large.Large, "table")
    stage = Aggregate.model_validate({"by": ["place"], "compute": {"middle": "median(value)"}})
    assert given_by(stage, session, rows).height == ROWS
    assert not seen
