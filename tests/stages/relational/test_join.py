"""join."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import DataError, ExpressionError, StageError
from pipeline.stages.relational.join import Join
from pipeline.tables import matched
from pipeline.tables.part import concat_parts
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import Between, StageExample
from pipeline.testing.stages import assert_same_for_any_parts, counts_of, cut, even_sizes, plan_stage, run_parts, run_stage
from tests import example_tables as examples
from tests.harness import genotypes

PAIR = {"left": examples.MIXED, "right": examples.MIXED.select("key", "n", z=pl.col("x"))}
EXAMPLES = [
    StageExample(Join(on="key"), PAIR),
    StageExample(Join(on=["key", "n"], how="left", validate="one_to_one"), PAIR),
    StageExample(Join(on="key", how="semi"), PAIR),
    StageExample(Join(on={"id": "id"}, how="anti"), {"left": examples.MIXED, "right": examples.MIXED}),
    StageExample(Join(on="key", how="right"), PAIR),
    StageExample(Join(on="key", how="full", method="exchange"), PAIR),
    StageExample(Join(how="cross"), PAIR),
    StageExample(Join(on="key", how="inner", where="n <= n_right", method="exchange"), PAIR),
    StageExample(Join(on="key", how="left", where="x > z or n = 2"), PAIR),
    StageExample(Join(on="key", how="full", where="x > z"), PAIR),
    StageExample(Join(on="key", how="anti", where="x > z"), PAIR),
]

RANDOM = random.Random(8)
LEFT = pl.DataFrame(
    {"k": [RANDOM.choice([None, *range(12)]) for _ in range(40)], "s": [RANDOM.choice("ab") for _ in range(40)], "x": range(40)}
)
RIGHT = pl.DataFrame(
    {"k": [RANDOM.choice([None, *range(4, 18)]) for _ in range(25)], "s": [RANDOM.choice("ab") for _ in range(25)], "y": range(25)}
)
BOTH = {"left": LEFT, "right": RIGHT}


class Four(Between):
    """As between four workers."""

    workers = 4


@pytest.fixture(autouse=True, params=["few rows", "as of many rows"])
def _rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are looked up in a table of rows where these are many."""
    for name in ("LEAST_ROWS", "MANY_ROWS", "PLACES", "FEW_PLACES") if request.param == "as of many rows" else ():
        monkeypatch.setattr(matched, name, 0)


def join(**given: Any) -> Join:
    return Join.model_validate(given)


def pairs(on: list[str]) -> list[tuple[int, int]]:
    """x of the left and y of the right of every match, by brute force."""
    return [
        (a["x"], b["y"])
        for a in LEFT.iter_rows(named=True)
        for b in RIGHT.iter_rows(named=True)
        if all(a[key] is not None and a[key] == b[key] for key in on)
    ]


@pytest.mark.parametrize("on", [["k"], ["k", "s"]])
def test_join__inner_has_every_match_once_in_the_lefts_order(on: list[str]) -> None:
    found = assert_same_for_any_parts(join(on=on), BOTH, ["x", "y"])
    assert list(zip(found["x"], found["y"], strict=True)) == sorted(pairs(on))
    for parts in (1, 3):
        assert run_stage(join(on=on), BOTH, parts)[""]["x"].is_sorted()


def test_join__left_keeps_every_row_as_pandas_does() -> None:
    found = assert_same_for_any_parts(join(on="k", how="left"), BOTH, ["x", "y"])
    assert found.columns == ["k", "s", "x", "s_right", "y"]
    right = RIGHT.drop_nulls("k").to_pandas()  # pandas lets null keys match
    expected = LEFT.to_pandas().merge(right, on="k", how="left", suffixes=("", "_right")).sort_values(["x", "y"])
    assert found["y"].to_list() == [None if pd.isna(y) else int(y) for y in expected["y"]]
    assert found["x"].to_list() == expected["x"].to_list()


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_join__semi_and_anti_part_the_left(how: str) -> None:
    found = assert_same_for_any_parts(join(on="k", how=how), BOTH, ["x"])
    matched = {x for x, _ in pairs(["k"])}
    assert found["x"].to_list() == [x for x in range(40) if (x in matched) == (how == "semi")]
    assert found.columns == ["k", "s", "x"]


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_join__over_workers_is_the_same(how: str, workers: ClusterSession) -> None:
    stage = join(on="k", how=how)
    order = ["x", "y"] if how in {"inner", "left"} else ["x"]
    expected = run_stage(stage, BOTH)[""].sort(order)
    assert run_stage(stage, BOTH, 3, workers)[""].sort(order).equals(expected)
    pieces = {"left": cut(LEFT, [10, 0, 30]), "right": cut(RIGHT, [25])}
    broadcast = pl.concat([part.frame for part in run_parts(stage, pieces, workers)[""]])
    assert broadcast["x"].is_sorted()
    assert broadcast.sort(order).equals(expected)


