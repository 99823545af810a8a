"""xgboost's ranking: native XGBoost's scores and scikit-learn's ndcg; rows of a group stay together."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import xgboost as xgb
from sklearn.metrics import ndcg_score

from pipeline.errors import DataError, StageError
from pipeline.stages.models import _training_rows
from pipeline.stages.models._trees.booster import BoosterPredictor
from pipeline.testing.stages import even_sizes, plan_stage, shuffled
from tests.stages.models.training import FEATURES, NATIVE, numbers, people, stage_for, train


def queries() -> pl.DataFrame:
    """Rows of 80 queries, not in their order, each query in one split, with a relevance of 0 to 4."""
    rows = people(900)
    random = np.random.default_rng(8)
    splits = random.choice(["train", "validation", "test"], 80, p=[0.6, 0.2, 0.2])
    query = random.integers(0, 80, rows.height)
    score = pl.col("a").fill_null(0) - 0.5 * pl.col("b") + 0.2 * pl.col("whole") - 0.3
    relevance = pl.when(pl.col("binary").is_not_null()).then(score.round().clip(0, 4).cast(pl.Int32))
    return rows.with_columns(query=pl.Series([f"q{number:02d}" for number in query]), split=pl.Series(splits[query]), relevance=relevance)


ROWS = queries()
ORDERED = ROWS.sort("query", "id")


def stage_of(**more: Any) -> Any:
    return stage_for(**{"objective": "ranking", "target": "relevance", "group": "query", **more})


def by_hand(metric: str = "ndcg@10", **more: Any) -> Any:
    """XGBoost's own ranking of the rows in the order of their queries."""
    matrices = list[tuple[Any, str]]()
    for split in ("train", "validation"):
        rows = ORDERED.filter((pl.col("split") == split) & pl.col("relevance").is_not_null())
        given = {"qid": rows["query"].rank("dense").to_numpy(), "ref": matrices[0][0] if matrices else None}
        matrices.append((xgb.QuantileDMatrix(numbers(rows), rows["relevance"].to_numpy(), max_bin=256, nthread=1, **given), split))
    parameters = {**NATIVE, "objective": "rank:ndcg", "eval_metric": metric, **more}
    booster = xgb.train(parameters, matrices[0][0], 80, evals=matrices, early_stopping_rounds=4, verbose_eval=False)
    return booster.predict(xgb.DMatrix(numbers(ORDERED)), iteration_range=(0, booster.best_iteration + 1))


@pytest.mark.parametrize("batch", [131_072, 64])
@pytest.mark.parametrize("memory", ["whole", "external"])
def test_ranking__is_native_xgboosts(batch: int, memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_training_rows, "BATCH_ROWS", batch)
    found = train(stage_of(memory=memory), ROWS)
    assert found.predictions.columns == ["id", "split", "query", "relevance", "prediction_score"]
    assert found.predictions.drop("prediction_score").equals(ORDERED.select("id", "split", "query", "relevance"))
    assert np.array_equal(found.predicted, by_hand())
    assert found.description["features"] == FEATURES
    assert np.array_equal(BoosterPredictor.of(found.model, "cpu").predict(numbers(ORDERED)), found.predicted)


def test_ranking__takes_xgboosts_metric_and_its_own_parameters() -> None:
    found = train(stage_of(metric="ndcg@3", parameters={"lambdarank_num_pair_per_sample": 4}), ROWS)
    assert np.array_equal(found.predicted, by_hand("ndcg@3", lambdarank_num_pair_per_sample=4))
    assert list(found.metrics["test"]) == ["ndcg", "ndcg@3"]


@pytest.mark.parametrize("sizes", [even_sizes(900, 2), even_sizes(900, 7)])
def test_ranking__does_not_depend_on_the_parts_nor_the_order(sizes: list[int]) -> None:
    expected = train(stage_of(), ROWS)
    for rows in (ROWS, shuffled(ROWS)):
        found = train(stage_of(), rows, sizes)
        assert (found.model, found.metrics) == (expected.model, expected.metrics)
        assert found.predictions.equals(expected.predictions)


