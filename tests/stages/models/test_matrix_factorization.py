"""matrix_factorization: the factors are implicit's, the lists and their measures follow from them, whatever the parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.stages.models._factorization import blocks, rounds
from pipeline.stages.models._factorization.rounds import Settings, started
from pipeline.stages.models.matrix_factorization import MatrixFactorization
from pipeline.tables.rounds import Round, Rounds
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import Between, StageExample
from pipeline.testing.stages import SEED, even_sizes, plan_stage, shuffled
from tests.stages.models.recommending import ROWS, Result, interactions, learn, stage_for

TOLERANCES = {"score": 1e-6, "value": 1e-9}
EXAMPLES = [
    StageExample(stage_for(time="day", holdout=1), {"rows": interactions(30, 12)}, tolerances=TOLERANCES),
    StageExample(stage_for(method="bpr", seen=True), {"rows": interactions(30, 12)}, tolerances=TOLERANCES),
]
HELD = stage_for(time="day", holdout=2)
MEASURES = ["precision_at_5", "recall_at_5", "ndcg_at_5", "map_at_5"]


def summed(rows: pl.DataFrame) -> pl.DataFrame:
    """Pairs, their weights added, in the order of user and item."""
    return rows.group_by("user", "item").agg(pl.col("stars").sum().cast(pl.Float64)).sort("user", "item")


def held_out(rows: pl.DataFrame, last: int) -> pl.DataFrame:
    """Whether DuckDB finds a row to be among the last ones of a user who has more."""
    import duckdb

    said = f"""select user, item, stars, day, count(*) over (partition by user) > {last}
        and row_number() over (partition by user order by day desc) <= {last} as held from rows"""
    found: pl.DataFrame = duckdb.connect().from_arrow(rows.to_arrow()).query("rows", said).pl()
    return found


def matrix_of(pairs: pl.DataFrame) -> Any:
    from scipy import sparse

    users, items = (pairs[name].unique().sort() for name in ("user", "item"))
    places = users.search_sorted(pairs["user"]), items.search_sorted(pairs["item"])
    return sparse.csr_matrix((pairs["stars"].to_numpy(), tuple(place.to_numpy() for place in places)), shape=(len(users), len(items)))


def implicit_model(pairs: pl.DataFrame, rounds: int = 6) -> Any:
    """implicit's least squares of pairs, from the factors that the stage starts with."""
    from implicit.cpu.als import AlternatingLeastSquares

    confidence = matrix_of(pairs)
    confidence.data = 1 + 4.0 * confidence.data
    settings = Settings("tested", "als", 6, rounds, 0.5, 4.0, 0.05, SEED, "cpu")
    shape: dict[str, Any] = {"factors": 6, "regularization": 0.5, "dtype": np.float64, "iterations": rounds, "num_threads": 1}
    model = AlternatingLeastSquares(alpha=1.0, use_cg=False, **shape)
    model.item_factors = started(settings, pl.DataFrame({"id": pairs["item"].unique()}), (0, 1)).factors
    model.fit(confidence, show_progress=False)
    return model


def same(found: Result, expected: Result) -> bool:
    """Whether all that two runs gave is the same to the last bit."""
    tables = found.lists.equals(expected.lists) and found.items.equals(expected.items)
    rest = [(one.losses, one.model, one.description, one.metrics, one.counts) for one in (found, expected)]
    return tables and rest[0] == rest[1]


@pytest.mark.parametrize("compiled_from", [0, 10**9])
def test_als__learns_the_factors_that_implicit_learns_and_recommends_what_it_does(
    compiled_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "COMPILED_FROM", compiled_from)
    found, pairs = learn(stage_for(), ROWS, even_sizes(ROWS.height, 3)), summed(ROWS)
    model = implicit_model(pairs)
    np.testing.assert_allclose(found.arrays["users"], model.user_factors, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.arrays["items"], model.item_factors, rtol=1e-5, atol=1e-5)
    users = pairs["user"].unique().sort().to_list()
    ids, scores = model.recommend(np.arange(len(users)), matrix_of(pairs), N=5, filter_already_liked_items=True)
    expected = pl.DataFrame({"user": np.repeat(users, 5), "item": ids.ravel().astype(int), "score": scores.ravel().astype(float)})
    assert_frame_equal(found.lists.drop("rank"), expected, rel_tol=1e-5, abs_tol=1e-5)
    assert found.lists["rank"].to_list() == [1, 2, 3, 4, 5] * len(users)