@pytest.mark.parametrize("parts", [1, 3])
def test_join__counts_matched_multiplied_and_lost_rows(parts: int) -> None:
    found = pairs(["k"])
    matched = len({x for x, _ in found})
    for how in ("inner", "left", "semi", "anti"):
        multiplied = len(found) - matched if how in {"inner", "left"} else 0
        assert counts_of(join(on="k", how=how), BOTH, parts) == {"matched": matched, "multiplied": multiplied, "lost": 40 - matched}


@pytest.mark.parametrize("parts", [1, 3])
def test_join__counts_rows_of_the_right_where_it_keeps_them(parts: int) -> None:
    found = pairs(["k"])
    right, left = len({y for _, y in found}), len({x for x, _ in found})
    assert counts_of(join(on="k", how="right"), BOTH, parts) == {"matched": right, "multiplied": len(found) - right, "lost": 25 - right}
    expected = {"matched": left, "multiplied": len(found) - left, "lost": 40 - left, "added": 25 - right}
    assert counts_of(join(on="k", how="full"), BOTH, parts) == expected


@pytest.mark.parametrize("how", ["right", "full"])
def test_join__that_keeps_the_right_is_as_pandas_has_it(how: str) -> None:
    found = assert_same_for_any_parts(join(on="k", how=how), BOTH, ["x", "y"])
    assert found.columns == ["k", "s", "x", "s_right", "y"]
    left, right = LEFT.with_columns(m=pl.col("k").fill_null(-1)), RIGHT.with_columns(m=pl.col("k").fill_null(-2))
    merged = (
        pl.from_pandas(left.to_pandas().merge(right.to_pandas(), on="m", how={"full": "outer"}.get(how, how)))
        .select("x", "y")
        .cast(pl.Int64)
    )
    assert found.select("x", "y").sort("x", "y").equals(merged.sort("x", "y"))
    assert found["k"].null_count() == RIGHT["k"].null_count() + (LEFT["k"].null_count() if how == "full" else 0)


def test_join__keeps_the_order_of_the_table_whose_rows_it_keeps() -> None:
    for parts in (1, 3):
        assert run_stage(join(on="k", how="right"), BOTH, parts)[""]["y"].is_sorted()
        assert run_stage(join(on="k", how="full"), BOTH, parts)[""].drop_nulls("x")["x"].is_sorted()
        crossed = run_stage(join(how="cross"), BOTH, parts)[""]
        assert crossed.select("x", "y").rows() == [(x, y) for x in range(40) for y in range(25)]


def test_join__full_has_the_rights_others_in_their_order() -> None:
    left, right = pl.DataFrame({"k": [i % 7 for i in range(60)]}), pl.DataFrame({"k": [i % 9 for i in range(40)], "y": range(40)})
    pairs = [y for i in range(60) for y in range(40) if y % 9 == i % 7]
    for _ in range(20):  # a fourth of the times Polars had them in another order
        found = run_stage(Join(on="k", how="full"), {"left": left, "right": right})[""]
        assert found["y"].to_list() == pairs + [y for y in range(40) if y % 9 > 6]


def test_join__by_a_range_has_the_pairs_within_it() -> None:
    spans = pl.DataFrame({"name": ["a", "b", "c", "d"], "start": [0, 5, 5, None], "stop": [3, 7, 30, 9]})
    tables = {"left": spans, "right": LEFT}
    inside = [(n, x) for n, a, b in spans.rows() if a is not None for x in range(40) if a <= x < b]
    condition = "start <= x and x < stop"
    assert assert_same_for_any_parts(join(where=condition), tables, ["name", "x"]).select("name", "x").rows() == inside
    kept = assert_same_for_any_parts(join(where=condition, how="left"), tables, ["name", "x"]).select("name", "x").rows()
    assert kept == [*inside, ("d", None)]
    assert assert_same_for_any_parts(join(where=condition, how="anti"), tables, ["name"])["name"].to_list() == ["d"]
    assert {x for _, x in inside} == set(run_stage(join(where=condition), tables)[""]["x"])
    full = assert_same_for_any_parts(join(where=condition, how="full"), tables, ["name", "x"])
    assert full.height == len(inside) + 1 + 40 - len({x for _, x in inside})


