"""Tables beyond memory: the same rows as DuckDB's and Polars' own, whatever is on disk meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import combinations_with_replacement, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, RunError
from pipeline.formats.csv import CsvInput
from pipeline.formats.jsonl import JsonlInput
from pipeline.stage import Context, Outcome, Stage
from pipeline.stages.models import _training_rows
from pipeline.stages.models._trees import training
from pipeline.stages.models.xgboost import Xgboost
from pipeline.stages.relational._window.following import Following
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.stages.relational.derive import Derive
from pipeline.stages.relational.drop_duplicates import DropDuplicates
from pipeline.stages.relational.explode import Explode
from pipeline.stages.relational.filter import Filter
from pipeline.stages.relational.join import Join
from pipeline.stages.relational.sort import Sort
from pipeline.stages.relational.unpivot import Unpivot
from pipeline.stages.relational.window import Window
from pipeline.tables import budget, foreseen, ordering
from pipeline.tables.budget import Budget, Size, row_bytes
from pipeline.tables.exchange import buckets_of
from pipeline.tables.foreseen import with_texts
from pipeline.tables.laid import Stack, cut, joined, lay
from pipeline.tables.names import Order
from pipeline.tables.on_disk import settled
from pipeline.tables.ordering import in_order
from pipeline.tables.part import Part, Schema, added_counts
from pipeline.tables.session import Session
from pipeline.tables.stretches import divided
from pipeline.tables.table import Table
from tests.harness import in_process

PARTS = 7


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """One whose tables may have as good as no memory."""
    monkeypatch.setattr(budget, "LEAST_BYTES", 5_000)
    monkeypatch.setattr(budget, "LIBRARY_BYTES", 0)
    found = Session()
    found.budget = Budget(1_000, 2, str(tmp_path))
    return found


def rows(count: int, seed: int) -> pl.DataFrame:
    """Keys of few and of very many rows, and missing ones; texts, and numbers with gaps."""
    random = np.random.default_rng(seed)
    key = np.where(random.random(count) < 0.4, 3, random.integers(0, count // 3, count))
    text = pl.Series([f"word {number % 11}" * (1 + number % 3) for number in random.integers(0, 99, count)])
    frame = pl.DataFrame({"key": key, "text": text, "value": random.integers(-50, 50, count), "day": np.arange(count)})
    return frame.with_columns(pl.when(pl.col("key") % 13 != 5).then("key"), pl.when(pl.col("value") % 7 != 0).then("value"))


def table(session: Session, frame: pl.DataFrame) -> Table:
    """The frame in parts, one of which is empty."""
    edges = [0, *sorted(np.random.default_rng(1).integers(0, frame.height + 1, PARTS - 2).tolist()), frame.height, frame.height]
    parts = [Part(frame[low:high]) for low, high in pairwise(edges)]
    schema = Schema(frame.schema)
    return Table.of(session, "given", parts, schema=schema, size=Size(frame.height, row_bytes(schema)))


def given_by(stage: Any, session: Session, **tables: Table) -> pl.DataFrame:
    found = stage.run(tables, Context("named", 1, session)).tables[""]
    rows: pl.DataFrame = pl.concat([part.frame for part in found.futures()])
    assert isinstance(stage, Sort) or (session.budget and [*Path(session.budget.folder).iterdir()])
    return rows


def alike(found: pl.DataFrame, wanted: pl.DataFrame) -> None:
    assert_frame_equal(found.select(wanted.columns), wanted, check_row_order=False, check_dtypes=False)


@pytest.mark.parametrize(
    "laid",
    [
        lambda table: table.hold(),
        lambda table: in_order(table, Order(["day"])),
        lambda table: table.shuffled(["key"], 5),
        lambda table: divided(table, 20),
    ],
    ids=["held", "in order", "by a hash", "in stretches"],
)
def test_infinities__of_every_part_count_and_of_each_once(session: Session, laid: Callable[[Table], Table]) -> None:
    frame = rows(3_000, 8).with_columns(big=pl.when(pl.col("day") % 9 == 0).then(1e308).otherwise(1.0))
    made = laid(table(session, frame))
    assert len(made.blocks) > 4
    found = Derive(columns={"z": "big * 10"}).run({"rows": made}, Context("named", 1, session)).tables[""]
    counts = [part.counts for part in (*found.futures(), *found.futures())]  # as where two stages read it
    assert sum(value for name, value in added_counts(counts).items() if "infinities" in name) == frame["big"].is_in([1e308]).sum()


def test_aggregate__is_duckdbs(session: Session) -> None:
    ours = rows(3_000, 1)
    compute = {"n": "size()", "total": "sum(value)", "least": "min(text)", "apart": "n_unique(text)", "middle": "median(value)"}
    found = given_by(Aggregate.model_validate({"by": "key", "compute": compute}), session, rows=table(session, ours))
    asked = "key, count(*) n, coalesce(sum(value), 0) total, min(text) least, count(distinct text) apart, median(value) middle"
    wanted = duckdb.sql(f"select {asked} from ours group by key").pl()
    alike(found, wanted.with_columns(pl.col("total").cast(pl.Int64)))


def test_aggregate__of_keys_that_hardly_repeat_is_duckdbs(session: Session) -> None:
    ours = rows(3_000, 13).with_columns(key=pl.col("day") // 2 * 7919 % 10_007)
    compute = {"n": "size()", "total": "sum(value)", "apart": "n_unique(text)"}
    found = given_by(
        Aggregate.model_validate({"by": "key", "compute": compute}), session, rows=table(session, ours[::2].vstack(ours[1::2]))
    )
    wanted = duckdb.sql("select key, count(*) n, coalesce(sum(value), 0) total, count(distinct text) apart from ours group by key").pl()
    alike(found, wanted.with_columns(pl.col("total").cast(pl.Int64)))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_join__is_duckdbs(session: Session, how: str) -> None:
    ours, theirs = rows(2_000, 2), rows(300, 3).rename({"text": "word", "value": "price", "day": "place"})
    found = given_by(Join.model_validate({"on": "key", "how": how}), session, left=table(session, ours), right=table(session, theirs))
    columns = "*" if how in {"semi", "anti"} else "coalesce(l.key, r.key) as key, text, value, day, word, price, place"
    wanted = duckdb.sql(f"select {columns} from ours l {how} join theirs r on l.key = r.key").pl()
    alike(found, wanted)


def test_drop_duplicates__is_duckdbs(session: Session) -> None:
    ours = rows(3_000, 4)
    found = given_by(DropDuplicates.model_validate({"columns": ["key"], "order_by": ["-day"]}), session, rows=table(session, ours))
    alike(found, duckdb.sql("select * from ours qualify row_number() over (partition by key order by day desc) = 1").pl())


def test_window__is_duckdbs(session: Session) -> None:
    ours = rows(3_000, 5)
    compute = {"before": "lag(value)", "so_far": "cum_count(value)"}
    found = given_by(Window.model_validate({"by": "key", "order": "day", "compute": compute}), session, rows=table(session, ours))
    over = "over (partition by key order by day)"
    alike(found, duckdb.sql(f"select *, lag(value) {over} as before, count(value) {over} as so_far from ours").pl())


FOLLOWED = {
    "before": ("lag(value)", "lag(value) {over}"),
    "later": ("lead(text, 300)", "lead(text, 300) {over}"),
    "moved": ("difference(value, 2)", "value - lag(value, 2) {over}"),
    "number": ("row_number()", "row_number() {over}"),
    "so_far": ("cum_count(value)", "count(value) {over}"),
    "total": ("cum_sum(value)", "(sum(value) {over})::bigint"),
    "exact": ("cum_sum(cast(value as decimal(30, 2)))", "(sum(value::decimal(30, 2)) {over})"),
    "mean": ("cum_mean(value)", "avg(value) {over}"),
    "of_all": ("size()", "count(*) over ({partition})"),
    "tenth": ("ntile(10)", "ntile(10) {over}"),
    "share": ("percent_rank()", "percent_rank() {over}"),
}


@pytest.mark.parametrize("by", [["key"], [], ["text"]])
@pytest.mark.parametrize("seed", [11, 12])
def test_window__over_groups_that_no_task_holds_goes_on_from_part_to_part(session: Session, by: list[str], seed: int) -> None:
    ours = rows(3_000, seed)
    compute = {name: function for name, (function, _) in FOLLOWED.items()}
    stage = Window.model_validate({"by": by, "order": "-day", "compute": compute})
    assert Following(stage.by, Order(["-day"]), "columns", stage.compute, ours.schema).applies(table(session, ours))
    found = given_by(stage, session, rows=table(session, ours))
    partition = f"partition by {', '.join(by)} " if by else ""
    over = f"over ({partition}order by day desc rows unbounded preceding)"
    shown = [f"{sql.format(over=over, partition=partition)} as {name}" for name, (_, sql) in FOLLOWED.items()]
    alike(found, duckdb.sql(f"select *, {', '.join(shown)} from ours").pl())


@pytest.mark.parametrize("by", [["key"], ["day"], []])
def test_window__has_what_it_reads_made_once(session: Session, by: list[str]) -> None:
    """Whether it goes on from part to part, or no key has so many rows."""
    seen, ours = list[int](), rows(3_000, 15)

    def made(part: Part) -> Part:
        seen.append(part.rows)
        return part

    given = table(session, ours)
    read = replace(given.map_parts(made), schema=given.schema)
    stage = Window.model_validate({"by": by, "order": "value", "compute": {"place": "rank()"}})
    given_by(stage, session, rows=read)
    assert sum(seen) == 3_000


@pytest.mark.parametrize("by", ["key", []])
def test_window__ranks_rows_that_tie_across_parts_alike(session: Session, by: Any) -> None:
    ours = rows(3_000, 13).with_columns(value=pl.when(pl.col("day") % 3 == 0).then(7).otherwise("value"))
    stage = Window.model_validate({"by": by, "order": "value", "compute": {"place": "rank()"}})
    found = given_by(stage, session, rows=table(session, ours))
    over = f"over ({'partition by key ' if by else ''}order by value nulls last)"
    alike(found, duckdb.sql(f"select *, rank() {over} as place from ours").pl())
    with pytest.raises(DataError, match="rows of a group tie in 'value'"):
        given_by(stage.model_copy(update={"ties": "refuse"}), session, rows=table(session, ours))


@pytest.mark.parametrize("dtype", [pl.Datetime("ns"), pl.Duration("ns"), pl.Time, pl.Decimal(30, 9), pl.Categorical, pl.Binary, pl.Int128])
def test_window__tells_groups_apart_by_values_that_python_has_not(session: Session, dtype: pl.DataType) -> None:
    """Keys that are a billionth apart, each in several parts, beside the same in memory."""
    number = pl.Series("key", [1_000_000_000 + row // 700 for row in range(2_800)])
    ours = pl.DataFrame({"key": _as(number, dtype), "day": range(2_800), "value": [row % 5 for row in range(2_800)]})
    compute = {"number": "row_number()", "of_all": "size()", "total": "cum_sum(value)"}
    stage = Window.model_validate({"by": "key", "order": "day", "compute": compute})
    assert Following(stage.by, Order(["day"]), "columns", stage.compute, ours.schema).applies(table(session, ours))
    found = given_by(stage, session, rows=table(session, ours))
    whole = stage.run({"rows": table(Session(), ours)}, Context("named", 1, Session())).tables[""].futures()
    assert_frame_equal(found.sort("day"), pl.concat([part.frame for part in whole]).sort("day"))
    assert found["of_all"].unique().to_list() == [700]


def _as(number: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Whole numbers as values that differ in their last place."""
    if isinstance(dtype, pl.Decimal):
        return pl.Series([Decimal(value).scaleb(-9) for value in number], dtype=dtype)
    if dtype in (pl.Categorical, pl.Binary):
        return number.cast(pl.String).cast(dtype)
    return number.cast(dtype)