def test_als__goes_down_the_loss_of_the_paper() -> None:
    found, weights = learn(stage_for(rounds=9)), matrix_of(summed(ROWS)).toarray()
    x, y = found.arrays["users"], found.arrays["items"]
    loss = ((1 + 4.0 * weights) * ((weights > 0) - x @ y.T) ** 2).sum() + 0.5 * ((x**2).sum() + (y**2).sum())
    assert found.losses[-1] == pytest.approx(loss, rel=1e-10)
    assert len(found.losses) == 9
    assert (np.diff(found.losses) < 0).all()


@pytest.mark.parametrize(("method", "compiled_from"), [("als", 10**9), ("als", 0), ("bpr", 0)])
def test_factorization__is_the_same_to_the_last_bit_for_any_parts_blocks_and_order(
    method: str, compiled_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "COMPILED_FROM", compiled_from)
    stage = stage_for(method=method, time="day", holdout=2)
    whole = learn(stage)
    for parts in (2, 7):
        assert same(learn(stage, ROWS, even_sizes(ROWS.height, parts)), whole)
    several = Between()
    several.workers = 5
    assert same(learn(stage, ROWS, [0, *even_sizes(ROWS.height, 3), 0], several), whole)
    rows = shuffled(ROWS)
    assert isinstance(rows, pl.DataFrame)
    assert same(learn(stage, rows), whole)
    assert not same(learn(stage_for(method=method, time="day", holdout=2, seed=3)), whole)


@pytest.mark.parametrize("method", ["als", "bpr"])
def test_factorization__is_the_same_on_two_workers(method: str, workers: ClusterSession) -> None:
    stage = stage_for(method=method, time="day", holdout=2)
    assert same(learn(stage, ROWS, even_sizes(ROWS.height, 3), workers), learn(stage))


def test_holdout__takes_the_last_interactions_of_those_who_have_more() -> None:
    rows = held_out(ROWS, 2)
    train, held = rows.filter(~pl.col("held")), rows.filter("held")
    found = learn(HELD)
    pairs = held.select("user", "item").unique()
    again = pairs.join(train, on=["user", "item"], how="semi").height
    assert found.counts["held_out_again"] == again > 0
    assert found.counts["held_out"] == pairs.height - again
    assert found.counts["interactions"] == train.select("user", "item").n_unique()
    marked = rows.with_columns(split=pl.when("held").then(pl.lit("test")).otherwise(pl.lit("train"))).drop("day", "held")
    assert same(learn(stage_for(split="split"), marked), found)


@pytest.mark.parametrize("seen", [False, True])
def test_metrics__are_those_of_the_lists_beside_the_most_popular_items(seen: bool) -> None:
    rows = held_out(ROWS, 2)
    train, found = rows.filter(~pl.col("held")), learn(HELD.model_copy(update={"seen": seen}))
    truth = rows.filter("held").select("user", "item").unique()
    truth = truth if seen else truth.join(train, on=["user", "item"], how="anti")
    popular = train.select("user", "item").unique().group_by("item").len().sort("len", "item", descending=[True, False])
    users = truth["user"].unique()
    every = users.to_frame().join(popular, how="cross", maintain_order="left_right")
    every = every if seen else every.join(train, on=["user", "item"], how="anti", maintain_order="left")
    lists = {"test": found.lists, "test, most popular": every.group_by("user", maintain_order=True).head(5)}
    for name, listed in lists.items():
        hits = {
            user: [item in truth.filter(pl.col("user") == user)["item"] for item in group["item"]]
            for (user,), group in listed.group_by("user", maintain_order=True)
        }
        held = dict(truth.group_by("user").len().iter_rows())
        precision = np.mean([sum(hits[user]) / 5 for user in held])
        recall = np.mean([sum(hits[user]) / count for user, count in held.items()])
        assert found.metrics[name]["precision_at_5"] == pytest.approx(precision, rel=1e-12)
        assert found.metrics[name]["recall_at_5"] == pytest.approx(recall, rel=1e-12)
        assert found.metrics[name]["users"] == len(held)
        assert [*found.metrics[name]] == [*MEASURES, "users"]


@pytest.mark.parametrize(("method", "rounds"), [("als", 15), ("bpr", 60)])
def test_factorization__beats_the_most_popular_items_where_tastes_differ(method: str, rounds: int) -> None:
    rows = interactions(400, 80, seed=5)
    found = learn(stage_for(method=method, time="day", holdout=1, rounds=rounds, regularization=0.5 if method == "als" else 0.01), rows)
    model, popular = found.metrics["test"], found.metrics["test, most popular"]
    assert all(model[name] > 1.3 * popular[name] > 0 for name in MEASURES)
    assert found.losses[-1] < 0.8 * found.losses[0]