def test_join__says_what_a_condition_cannot_compute() -> None:
    big = pl.DataFrame({"x": [2**62]})
    with pytest.raises(DataError, match=r"where: .*beyond Int64"):
        run_stage(join(where="x + x_right > 0"), {"left": big, "right": big})


SKEWED = pl.DataFrame({"k": [7] * 60 + [None] * 30 + list(range(60)), "x": range(150)})
FEW = pl.DataFrame({"k": [7, 7, None, 3, 99], "y": range(5)})


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("skewed", ["left", "right"])
def test_join__spreads_a_hot_key_over_the_parts(how: str, skewed: str) -> None:
    tables = {"left": SKEWED, "right": FEW} if skewed == "left" else {"left": FEW, "right": SKEWED}
    stage = join(on="k", how=how, method="exchange")
    pieces = {role: cut(table, even_sizes(table.height, 5)) for role, table in tables.items()}
    found = run_parts(stage, pieces, Four())[""]
    assert len(found) == 4
    whole = concat_parts(found)
    expected = run_stage(stage, tables)[""]
    assert sorted(whole.frame.rows(), key=repr) == sorted(expected.rows(), key=repr)
    if how not in {"semi", "anti"}:
        most = max(part.frame.filter(pl.col("k") == 7).height for part in found)
        assert most <= whole.frame.filter(pl.col("k") == 7).height / 4 + 3
    counts = {name.partition("@")[0].split(":")[-1]: count for name, count in whole.counts.items()}
    assert counts.pop("exchanged") == 4
    assert counts.pop("hot_keys") == (4 if how in {"semi", "anti"} and skewed == "right" else 2)
    assert counts == counts_of(stage, tables)