def test_ranking__metrics_are_scikit_learns_of_exponential_gains() -> None:
    found = train(stage_of(), ROWS)
    for split in ("train", "validation", "test"):
        part = found.predictions.filter((pl.col("split") == split) & pl.col("relevance").is_not_null())
        for name, k in (("ndcg", None), ("ndcg@10", 10)):
            scores = list[float]()
            for query in part.partition_by("query"):
                gains = 2.0 ** query["relevance"].to_numpy() - 1
                if gains.any():
                    scores.append(ndcg_score([gains], [query["prediction_score"].to_numpy()], k=k) if len(gains) > 1 else 1.0)
            assert found.metrics[split][name] == pytest.approx(np.mean(scores), rel=1e-9)


def test_ranking__is_explained_and_its_rows_without_relevance_are_scored() -> None:
    found = train(stage_of(explain=True), ROWS)
    sums = found.tables["shap"].select(*FEATURES, "bias").to_numpy().sum(axis=1, dtype=np.float64)
    assert sums == pytest.approx(found.predicted, abs=2e-5)
    assert np.isfinite(found.predicted[ORDERED["relevance"].is_null().to_numpy()]).all()


@pytest.mark.parametrize(
    ("change", "said", "key"),
    [
        (
            {"split": pl.when(pl.col("id") == "p0003").then(pl.lit("test")).otherwise(pl.lit("train"))},
            "has rows in test and train",
            "split",
        ),
        ({"query": pl.when(pl.col("id") != "p0003").then("query")}, r"the row with id 'p0003' has no 'query' \(1 rows\)", "group"),
        (
            {"relevance": pl.col("relevance") * 10},
            "'relevance' has the value 40, and the relevance of a ranking is a whole number",
            "target",
        ),
        ({"relevance": pl.col("relevance") / 4}, r"'relevance' has the value 0\.\d+, and the relevance", "target"),
    ],
)
def test_ranking__rows_that_cannot_be_ranked_are_named(change: dict[str, pl.Expr], said: str, key: str) -> None:
    with pytest.raises(DataError, match=said) as raised:
        train(stage_of(early_stopping_rounds=None), ROWS.with_columns(**change), even_sizes(900, 2))
    assert raised.value.key == key


def test_a_metric__that_does_not_take_the_target_fails_with_what_xgboost_says() -> None:
    with pytest.raises(DataError, match=r"stage tested: XGBoost cannot train on these rows: .*binary") as raised:
        train(stage_of(metric="map@5"), ROWS)
    assert "Stack trace" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("more", "said", "key"),
    [
        ({"group": None}, "the column of the groups within which a ranking orders rows, and of no other objective", "group"),
        ({"objective": "regression"}, "the column of the groups within which", "group"),
        ({"group": "quer"}, "has no column 'quer'. Did you mean 'query'", "group"),
        ({"group": "b", "features": ["a"]}, "column 'b' is Float64, and a fraction is no key", "group"),
        ({"group": "split"}, "'split' is the key, the target or the split already", "group"),
        ({"group": "whole"}, "features names 'whole'", "features"),
        ({"weight": "regression"}, "a ranking weighs groups alike, and takes no weights of rows", "weight"),
        ({"workers": "all"}, "a ranking is learned in one task, where all rows of a group are", "workers"),
        ({"metric": "auc"}, "'auc' is no metric of XGBoost's for a ranking objective", "metric"),
    ],
)
def test_ranking__that_cannot_be_is_refused_by_the_plan(more: dict[str, Any], said: str, key: str) -> None:
    with pytest.raises(StageError, match=said) as raised:
        plan_stage(stage_of(**more), {"rows": ROWS})
    assert raised.value.key == key