def test_lists__leave_out_what_was_taken_unless_told_otherwise() -> None:
    taken = ROWS.select("user", "item").unique()
    assert learn(stage_for()).lists.join(taken, on=["user", "item"], how="semi").height == 0
    found = learn(stage_for(seen=True))
    assert found.lists.join(taken, on=["user", "item"], how="semi").height > 100
    expected = found.lists.group_by("item").len("n").sort("item")
    assert found.items.filter(pl.col("recommended") > 0).select("item", n=pl.col("recommended")).equals(expected.cast({"n": pl.Int64}))
    assert found.items["interactions"].to_list() == taken.group_by("item").len().sort("item")["len"].to_list()


def test_duplicates__are_added_and_rows_that_say_nothing_are_left_out_and_counted() -> None:
    nothing = pl.DataFrame(
        {"user": ["u001", None, "u001", "new"], "item": [3, 3, None, 3], "stars": [None, 1, 1, 0], "day": [1, 2, 3, 4]}, schema=ROWS.schema
    )
    expected = learn(stage_for(), summed(ROWS))
    found = learn(stage_for(), ROWS.cast({"stars": pl.Float32}).vstack(nothing.cast({"stars": pl.Float32})), even_sizes(ROWS.height + 4, 3))
    assert same(found, expected)
    assert found.lost == {"incomplete": 3, "weightless": 1}
    assert expected.lost == {}
    gap = ROWS.with_columns(stars=pl.when(pl.col("day") == 7).then(float("nan")).otherwise(pl.col("stars").cast(pl.Float64)))
    assert learn(stage_for(), gap).lost == {"incomplete": (ROWS["day"] == 7).sum()}


@pytest.mark.parametrize("value", [-1.0, 1e101, float("inf"), float("-inf")])
def test_a_weight_that_is_none__is_refused_by_name(value: float) -> None:
    rows = ROWS.with_columns(stars=pl.when(pl.col("user") == "u007").then(value).otherwise(pl.col("stars").cast(pl.Float64)))
    with pytest.raises(
        DataError, match=r"'stars' is (-1\.0|1e\+101|-?inf) \(user 'u007', item \d+\), and a weight is above 0 and no more than 1e\+100"
    ):
        learn(stage_for(), rows)


def test_weights_that_no_arithmetic_holds__are_refused_with_the_remedy() -> None:
    with pytest.raises(DataError, match=r"cannot be solved: weights are too large\. Take their logarithm, or a lower alpha"):
        learn(stage_for(), ROWS.with_columns(stars=pl.lit(1e90)))


def test_steps_that_leave_all_bounds__are_an_error_with_the_remedy() -> None:
    with pytest.raises(DataError, match=r"bpr leave all bounds in round \d+\. Take a lower learning_rate, or less regularization"):
        learn(stage_for(method="bpr", rounds=200, regularization=60))


def test_users_of_one_interaction__keep_it_and_an_empty_holdout_measures_nothing() -> None:
    once = ROWS.unique("user", keep="first", maintain_order=True)
    found = learn(HELD, once)
    assert found.metrics == {}
    assert found.counts["held_out"] == found.counts["cold_users"] == 0
    assert found.counts["interactions"] == once.height
    assert learn(stage_for(), ROWS).metrics == {}


def test_who_is_held_out_whole__is_cold_and_neither_learned_nor_measured() -> None:
    split = pl.when((pl.col("user") == "u003") | (pl.col("item") == 7)).then(pl.lit("validation")).otherwise(pl.lit("train"))
    found = learn(stage_for(split="split"), ROWS.with_columns(split=split))
    assert (found.counts["cold_users"], found.counts["cold_items"]) == (1, 1)
    assert "u003" not in found.lists["user"]
    assert 7 not in found.lists["item"]
    assert found.items.filter(pl.col("item") == 7).rows() == [(7, 0, 0)]
    others = ROWS.filter(pl.col("item") == 7, pl.col("user") != "u003")["user"].n_unique()
    assert {name: row["users"] for name, row in found.metrics.items()} == {"validation": others, "validation, most popular": others}
    assert found.metrics["validation"]["recall_at_5"] == 0


def test_a_user_who_has_everything__has_no_list() -> None:
    rows = pl.concat([ROWS, pl.DataFrame({"user": "all", "item": range(40), "stars": 1, "day": 1}, schema=ROWS.schema)])
    for method in ("als", "bpr"):
        assert "all" not in learn(stage_for(method=method), rows).lists["user"]