def test_join__says_by_which_method_tables_met(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = {"left": cut(LEFT, [20, 20]), "right": cut(RIGHT, [5, 20])}

    def counts(**given: Any) -> set[str]:
        found = run_parts(join(on="k", **given), pieces, Between())[""]
        return {name.partition("@")[0].split(":")[-1] for part in found for name in part.counts} - {"matched", "multiplied", "lost"}

    assert counts() == {"copied"} == counts(method="broadcast") == counts(how="right")
    assert counts(method="exchange") >= {"exchanged"}
    monkeypatch.setattr("pipeline.stages.relational.join.COPIED_BYTES", 10)
    assert counts() >= {"exchanged"}


def test_join__takes_keys_of_other_names() -> None:
    right = pl.DataFrame({"id": [1, 2], "k": ["p", "q"], "s": ["c", "d"]})
    found = run_stage(join(on={"k": "id"}), {"left": LEFT.filter(pl.col("k") == 1), "right": right}, 2)[""]
    assert found.columns == ["k", "s", "x", "k_right", "s_right"]
    assert found.height > 0
    assert set(found["k_right"]) == {"p"}


def test_join__leaves_the_calls_with_the_lefts_rows() -> None:
    table, axes = genotypes()
    right = pl.DataFrame({"variant_id": ["rs5", "rs0", "rs5", "none"], "gene": ["a", "b", "c", "d"]})
    place = dict(zip(table.frame["variant_id"], range(9), strict=True))
    (part,) = run_parts(join(on="variant_id"), {"left": [table], "right": cut(right, [4])}, axes=axes)[""]
    assert sorted(part.frame["gene"]) == ["a", "b", "c"]
    np.testing.assert_array_equal(part.arrays["calls"], table.arrays["calls"][[place[name] for name in part.frame["variant_id"]]])


def test_join__refuses_keys_that_are_not_unique_where_they_must_be() -> None:
    left, right = pl.DataFrame({"k": [1, 2, 2, None, None]}), pl.DataFrame({"k": [7, 7, 1, None, None], "y": range(5)})
    for parts in (1, 2):
        with pytest.raises(DataError, match="validate many_to_one: the right table has k = 7 2 times"):
            run_stage(join(on="k", validate="many_to_one"), {"left": left, "right": right}, parts)
        with pytest.raises(DataError, match="validate one_to_many: the left table has k = 2 2 times"):
            run_stage(join(on="k", validate="one_to_many"), {"left": left, "right": right}, parts)
    pieces = {"left": cut(left, [2, 3]), "right": cut(right, [5])}  # the 2s stand in different parts
    with pytest.raises(DataError, match="k = 2 2 times"):
        run_parts(join(on="k", validate="one_to_many"), pieces)
    assert run_stage(join(on="k", validate="one_to_one"), {"left": left[:2], "right": right[1:]}, 2)[""].height == 1


def test_join__refuses_at_plan_time() -> None:
    refused: list[tuple[dict[str, Any], pl.DataFrame, str]] = [
        ({"on": "q"}, RIGHT, "given as 'left' has no column 'q'"),
        ({"on": {"k": "q"}}, RIGHT, "given as 'right' has no column 'q'"),
        ({"on": "k"}, RIGHT.cast({"k": pl.Int32}), "'k' is Int64 on the left and 'k' is Int32 on the right. Cast one"),
        ({"on": "k"}, RIGHT.rename({"y": "s_right"}), "two columns 's_right'"),
    ]
    for given, right, message in refused:
        with pytest.raises(StageError, match=message):
            plan_stage(join(**given), {"left": LEFT, "right": right})
    table, axes = genotypes()
    with pytest.raises(StageError, match="how: the left is a genotype table, whose rows full would add to"):
        run_parts(join(on="variant_id", how="full"), {"left": [table], "right": [table]}, axes=axes)
    with pytest.raises(ExpressionError, match="where: there is no column 'z'"):
        plan_stage(join(on="k", where="z > 1"), BOTH)
    for given, message in [
        ({}, "give `on`, the keys, or `where`"),
        ({"how": "cross", "on": "k"}, "leave out `on` and `where`"),
        ({"where": "x > y", "validate": "one_to_one"}, "there is no `on`"),
        ({"where": "x > y", "method": "exchange"}, "there is no `on`"),
        ({"on": "k", "how": "full", "method": "broadcast"}, "broadcast cannot be: full keeps the rows of both"),
        ({"on": "k", "validate": "one_to_one", "method": "broadcast"}, "validate: one_to_one looks at whole keys"),
    ]:
        with pytest.raises(ValidationError, match=message):
            join(**given)
    floats = pl.DataFrame({"k": [0.5]})
    with pytest.raises(StageError, match="a fraction is no key"):
        plan_stage(join(on="k"), {"left": floats, "right": floats})


def test_condition_on_an_unknown_column__names_those_of_the_tables_alone() -> None:
    tables = {"left": pl.DataFrame({"a": [1]}), "right": pl.DataFrame({"b": [1]})}
    with pytest.raises(StageError, match=r"no column 'nope'\. Known: a, b\."):
        plan_stage(Join(where="a < nope"), tables)


def large(rows: int, seed: int) -> pl.DataFrame:
    """Rows with a key of a number and a text, each once."""
    numbers = pl.Series("k", sorted(random.Random(seed).sample(range(2 * rows), rows)))
    return pl.DataFrame([numbers, (numbers % 7).cast(pl.String).alias("s")]).with_row_index("row").filter(pl.col("k") != 6)


@pytest.mark.parametrize("how", ["inner", "left", "right"])
def test_join__of_large_tables_is_pandas(how: Any) -> None:
    left, right = large(60_000, 1), large(80_000, 2).rename({"row": "at"})
    left = pl.concat([left.slice(30_000), left.head(30_000), pl.DataFrame({"row": [0], "k": [None], "s": ["1"]}, schema=left.schema)])
    found = run_stage(join(on=["k", "s"], how=how), {"left": left, "right": right})[""]
    known = [frame.to_pandas() for frame in (left.filter(pl.col("k").is_not_null()) if how == "inner" else left, right)]
    pandas = pl.from_pandas(known[0].merge(known[1], on=["k", "s"], how=how))
    same = ["row", "at"]
    assert found.select(pl.col(same).cast(pl.Int64)).rows() == pandas.select(pl.col(same).cast(pl.Int64)).rows()
    assert found["k"].to_list() == pandas["k"].cast(pl.Int64).to_list()
    kept = right if how == "right" else left
    matched = known[0].merge(known[1], on=["k", "s"]).shape[0]
    assert counts_of(join(on=["k", "s"], how=how), {"left": left, "right": right}, 1) == {
        "matched": matched, "multiplied": 0, "lost": kept.height - matched,
    }  # fmt: skip


@pytest.mark.parametrize("key", [6, 7, -1])
def test_join__of_large_tables_refuses_keys_that_come_twice(key: int) -> None:
    once = pl.DataFrame({"k": range(60_000)}).filter(pl.col("k") != 6)
    twice = pl.concat([pl.DataFrame({"k": [key, key]}), once.filter(pl.col("k") != key)])
    with pytest.raises(DataError, match=f"the left table has k = {key} 2 times"):
        run_stage(join(on="k", validate="one_to_one"), {"left": twice, "right": once})
    with pytest.raises(DataError, match=f"the right table has k = {key} 2 times"):
        run_stage(join(on="k", validate="one_to_one"), {"left": once, "right": twice})
    assert run_stage(join(on="k", validate="one_to_one"), {"left": once, "right": once})[""].height == once.height
