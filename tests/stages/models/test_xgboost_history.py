"""NAME.history of xgboost: what XGBoost's own evaluation gives round by round, for any parts and over workers."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
import xgboost as xgb

from pipeline.tables.session import ClusterSession
from pipeline.testing.stages import even_sizes
from tests.stages.models.training import NATIVE, OBJECTIVES, PEOPLE, labels, numbers, people, stage_for, train


def evaluated(objective: str, rounds: int, **more: Any) -> dict[str, dict[str, list[float]]]:
    """XGBoost's own evaluation of training and validation rows."""
    matrices, history = list[tuple[Any, str]](), dict[str, Any]()
    for split in ("train", "validation"):
        rows = PEOPLE.filter((pl.col("split") == split) & pl.col(objective).is_not_null())
        ref = matrices[0][0] if matrices else None
        matrices.append((xgb.QuantileDMatrix(numbers(rows), labels(rows, objective), ref=ref, max_bin=256, nthread=1), split))
    parameters = {**NATIVE, **OBJECTIVES[objective], **more}
    xgb.train(parameters, matrices[0][0], rounds, evals=matrices, evals_result=history, verbose_eval=False)
    return history


@pytest.mark.parametrize(("objective", "metric"), [("regression", "mae"), ("binary", "auc"), ("multiclass", None)])
def test_history__is_what_xgboost_says_of_every_round(objective: str, metric: str | None) -> None:
    found = train(stage_for(objective, metric=metric, watch="both"), PEOPLE)
    table, best = found.tables["history"], found.counts["trees_used"]
    assert table["round"].max() == best + 4  # early stopping looked at so many more
    expected = evaluated(objective, best + 4, **({"eval_metric": metric} if metric else {}))
    for split, of in expected.items():
        for name, values in of.items():
            part = table.filter((pl.col("split") == split) & (pl.col("metric") == name))
            assert part["round"].to_list() == list(range(1, best + 5))
            assert part["value"].to_list() == values
    assert table.height == 2 * (best + 4)
    assert table["round"].is_sorted()


def test_history__does_not_depend_on_the_parts_nor_on_where_the_rows_lie() -> None:
    expected = train(stage_for("binary"), PEOPLE).tables["history"]
    assert train(stage_for("binary"), PEOPLE, even_sizes(600, 7)).tables["history"].equals(expected)
    assert train(stage_for("binary", memory="external"), PEOPLE, [300, 300]).tables["history"].equals(expected)


def test_history__without_early_stopping_has_the_rows_that_are_watched_where_there_are_some() -> None:
    plain = stage_for("binary", early_stopping_rounds=None, rounds=5)
    assert train(plain, PEOPLE).tables["history"].select("round", "split").rows() == [(number, "validation") for number in range(1, 6)]
    assert train(plain, PEOPLE.filter(pl.col("split") == "train")).tables["history"].is_empty()
    stage = stage_for("binary", early_stopping_rounds=None, rounds=5, watch="both")
    assert train(stage, PEOPLE).tables["history"]["split"].unique().sort().to_list() == ["train", "validation"]
    alone = train(stage, PEOPLE.filter(pl.col("split") == "train")).tables["history"]
    assert alone.select("round", "split").rows() == [(number, "train") for number in range(1, 6)]


def test_history__over_workers_says_the_same_rounds(workers: ClusterSession) -> None:
    many = people(4000)
    one = train(stage_for("binary", early_stopping_rounds=None, rounds=6, watch="both"), many).tables["history"]
    stage = stage_for("binary", workers="all", early_stopping_rounds=None, rounds=6, watch="both")
    found = train(stage, many, even_sizes(4000, 5), workers).tables["history"]
    assert found.drop("value").equals(one.drop("value"))
    assert found["value"].to_list() == pytest.approx(one["value"].to_list(), rel=0.03)