def test_window__refuses_the_one_tie_that_lies_between_two_parts(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({"key": [1] * 4_000, "day": [number - (number == 2_000) for number in range(4_000)]})
    stage = Window.model_validate({"by": [], "order": "day", "ties": "refuse", "compute": {"before": "lag(key)"}})
    parts = [Part(frame[:2_000]), Part(frame[2_000:])]
    schema = Schema(frame.schema)
    given = Table.of(session, "given", parts, schema=schema, size=Size(frame.height, row_bytes(schema)))
    monkeypatch.setattr("pipeline.stages.relational._ordered.in_parts.in_order", lambda rows, _: rows)
    with pytest.raises(DataError, match="rows of a group tie in 'day'"):
        given_by(stage, session, rows=given)


def test_window__counts_infinities_once_where_rows_are_looked_at_from_two_parts(session: Session) -> None:
    frame = pl.DataFrame({"key": [1] * 3_000, "day": range(3_000), "value": [1e308 * (-1) ** number for number in range(3_000)]})
    stage = Window.model_validate({"by": [], "order": "day", "compute": {"moved": "difference(value)", "twice": "lag(value * 10, 500)"}})
    found = stage.run({"rows": table(session, frame)}, Context("named", 1, session)).tables[""]
    parts = list(found.futures())
    assert sum(part.frame["moved"].null_count() for part in parts) == 3_000
    assert sum(added_counts([part.counts for part in parts]).values()) == 2_999 + 3_000


@pytest.mark.parametrize("are_numbers", [True, False])
@pytest.mark.parametrize("by", [["key"], ["-key"], ["text", "-value"], ["-value", "key"], ["-real", "text"], ["at", "-on", "key"]])
def test_sort__is_that_of_the_whole_and_ties_keep_their_order(
    session: Session, monkeypatch: pytest.MonkeyPatch, by: list[str], are_numbers: bool
) -> None:
    if not are_numbers:
        monkeypatch.setattr(ordering, "all_digits", lambda _: None)
        monkeypatch.setattr(budget, "LIBRARY_BYTES", int(by == ["key"]))
    at, real = pl.col("value").cast(pl.Datetime("ns")), (pl.col("value") / 7).replace(0.0, -0.0)
    frame = rows(5_000, 6).with_columns(real=real, at=at, on=pl.col("value") > 3)
    given = table(session, frame)
    found = in_order(given, Order(by)).futures()
    assert len(found) > 3
    assert_frame_equal(pl.concat([part.frame for part in found]), Order(by).sort(frame.lazy()).collect())
    assert max(part.rows for part in found) <= max(part.rows for part in given.futures())  # also of the key that two in five have


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@pytest.mark.parametrize("parts", [2, 40])
def test_sort__of_a_text_reads_it_once_and_divides_what_is_in_order_already_as_evenly(
    session: Session, parts: int, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pl.DataFrame({"s": [f"key {number:06d}" for number in range(4_000)], "x": [0.5, None] * 2_000})
    path = tmp_path / f"rows{suffix}"
    (frame.write_csv if suffix == ".csv" else frame.write_ndjson)(path)
    kind = CsvInput if suffix == ".csv" else JsonlInput
    monkeypatch.setattr(ordering, "SAMPLED", 2)
    sources, read = kind.model_validate({"path": str(path), "parts": parts}).sources(2), list[int]()
    given = Table.of(session, "given", sources, schema=Schema(frame.schema), size=Size(frame.height, row_bytes(Schema(frame.schema))))
    monkeypatch.setattr(type(sources[0]), "load", _loading(type(sources[0]).load, read))
    found = in_order(given, Order(["-s"])).futures()
    assert_frame_equal(pl.concat([part.frame for part in found]), frame.reverse())
    assert max(part.rows for part in found) < 3 * frame.height / given.buckets()
    assert sum(read) == (frame.height if parts == 2 else pytest.approx(frame.height * (1 + 1 / 16), rel=0.02))


def _loading(load: Any, read: list[int]) -> Any:
    def loaded(self: Any) -> Any:
        """What it loads, whose rows are written down."""
        rows = load(self).collect()
        read.append(rows.height)
        return rows.lazy()

    return loaded


def test_sort__of_one_key_alone_and_of_no_rows(session: Session) -> None:
    alone = rows(2_000, 7).with_columns(key=pl.lit(1))
    found = in_order(table(session, alone), Order(["key"])).futures()
    assert_frame_equal(pl.concat([part.frame for part in found]), alone)
    assert len(found) > 3
    none = replace_size(table(session, alone.clear()), 5_000)
    assert in_order(none, Order(["key"])).futures()[0].frame.equals(alone.clear())


def replace_size(given: Table, count: int) -> Table:
    """The same, thought to be larger."""
    return replace(given, size=Size(count, 30))


def test_sort_stage__with_a_limit_gives_the_first_rows(session: Session) -> None:
    frame = rows(3_000, 8)
    found = given_by(Sort.model_validate({"by": ["-value", "day"], "limit": 9}), session, rows=table(session, frame))
    assert_frame_equal(found, frame.sort(["value", "day"], descending=[True, False], nulls_last=True).head(9))


def test_exchange__of_what_is_small_after_all_is_one_part(session: Session) -> None:
    few = rows(30, 9)
    given = replace_size(table(session, few), 10_000)
    assert session.budget is not None
    session.budget = Budget(100_000, 2, session.budget.folder)
    found = settled(given, ["key"])
    assert len(found.blocks) == 1
    assert_frame_equal(found.futures()[0].frame, few, check_row_order=False)


@pytest.mark.parametrize(("pieces", "parts"), [(1, 1), (2, 2), (3, 3), (5, 6), (7, 12)])
def test_exchange__of_less_than_was_thought_has_as_many_parts_as_it_is_worth(
    session: Session, monkeypatch: pytest.MonkeyPatch, pieces: int, parts: int
) -> None:
    frame = rows(900, 9)
    given = replace_size(table(session, frame), 10_000)
    assert session.budget is not None
    session.budget = Budget(100_000, 2, session.budget.folder)
    monkeypatch.setattr(Table, "buckets", lambda _: 11)
    monkeypatch.setattr(Budget, "pieces", lambda _, size: pieces if size.rows == frame.height else 12)
    found = settled(given, ["key"])
    each = [part.frame for part in found.futures()]
    assert len(each) == parts
    assert_frame_equal(pl.concat(each), frame, check_row_order=False)
    for number, part in enumerate(each):  # who exchanges by as many parts finds the rows where they belong
        assert set(buckets_of(part, ["key"], parts)) <= {number}


def test_hold__lays_parts_on_disk_and_reads_the_columns_that_are_asked_for(session: Session, tmp_path: Path) -> None:
    frame = rows(3_000, 10)
    held = table(session, frame).map(_doubled).hold()
    assert {block.kind for block in held.blocks} == {"scan"}
    assert len([*tmp_path.iterdir()]) == len(held.blocks)
    again = held.map(_doubled).hold()
    assert again.hold().blocks == again.blocks  # what lies there is not laid down again
    assert_frame_equal(pl.concat([part.frame for part in again.futures()]), frame.with_columns(pl.col("value") * 4))


def _doubled(lazy: pl.LazyFrame) -> pl.LazyFrame:
    return lazy.with_columns(pl.col("value") * 2)


@pytest.mark.parametrize("memory", ["whole", "external"])
def test_trees__learn_the_same_to_the_byte_from_features_that_stay_on_disk(
    session: Session, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_training_rows, "BATCH_ROWS", 200)  # batches begin and end within parts
    wanted = learned(Session(), memory=memory)
    monkeypatch.setattr(training, "_train", None)
    found = learned(session, memory=memory)
    for name, table_of in wanted.tables.items():
        assert_frame_equal(pl.concat([part.frame for part in found.tables[name].futures()]), table_of.futures()[0].frame)
    assert found.files == wanted.files
    assert found.metrics == wanted.metrics
    assert found.counts == wanted.counts


def learned(session: Session, sown: Mapping[str, pl.Expr] | None = None, **more: Any) -> Outcome:
    """Trees of rows with a category, weights and splits, in no order; columns may be sown with something else."""
    number, splits = pl.col("day"), np.array(["train"] * 6 + ["validation", "test", "test", None])
    ours = rows(1_500, 14).with_columns(
        label=(pl.col("value").fill_null(0) + number % 7 > 3).cast(pl.Int64),
        split=pl.Series(splits[np.arange(1_500) % 10]).cast(pl.String),
        kind=(number % 3).cast(pl.Int32),
        weight=1.0 + number % 2,
    )
    asked = {"key": "day", "target": "label", "objective": "binary", "rounds": 6, "early_stopping_rounds": 2, "weight": "weight"}
    features = {"features": ["key", "value", "kind"], "categorical": ["kind"]}
    given = table(session, ours.with_columns(**(sown or {})).sample(fraction=1, shuffle=True, seed=1))
    return Xgboost.model_validate({**asked, **features, **more}).run({"rows": given}, Context("named", 1, session))


@pytest.mark.parametrize(
    ("sown", "said"),
    [
        ({"value": pl.when(pl.col("day") == 700).then(float("inf")).otherwise("value")}, "'value' has infinite values"),
        ({"day": pl.when(pl.col("day") == 700).then(701).otherwise("day")}, "the key 'day' has the value 701 twice"),
        ({"day": pl.when(pl.col("day") > 701).then("day")}, "the key 'day' has the value None twice"),
        ({"label": pl.lit(1)}, "'label' is 1 in every training row"),
        ({"weight": pl.when(pl.col("day") == 700).then(-1.0).otherwise("weight")}, "the weight 'weight' of the row with day 700 is -1.0"),
        ({"weight": pl.lit(0.0)}, "every train row weighs 0 by 'weight'"),
    ],
)  # fmt: skip
def test_trees__of_wrong_rows_are_refused_from_disk_as_from_memory(session: Session, sown: dict[str, pl.Expr], said: str) -> None:
    for each in (session, Session()):
        with pytest.raises(DataError, match=said):
            learned(each, sown)


def test_trees__take_a_row_without_a_key(session: Session) -> None:
    sown = {"day": pl.when(pl.col("day") != 700).then("day")}
    found, wanted = (learned(each, sown).tables[""].futures() for each in (session, Session()))
    assert_frame_equal(pl.concat([part.frame for part in found]).sort("day"), wanted[0].frame)


def test_stack__has_any_rows_of_the_parts(tmp_path: Path) -> None:
    frame = rows(20, 3)
    edges = [0, 0, 3, 3, 7, 14, 14, 20, 20]
    laid = [lay(Part(frame[low:high]), str(tmp_path)) for low, high in pairwise(edges)]
    stack = Stack(laid)
    for low, high in combinations_with_replacement(range(22), 2):
        assert_frame_equal(stack[low:high], frame[low:high])
    assert_frame_equal(Stack(laid, ["text", "key"])[2:15], frame.select("text", "key")[2:15])
    assert stack.rows == 20


def test_cluster__works_piece_by_piece_as_one_process_at_once(session: Session) -> None:
    ours, theirs = rows(600, 15), rows(150, 16).rename({"text": "word", "value": "price", "day": "place"})
    with in_process(1) as cluster:
        cluster.budget = session.budget
        left, right = (table(cluster, frame).hold() for frame in (ours, theirs))
        joined = (
            Join.model_validate({"on": "key", "how": "left"}).run({"left": left, "right": right}, Context("named", 1, cluster)).tables[""]
        )
        written = in_order(joined, Order(["day", "place"]))
        found = pl.concat([part.frame for _, part in sorted(cluster.values(written.futures()), key=itemgetter(0))])
        assert len(written.blocks) > 3
        assert sum(cluster.value(measured).rows for name, measured in cluster.accounts if name is None) > 0
    wanted = duckdb.sql("select ours.*, word, price, place from ours left join theirs on ours.key = theirs.key").pl()
    alike(found, wanted)
    assert found["day"].is_sorted()


def test_pieces__that_are_not_what_was_written_stop_the_run(tmp_path: Path) -> None:
    frame = rows(100, 11)
    found = cut(Part(frame), pl.Series([number % 3 for number in range(100)]), 3, str(tmp_path))
    other = cut(Part(frame[:60]), pl.Series([number % 3 for number in range(60)]), 3, str(tmp_path))
    Path(found.path).write_bytes(Path(other.path).read_bytes())
    torn = replace(found, ends=other.ends)
    with pytest.raises(RunError, match="wrote 34 rows, and 20 were read"):
        torn.piece(0)


def test_disk__that_is_full_is_said_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_ipc", full)
    with pytest.raises(RunError, match=r"is full .* DASK_TEMPORARY_DIRECTORY"):
        lay(Part(rows(10, 12)), str(tmp_path))


def test_budget__has_more_pieces_the_less_memory_there_is() -> None:
    size = Size(100_000_000, 20)
    pieces = [Budget(memory << 30, 2, "").pieces(size) for memory in (1, 4, 16)]
    assert pieces == sorted(pieces, reverse=True)
    assert pieces[0] == pytest.approx(4 * pieces[1], abs=4)
    assert Budget(16 << 30, 2, "").holds(size)
    assert not Budget(4 << 30, 2, "").holds(size)


@pytest.fixture
def roomy(session: Session) -> Session:
    """One that has memory for the tables given to it, and not for much more."""
    assert session.budget
    session.budget = replace(session.budget, bytes=1_000_000)
    return session


MOST: dict[str, dict[str, int | None]] = {
    # by whose keys are known to name a row: the most rows, of 900 and 40
    "inner": {"left": 40, "right": 900, "both": 40, "neither": None},
    "left": {"left": 940, "right": 900, "both": 900, "neither": None},
    "right": {"left": 40, "right": 940, "both": 40, "neither": None},
    "full": {"left": 940, "right": 940, "both": 940, "neither": None},
    "semi": dict.fromkeys(("left", "right", "both", "neither"), 900),
    "anti": dict.fromkeys(("left", "right", "both", "neither"), 900),
}


@pytest.mark.parametrize("how", MOST)
def test_join__has_no_more_rows_than_a_table_whose_rows_have_one_partner(roomy: Session, how: str) -> None:
    left, right = pl.DataFrame({"key": np.arange(900), "day": 1}), pl.DataFrame({"name": np.arange(40), "night": 2})
    for whose, most in MOST[how].items():
        given = {
            "left": replace(table(roomy, left), unique=("key",) if whose in {"left", "both"} else ()),
            "right": replace(table(roomy, right), unique=("name",) if whose in {"right", "both"} else ()),
        }
        found = Join.model_validate({"on": {"key": "name"}, "how": how}).run(given, Context("named", 1, roomy)).tables[""]
        rows = sum(part.rows for part in found.futures())
        assert rows <= (most or 10_000)
        assert most is None or (found.size and found.size.rows == most), (how, whose)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_join__that_multiplies_rows_beyond_memory_goes_there_by_itself(roomy: Session, how: str) -> None:
    ours = pl.DataFrame({"key": np.arange(1_200) % 40, "day": np.arange(1_200), "text": "word"})
    theirs = pl.DataFrame({"key": np.arange(1_200) % 40 + 1, "night": np.arange(1_200), "word": "text"})
    given = {"left": table(roomy, ours), "right": table(roomy, theirs)}
    found = Join.model_validate({"on": "key", "how": how}).run(given, Context("named", 1, roomy)).tables[""]
    wanted = duckdb.sql(f"select * from ours {how} join theirs using (key)").pl()
    parts = found.futures()
    alike(pl.concat([part.frame for part in parts]), wanted)
    assert max(part.rows for part in parts) < wanted.height / 4
    assert found.is_beyond
    assert roomy.budget
    assert roomy.budget.on_disk["named"]
    bytes_of_row = row_bytes(Schema(ours.schema)) + row_bytes(Schema(theirs.schema))
    assert roomy.budget.foreseen["named"] == 39 * 30 * 30 * bytes_of_row  # all pairs: so few rows are all looked at


def test_join__that_multiplies_nothing_stays_in_memory(roomy: Session) -> None:
    ours = rows(1_200, 1)
    given = {"left": table(roomy, ours), "right": table(roomy, ours.select("day", other="value"))}
    found = Join.model_validate({"on": "day"}).run(given, Context("named", 1, roomy)).tables[""]
    assert len(found.blocks) == 1
    assert roomy.budget
    assert not roomy.budget.on_disk
    assert not roomy.budget.foreseen


@pytest.mark.parametrize(
    ("where", "known", "beyond"), [("day < 300", 300, False), ("day >= 300", 12_000, True), ("day % 1500 >= 250", 10_000, True)]
)
def test_join__of_what_a_filter_leaves_is_in_memory_where_it_leaves_few(roomy: Session, where: str, known: int, beyond: bool) -> None:
    """All rows are counted where some parts make few of them likely; of the last, none are in the parts that are looked at first."""
    ours = pl.DataFrame({"key": np.arange(12_000) // 1_000, "day": np.arange(12_000), "text": "word", "more": "words"})
    theirs = pl.DataFrame({"day": np.arange(0, 12_000, 3), "other": np.arange(4_000)})
    pieces = [ours[low : low + 250] for low in range(0, 12_000, 250)]
    schema = Schema(ours.schema)
    left = Table.of(roomy, "given", [Part(piece) for piece in pieces], schema=schema, size=Size(12_000, row_bytes(schema)))
    assert left.is_beyond
    (kept,) = Filter.model_validate({"where": where}).run({"rows": left}, Context("kept", 1, roomy)).tables.values()
    given = {"left": replace(kept, schema=schema), "right": table(roomy, theirs)}
    found = Join.model_validate({"on": "day"}).run(given, Context("named", 1, roomy)).tables[""]
    wanted = duckdb.sql(f"select o.*, t.other from ours o join theirs t using (day) where {where}").pl()
    alike(pl.concat([part.frame for part in found.futures()]), wanted)
    assert found.size is not None
    assert (found.is_beyond, found.size.rows) == (beyond, known)


def test_unique_keys__are_those_of_an_aggregate_until_rows_multiply_or_keys_change(roomy: Session) -> None:
    def after(rows: Table, *stages: Stage) -> Table:
        """What comes of the rows, stage by stage."""
        for stage in stages:
            rows = replace(stage.run({"rows": rows}, Context("stage", 1, roomy)).tables[""], schema=rows.known_schema())
        return rows

    added = Aggregate.model_validate({"by": ["key", "text"], "compute": {"total": "sum(value)", "days": "list(day)"}})
    found = after(table(roomy, rows(400, 1)), added)
    found = replace(found, schema=found.known_schema())
    assert found.unique == ("key", "text")
    kept = Filter.model_validate({"where": "total > 0"}), Derive.model_validate({"columns": {"half": "total / 2"}})
    assert after(found, *kept).unique == ("key", "text")
    assert not after(found, Derive.model_validate({"columns": {"text": "'all'"}})).unique
    assert not after(found, Explode.model_validate({"columns": ["days"]})).unique
    assert not found.concat(found).unique


def test_join__by_unique_keys_waits_for_no_sample(roomy: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = (table(roomy, pl.DataFrame({"key": np.arange(1_200), name: np.arange(1_200)})) for name in ("a", "b"))
    looked, counted = list[Table](), foreseen._counted

    def watched(one: Table, *more: Any) -> pl.DataFrame:
        looked.append(one)
        return counted(one, *more)

    monkeypatch.setattr(foreseen, "_counted", watched)
    for unique, looks in ((("key",), 0), ((), 2)):
        given = {"left": ours, "right": replace(theirs, unique=unique)}
        Join.model_validate({"on": "key"}).run(given, Context("named", 1, roomy))
        assert len(looked) == looks


def test_lists__become_as_many_rows_as_they_have_values(roomy: Session) -> None:
    days = pl.DataFrame({"id": range(7_000), "days": [list(range(number % 5)) for number in range(7_000)]})
    found = Explode.model_validate({"columns": ["days"]}).run({"rows": table(roomy, days)}, Context("named", 1, roomy)).tables[""]
    assert found.size is not None
    assert found.size.rows == pytest.approx(days.explode("days", empty_as_null=True).height, rel=0.01)


def whole(session: Session, frame: pl.DataFrame) -> Table:
    """The frame in one part."""
    schema = Schema(frame.schema)
    return Table.of(session, "given", [Part(frame)], schema=schema, size=Size(frame.height, row_bytes(schema)))


def laid_out(session: Session, stage: Stage, **tables: Table) -> tuple[pl.DataFrame, list[int]]:
    """The rows of a stage's table, which is beyond memory, and how many each of its parts has."""
    found = stage.run(tables, Context("named", 1, session)).tables[""]
    assert found.is_beyond
    parts = [part.frame for part in found.futures()]
    return pl.concat(parts), [part.height for part in parts]


LISTS = pl.DataFrame({"id": range(6_000), "days": [list(range(number % 90)) for number in range(6_000)]})
WIDE = pl.DataFrame({"id": range(2_000), **{f"of {name}": np.arange(2_000.0) * name for name in range(40)}})


@pytest.mark.parametrize("is_cheap", [True, False])
def test_lists_of_one_part__become_rows_piece_by_piece_where_memory_does_not_hold_them(roomy: Session, is_cheap: bool) -> None:
    given = whole(roomy, LISTS)
    given = given if is_cheap else replace(given.map_parts(_itself), schema=given.schema, size=given.size)
    assert given.cheap == is_cheap
    rows, heights = laid_out(roomy, Explode.model_validate({"columns": ["days"]}), rows=given)
    assert_frame_equal(rows, LISTS.explode("days", empty_as_null=True))
    assert max(heights) * 16 <= 1_000_000 // 16


def test_columns_of_one_part__become_rows_piece_by_piece_where_memory_does_not_hold_them(roomy: Session) -> None:
    names = WIDE.columns[1:]
    stage = Unpivot.model_validate({"on": names, "variable_name": "what", "value_name": "value"})
    assert stage.most_rows({"rows": WIDE.height}, {}) == WIDE.height * len(names)
    rows, heights = laid_out(roomy, stage, rows=whole(roomy, WIDE))
    wanted = WIDE.unpivot(on=names, index="id", variable_name="what").sort("id", maintain_order=True)
    assert_frame_equal(rows, wanted)
    assert max(heights) * 40 <= 1_000_000 // 16


def test_join__of_two_small_parts_of_which_many_rows_come_goes_beyond_memory(roomy: Session) -> None:
    ours, theirs = (pl.DataFrame({"key": np.arange(900) % 6, name: np.arange(900)}) for name in ("a", "b"))
    rows, heights = laid_out(roomy, Join.model_validate({"on": "key"}), left=whole(roomy, ours), right=whole(roomy, theirs))
    assert_frame_equal(rows.sort("a", "b"), ours.join(theirs, on="key").sort("a", "b"), check_row_order=False)
    assert len(heights) > 6
    assert roomy.budget
    assert roomy.budget.foreseen["named"] == 900 * 150 * 32


def test_join__of_two_small_parts_of_which_few_rows_come_stays_one_part(roomy: Session) -> None:
    ours, theirs = (whole(roomy, pl.DataFrame({"key": np.arange(900), name: np.arange(900)})) for name in ("a", "b"))
    found = Join.model_validate({"on": "key"}).run({"left": ours, "right": theirs}, Context("named", 1, roomy)).tables[""]
    assert len(found.blocks) == 1


def _itself(part: Part) -> Part:
    return part


def test_texts__that_are_longer_than_thought_go_beyond_memory(roomy: Session) -> None:
    given = table(roomy, pl.DataFrame({"key": range(1_200), "text": "word"}))
    assert roomy.budget
    assert not with_texts(given).is_beyond
    assert not roomy.budget.foreseen
    assert with_texts(replace(given.map(_long), schema=given.schema)).is_beyond
    assert roomy.budget.foreseen["given"] > 1_200 * 400


def test_texts__of_chosen_rows_are_not_looked_at_again(roomy: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = pl.DataFrame({"key": range(1_200), "text": ["word" * (number % 30) for number in range(1_200)]})
    seen = with_texts(table(roomy, texts))
    assert seen.size
    assert seen.size.texts == pytest.approx((16 + texts["text"].str.len_bytes()).mean(), rel=0.05)
    looked, value = list[Any](), roomy.value

    def watched(step: Any) -> Any:
        looked.append(step)
        return value(step)

    monkeypatch.setattr(roomy, "value", watched)
    chosen = replace(seen.map(_some, writes=frozenset()), schema=seen.schema, size=Size(1_200, 32))
    assert with_texts(chosen, seen.size).size == seen.size
    assert not looked
    written = replace(seen.map(_long, writes=frozenset({"text"})), schema=seen.schema, size=Size(1_200, 32))
    with_texts(written, seen.size)
    assert len(looked) == 1


def _some(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.filter(pl.col("key") > 600)


def _long(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.with_columns(pl.col("text").repeat_by(100).list.join(""))


def test_compiled_code__is_for_tables_beside_which_its_library_is_little() -> None:
    assert [Budget(size, 2, "").compiles for size in (200 << 20, 800 << 20, 1_700 << 20)] == [False, False, True]


@pytest.mark.parametrize("compiled", [True, False])
def test_pieces__have_the_values_and_types_that_were_cut(tmp_path: Path, compiled: bool) -> None:
    parts = [
        pl.DataFrame({"a": [1, None, -3], "b": [2**63, 5, 0], "c": ["x", None, "yy"], "d": [0.1, None, 1e300]}),
        pl.DataFrame({"a": [2**40, -(2**63), 7], "b": [1, 2, 3], "c": [None, "", "z"], "d": [1.0, 2.0, float("nan")]}),
    ]
    parts = [part.cast({"a": pl.Int64, "b": pl.UInt64}).with_columns(e=pl.lit("u", pl.Enum(["u", "v"]))) for part in parts]
    bucket = pl.Series([2, 0, 2])
    cuts = [cut(Part(part), bucket, 3, str(tmp_path), compiled=compiled) for part in parts]
    assert_frame_equal(joined(cuts, [0, 1, 2]).frame, pl.concat([parts[0][[1]], parts[1][[1]], parts[0][[0, 2]], parts[1][[0, 2]]]))
    assert joined(cuts, [1]).frame.schema == parts[0].schema
