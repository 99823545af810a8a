"""Series of more rows than a task may hold: what DuckDB and pandas say of their gaps, whatever is on disk meanwhile."""

from __future__ import annotations

import datetime as dt
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError
from pipeline.stage import Context, Stage
from pipeline.stages.relational._ordered import known
from pipeline.stages.relational._ordered.between import around, seen
from pipeline.stages.relational._ordered.groups import placed_in
from pipeline.stages.relational.interpolate import Interpolate
from pipeline.stages.relational.resample import Resample
from pipeline.tables import budget
from pipeline.tables.budget import Budget
from pipeline.tables.part import Part
from pipeline.tables.session import Session
from pipeline.testing.stages import run_stage
from tests.stages import in_parts as parted
from tests.stages.in_parts import PARTS, of_duckdb

ROWS = 4_200
in_parts = partial(parted.in_parts, most=ROWS)
given_by = partial(parted.given_by, most=ROWS)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """One whose tables may have as little memory as a tenth of these rows take."""
    monkeypatch.setattr(budget, "LEAST_BYTES", 20_000)
    found = Session()
    found.budget = Budget(40_000, 2, str(tmp_path))
    return found


@pytest.fixture(autouse=True)
def carried(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """What was asked to be carried between parts: the edges of each stage's."""
    seen, before = list[list[Any]](), known.Series.carries

    def noted(self: Any, edges: Any) -> Any:
        """The call, noted."""
        seen.append([edge for edge in edges if edge is not None])
        return before(self, edges)

    monkeypatch.setattr(known.Series, "carries", noted)
    return seen


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """Half have one key, a sixth none; some have no time. Values have gaps; of the hot key's a third in a row has none."""
    random = np.random.default_rng(5)
    key = np.where(random.random(ROWS) < 0.5, 3, random.integers(0, 600, ROWS))
    frame = pl.DataFrame({"place": np.arange(ROWS), "key": key, "time": random.permutation(ROWS) * 3 + random.integers(0, 3, ROWS)})
    frame = frame.with_columns(
        pl.Series("value", np.round(random.normal(0, 10, ROWS), 1)),
        pl.Series("count", random.integers(-50, 50, ROWS)),
        pl.Series("word", [f"word {number}" for number in random.integers(0, 900, ROWS)]),
    )
    amid = pl.col("time").is_between(ROWS, 2 * ROWS)
    holes = {"value": (0.5, pl.lit(value=True)), "count": (0.7, ~amid), "word": (0.5, ~amid)}
    kept = [pl.when(pl.Series(random.random(ROWS) > share) & there).then(name).alias(name) for name, (share, there) in holes.items()]
    timed = pl.when(pl.Series(random.random(ROWS) > 0.05)).then("time").alias("time")
    return frame.with_columns(*kept, timed, pl.when(pl.col("key") % 6 != 2).then("key").alias("key"))


SIDES = """with numbered as (
  select *, row_number() over (partition by key order by time nulls last, place) as nr, time is not null as timed from given
), sides as (
  select *, {known} from numbered
  window b as (partition by key order by nr rows between unbounded preceding and current row),
         a as (partition by key order by nr rows between current row and unbounded following)
)"""
SIDE = "{first}_value(case when timed and {name} is not null then {of} end ignore nulls) over {side} as {name}_{of}_{side}"


def filled_by_duckdb(rows: pl.DataFrame, by: list[str], methods: dict[str, str], limit: int | None, span: int | None, spacing: str) -> Any:
    """The rows with missing values filled as it is told to by window functions, in the order of places."""
    sides = {"b": "last", "a": "first"}
    asked = [(name, of, *side) for name in methods for of in (name, "nr", "time") for side in sides.items()]
    known = ", ".join(SIDE.format(name=name, of=of, side=side, first=first) for name, of, side, first in asked)
    columns = []
    for name, method in methods.items():
        far = {
            side: f"abs(nr - {name}_nr_{side}) <= {limit or ROWS} and abs(time - {name}_time_{side}) <= {span or 10**9}" for side in "ab"
        }
        place = "time" if spacing == "order" else "nr"
        first, last = f"{name}_{place}_b", f"{name}_{place}_a"
        narrow = f"{name}_nr_a - {name}_nr_b - 1 <= {limit or ROWS} and {name}_time_a - {name}_time_b <= {span or 10**9}"
        line = f"{name}_{name}_b + ({name}_{name}_a - {name}_{name}_b) * ({place} - {first})::double / ({last} - {first})"
        before, after = (f"case when {far[side]} then {name}_{name}_{side} end" for side in "ba")
        nearer = f"{last} - {place} < {place} - {first}"
        both = f"{far['a']} and {far['b']} and {nearer}"
        said = {
            "linear": f"case when {narrow} then {line} end",
            "forward": before,
            "backward": after,
            "nearest": f"case when {both} or ({far['b']}) is not true then {after} else {before} end",
        }
        columns.append(f"case when timed and {name} is null then {said[method]} else {name} end as {name}")
    query = SIDES.format(known=known) if by else SIDES.format(known=known).replace("partition by key ", "")
    rest = ", ".join(name for name in rows.columns if name not in methods)
    return of_duckdb(f"{query} select {rest}, {', '.join(columns)} from sides order by place", rows).select(rows.columns)


LIMITS: list[dict[str, Any]] = [
    {},
    {"limit": 2},
    {"max_span": "40"},
    {"limit": 5, "max_span": "60", "spacing": "rows"},
    {"spacing": "rows"},
]


@pytest.mark.parametrize("by", [["key"], []])
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("method", ["linear", "forward", "backward", "nearest"])
def test_gaps_of_large_groups__are_filled_as_duckdb_says(
    session: Session, rows: pl.DataFrame, by: list[str], limits: dict[str, Any], method: str, carried: list[list[Any]]
) -> None:
    methods = {"value": method, "count": method} | ({} if method == "linear" else {"word": method})
    stage = Interpolate.model_validate({"by": by, "order": "time", "columns": methods, **limits})
    found = given_by(stage, session, rows)
    assert [len(edges) > PARTS for edges in carried] == [True]
    span = int(limits["max_span"]) if "max_span" in limits else None
    expected = filled_by_duckdb(rows, by, methods, limits.get("limit"), span, limits.get("spacing", "order"))
    assert_frame_equal(found.sort("place"), expected, check_dtypes=method != "linear", rel_tol=1e-12, abs_tol=1e-12)
    assert_frame_equal(found, run_stage(stage, {"rows": rows})[""])  # in the same order


COMPUTED = {
    "rows": "size()",
    "count": "sum(count)",
    "value": "mean(value)",
    "line": "mean(value)",
    "word": "max(word)",
    "line_2": "sum(count)",
}
RULES = {"rows": "zero", "value": "forward", "line": "interpolate", "word": "forward", "line_2": "interpolate"}
BY_DUCKDB = """with per_step as (
  select key, time // {every} as nr, count(*) as rows, sum(count)::bigint as count, avg(value) as value, avg(value) as line,
    max(word) as word, coalesce(sum(count), 0)::bigint as line_2 from given group by all
), ends as (
  select key, min(nr) as low, max(nr) as high from per_step group by key
), every_step as (
  select key, unnest(generate_series(low, high)) as nr from ends where low is not null
  union all select key, null from per_step where nr is null
), beside as (
  select e.key, e.nr, p.rows, coalesce(p.count, case when p.rows is not null then 0 end) as count, p.value, p.line, p.word, p.line_2,
  from every_step e left join per_step p on e.key is not distinct from p.key and e.nr is not distinct from p.nr
), sides as (
  select *, last_value(value ignore nulls) over b as value_b, last_value(word ignore nulls) over b as word_b,
    last_value(line ignore nulls) over b as line_b, last_value(case when line is not null then nr end ignore nulls) over b as line_nr_b,
    first_value(line ignore nulls) over a as line_a, first_value(case when line is not null then nr end ignore nulls) over a as line_nr_a,
    last_value(line_2 ignore nulls) over b as line_2_b,
    last_value(case when line_2 is not null then nr end ignore nulls) over b as line_2_nr_b,
    first_value(line_2 ignore nulls) over a as line_2_a,
    first_value(case when line_2 is not null then nr end ignore nulls) over a as line_2_nr_a
  from beside
  window b as (partition by key, nr is null order by nr rows between unbounded preceding and current row),
         a as (partition by key, nr is null order by nr rows between current row and unbounded following)
)
select key, nr * {every} as time, coalesce(rows, 0) as rows, count, case when rows is null then value_b else value end as value,
  case when rows is null then line_b + (line_a - line_b) * (nr - line_nr_b)::double / (line_nr_a - line_nr_b) else line end as line,
  case when rows is null then word_b else word end as word,
  case when rows is null then line_2_b + (line_2_a - line_2_b) * (nr - line_2_nr_b)::double / (line_2_nr_a - line_2_nr_b)
    else line_2 end as line_2
from sides order by key nulls last, nr nulls last"""


@pytest.mark.parametrize("every", [1, 2, 7])
@pytest.mark.parametrize("by", [["key"], []])
def test_steps_of_large_keys__are_those_of_duckdb(
    session: Session, rows: pl.DataFrame, by: list[str], every: int, carried: list[list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "LEAST_BYTES", 20_000)
    hot, time = pl.col("key") == 3, pl.col("time") // 4
    gap = pl.when(time > ROWS // 4).then(3_000).otherwise(0)  # of more steps than several parts
    far = rows.with_columns(time=pl.when(hot).then(time + gap).otherwise(time // 100))
    keys = {"by": by, "time": "time", "every": str(every), "compute": COMPUTED, "gaps": RULES}
    stage = Resample.model_validate(keys)
    (table,) = stage.run({"rows": in_parts(session, far)}, Context("tested", 1, session)).tables.values()
    assert len(carried) == 1
    assert len(table.blocks) > len(carried[0])
    found = [session.evaluate(block).frame for block in table.blocks]
    assert max(frame.height for frame in found) < sum(frame.height for frame in found) / PARTS
    given = far if by else far.with_columns(key=pl.lit(None, dtype=pl.Int64))
    expected = of_duckdb(BY_DUCKDB.format(every=every), given).select(found[0].columns)
    assert_frame_equal(pl.concat(found), expected, check_dtypes=False, rel_tol=1e-12, abs_tol=1e-12)
    assert_frame_equal(pl.concat(found), run_stage(stage, {"rows": far})[""], rel_tol=1e-12)


def test_rows_that_tie__follow_by_the_other_columns_over_parts_too(session: Session, rows: pl.DataFrame, carried: list[list[Any]]) -> None:
    tied = rows.with_columns(pl.col("time") // 50)
    methods = {"value": "forward", "count": "nearest", "word": "backward"}
    stage = Interpolate.model_validate({"by": "key", "order": "time", "columns": methods})
    found = given_by(stage, session, tied).sort("place")
    assert_frame_equal(found, filled_by_duckdb(tied, ["key"], methods, None, None, "order"))
    assert len(carried) == 1


def test_ties__are_refused_over_parts_too(session: Session, rows: pl.DataFrame, carried: list[list[Any]]) -> None:
    times = rows.with_columns(time=pl.col("place"))
    stage = Interpolate.model_validate({"by": [], "order": "time", "columns": "value", "ties": "refuse"})
    assert_frame_equal(given_by(stage, session, times), run_stage(stage, {"rows": times})[""])
    once_more = times.with_columns(pl.when(pl.col("time") == ROWS // 2).then(ROWS // 2 - 1).otherwise("time").alias("time"))
    with pytest.raises(DataError, match="ties: rows of a group tie in 'time'"):
        given_by(stage, session, once_more)
    assert len(carried) == 2


def test_rows_that_tie_where_a_part_ends__are_known_to() -> None:
    series = known.Series(("key",), "time", ())
    ends = [((1, 0), (1, 5)), ((1, 0), (1, 0)), ((1, 0), (1, 0)), ((1, 0), (2, 5)), (), ((2, 5), (2, 6))]
    parts = [Part(pl.DataFrame(rows, {"key": pl.Int64, "time": pl.Int64}, orient="row")) for rows in ends]
    tied = [carry.tied for carry in series.carries([series.edge(part) for part in parts])]
    assert tied == [False, False, True, True, False, True]


def test_values_of_any_type__are_carried_as_they_are(session: Session, rows: pl.DataFrame, carried: list[list[Any]]) -> None:
    at = pl.col("place")
    typed = rows.select(
        "key",
        pl.lit(dt.datetime(2026, 1, 1)).dt.cast_time_unit("ns").dt.offset_by(pl.format("{}ns", "time")).alias("time"),
        pl.lit(dt.date(2026, 1, 1)).dt.offset_by(pl.format("{}d", "place")).alias("date"),
        (at / 7).cast(pl.Decimal(20, 3)).alias("exact"),
        pl.concat_list(at, at + 1).alias("list"),
        pl.struct(at, "word").alias("struct"),
        pl.col("word").cast(pl.Categorical).alias("category"),
        at.cast(pl.Float32).alias("float"),
        at.cast(pl.UInt8, wrap_numerical=True).alias("byte"),
        at.cast(pl.Int64).alias("number"),
    )
    names = typed.columns[2:]
    holes = typed.with_columns(pl.when(rows["count"].is_not_null()).then(name).alias(name) for name in names)
    for method in ("forward", "backward", "nearest"):
        keys = {"by": "key", "order": "time", "columns": names, "method": method, "indicator": True}
        stage = Interpolate.model_validate(keys)
        assert_frame_equal(given_by(stage, session, holes), run_stage(stage, {"rows": holes})[""])
    assert len(carried) == 3


def test_equal_values_of_two_types__stay_of_their_own() -> None:
    numbers = pl.LazyFrame({"float": [None, 1.0], "number": [None, 1]})
    placed = placed_in(numbers, ()).with_columns(expr for name in ("float", "number") for expr in around(name))
    for number in range(-40, 40):  # Polars takes -4.0 and -4 for the same
        values = {"float": pl.Series([float(number)]), "number": pl.Series([number])}
        carry = known.Carry({name: known.Known(-1, pl.DataFrame({name: one, known.PLACE: 0})) for name, one in values.items()})
        found = placed.with_columns(known.put_in(carry, {name: name for name in values})).collect(engine="in-memory")
        assert found.schema == placed.collect_schema()
        assert found.select(seen("float", "before"), seen("number", "before")).rows() == [(number, number), (1, 1)]


GAPLESS: dict[str, Any] = {"time": "time", "every": "1", "compute": COMPUTED, "gaps": RULES}


@pytest.mark.parametrize(
    "stage",
    [
        Interpolate.model_validate({"order": "time", "columns": {"value": "linear", "word": "forward"}}),
        Resample.model_validate(GAPLESS),
        Resample.model_validate({**GAPLESS, "by": "key"}),
    ],
)
def test_no_rows_of_many__are_none(session: Session, rows: pl.DataFrame, stage: Stage) -> None:
    assert_frame_equal(given_by(stage, session, rows.clear()), run_stage(stage, {"rows": rows.clear()})[""])


def test_small_groups__stay_whole_in_a_part(
    session: Session, rows: pl.DataFrame, carried: list[list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "LEAST_BYTES", 5_000)  # as little as a task may hold
    few = rows.with_columns(pl.col("place") // 4, pl.col("time") % 4)
    stage = Interpolate.model_validate({"by": "place", "order": "time", "columns": "value", "method": "forward"})
    found, order = given_by(stage, session, few), few.columns
    assert_frame_equal(found.sort(order), run_stage(stage, {"rows": few})[""].sort(order))
    resampled = Resample.model_validate({**GAPLESS, "by": "place"})
    order = ["place", "time"]
    assert_frame_equal(given_by(resampled, session, few).sort(order), run_stage(resampled, {"rows": few})[""].sort(order))
    assert not carried


def test_few_rows_far_apart__are_filled_by_stretches(session: Session, rows: pl.DataFrame, carried: list[list[Any]]) -> None:
    far = rows.with_columns(time=pl.when(pl.col("place") == 5).then(3_000).otherwise(pl.col("place") % 3), key=pl.col("place") % 2)
    stage = Resample.model_validate({**GAPLESS, "by": "key"})
    (table,) = stage.run({"rows": in_parts(session, far)}, Context("tested", 1, session)).tables.values()
    assert_frame_equal(table.gather().futures()[0].frame, run_stage(stage, {"rows": far})[""])
    assert [len(edges) for edges in carried] == [1]
    assert len(table.blocks) > PARTS


def test_too_many_steps_of_a_part__are_refused_before_they_are_made(session: Session, rows: pl.DataFrame) -> None:
    far = rows.with_columns(time=pl.when(pl.col("place") == 5).then(pl.col("time") + 10**9).otherwise("time"))
    stage = Resample.model_validate({**GAPLESS, "by": "key"})
    with pytest.raises(DataError, match=r"stage tested\.every: in a part of the rows alone there would be 1,0.* steps. Take a longer one"):
        given_by(stage, session, far)


@pytest.mark.parametrize("zone", ["Pacific/Apia", "America/Sao_Paulo", "Europe/Berlin"])
def test_days_of_a_zone__are_those_of_keys_that_are_whole(
    session: Session, rows: pl.DataFrame, zone: str, carried: list[list[Any]]
) -> None:
    start = pl.datetime(2009, 1, 1, time_zone="UTC")
    time = (start + pl.duration(hours=pl.col("time") * 5)).dt.convert_time_zone(zone)  # some days have no rows
    zoned = rows.filter(pl.col("key").fill_null(3) < 20).gather_every(2).with_columns(time=time)
    for by in ([], ["key"]):
        stage = Resample.model_validate({**GAPLESS, "every": "1d", "by": by})
        assert_frame_equal(given_by(stage, session, zoned), run_stage(stage, {"rows": zoned})[""])
    assert len(carried) == 2