def test_ids__may_be_whole_numbers_and_text_of_any_length() -> None:
    number = pl.col("user").str.tail(3).cast(pl.UInt64) + 2**63
    text = pl.concat_str(pl.lit("é" * 3), pl.col("item").cast(pl.String).str.zfill(2))
    expected, found = learn(stage_for()), learn(stage_for(), ROWS.with_columns(user=number, item=text))
    assert found.lists.drop("user", "item").equals(expected.lists.drop("user", "item"))
    assert found.lists["item"].str.tail(2).cast(pl.Int64).equals(expected.lists["item"])
    assert found.arrays["user_ids"].dtype == np.uint64
    assert found.description["types"] == {"user": "UInt64", "item": "String"}


def test_nothing_to_learn_from__is_an_error() -> None:
    with pytest.raises(DataError, match="there is no interaction to learn from"):
        learn(stage_for(), ROWS.with_columns(stars=0))
    with pytest.raises(DataError, match="there is no interaction to learn from"):
        learn(stage_for(), ROWS.clear())
    with pytest.raises(DataError, match="'split' has the value 'trian'; train, validation and test are known"):
        learn(stage_for(split="split"), ROWS.with_columns(split=pl.lit("trian")))


@pytest.mark.parametrize(
    ("given", "rows", "said"),
    [
        ({"user": "usr"}, ROWS, "no column 'usr'. Did you mean 'user'"),
        ({}, ROWS.cast({"user": pl.Categorical}), "column 'user' is Categorical.*; ids are text or whole numbers"),
        ({}, ROWS.cast({"item": pl.Float64}), "column 'item' is Float64, and a fraction is no key"),
        ({}, ROWS.cast({"stars": pl.String}), "column 'stars' is String, and numbers are needed"),
        ({"time": "day"}, ROWS, "time and holdout go together"),
        ({"holdout": 1}, ROWS, "time and holdout go together"),
        ({"time": "day", "holdout": 1}, ROWS.cast({"day": pl.String}), "time 'day' is String, which has no order"),
        ({"time": "day", "holdout": 1, "split": "user"}, ROWS, "not both"),
        ({"split": "day"}, ROWS, "split 'day' is Int64: it must say train"),
        ({"method": "bpr", "alpha": 2}, ROWS, "it is a parameter of method als, and the method is bpr"),
        ({"learning_rate": 0.1}, ROWS, "it is a parameter of method bpr, and the method is als"),
        ({"item": "rank"}, ROWS.rename({"item": "rank"}), "column 'rank' has the name of another column"),
        ({"item": "user"}, ROWS, "column 'user' has the name of another column"),
    ],
)
def test_what_does_not_fit__is_refused_before_anything_runs(given: dict[str, Any], rows: pl.DataFrame, said: str) -> None:
    with pytest.raises(StageError, match=said):
        plan_stage(stage_for(**given), {"rows": rows})


@pytest.mark.parametrize(("method", "first"), [("als", 2), ("bpr", 1)])
def test_rounds__are_said_with_the_last_loss_while_they_go(method: str, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[Round]()
    monkeypatch.setattr(Rounds, "done", lambda _, last: said.append(last))
    found = learn(stage_for(method=method, rounds=4))
    assert [(last.at, last.of) for last in said] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [last.figures["loss"] for last in said[first - 1 :]] == found.losses[: 5 - first]


def test_blocks__are_whole_chunks_that_follow_from_the_number_of_rows() -> None:
    for count in (0, 1, 5, 100, 70_000, 5_000_000):
        size = blocks.chunk_size(count)
        assert -(-count // size) <= 256
        for number in (1, 2, 7, 300):
            edges = blocks.edges(count, number)
            assert (edges[0], edges[-1], len(edges)) == (0, count, number + 1)
            assert all(edge % size == 0 or edge == count for edge in edges)
            assert edges == sorted(edges)


def test_what_is_not_given__is_by_the_method() -> None:
    said: dict[str, dict[str, float]] = {"als": {"alpha": 10, "regularization": 1}, "bpr": {"learning_rate": 0.05, "regularization": 0.01}}
    for method, given in said.items():
        made: dict[str, Any] = {"user": "user", "item": "item", "weight": "stars", "factors": 4, "rounds": 3, "method": method}
        assert same(learn(MatrixFactorization.model_validate(made)), learn(MatrixFactorization.model_validate({**made, **given})))
