"""cross_validate: the folds are scikit-learn's, and their predictions those of a loop over the same stage."""

from __future__ import annotations

import math
import statistics
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.errors import DataError, StageError
from pipeline.stages.features.split import Split
from pipeline.stages.models._search.folds_task import FoldTask
from pipeline.stages.models.cross_validate import CrossValidate
from pipeline.stages.models.xgboost import Xgboost
from pipeline.tables.session import ClusterSession, Session
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples
from tests.small import inside
from tests.stages.models.training import CLASSES, PEOPLE, stage_for, train

MODEL = stage_for("binary", early_stopping_rounds=None, rounds=8)
DATED = PEOPLE.with_columns(
    day=pl.Series([date(2026, 1, 1) + timedelta(days=int(at)) for at in np.random.default_rng(5).permutation(PEOPLE.height)]),
    site=pl.Series(
        np.random.default_rng(6).choice(["a", "b", "c", "d", "e", "f", "g"], PEOPLE.height, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05])
    ),
)


def checked(model: Xgboost = MODEL, **more: Any) -> CrossValidate:
    return CrossValidate.model_validate({"model": model, "folds": 4, **more})


EXAMPLES = [
    StageExample(
        CrossValidate.model_validate(
            {"model": Xgboost(key="id", target="label", objective="binary", features=("x", "y"), rounds=5), **more}
        ),
        {"rows": examples.modelled_rows()},
        modelled=("prediction", "value"),
        needs="xgboost",
    )
    for more in ({"folds": 3}, {"folds": 2, "by": "code"}, {"folds": 2, "time": "id"})
]


def by_hand(frame: pl.DataFrame, model: Xgboost, splits: pl.Series) -> tuple[pl.DataFrame, dict[str, float | None]]:
    """The predictions of the rows that are `test`, and their metrics, by a model that is trained by itself."""
    found = train(model, frame.with_columns(splits.alias("split")))
    return found.predictions.filter(split="test").drop("split"), found.metrics["test"]


@pytest.mark.parametrize("objective", ["binary", "regression", "multiclass"])
def test_folds_by_key__are_predicted_by_models_of_the_other_folds(objective: str) -> None:
    model = stage_for(objective, early_stopping_rounds=None, rounds=8)
    found = run_stage(checked(model), {"rows": PEOPLE}, 3)
    folds = found[""].select("id", "fold")
    assert folds["id"].to_list() == PEOPLE["id"].to_list(), "every row once"
    assert folds["fold"].unique().sort().to_list() == [1, 2, 3, 4]
    assert min(folds["fold"].value_counts()["count"].to_list()) > 100
    fold_of = PEOPLE.join(folds, on="id", maintain_order="left")["fold"]
    for number in range(1, 5):
        splits = pl.select(pl.when(fold_of == number).then(pl.lit("test")).otherwise(pl.lit("train"))).to_series()
        expected, metrics = by_hand(PEOPLE, model, splits)
        assert_frame_equal(found[""].filter(fold=number).drop("fold"), expected, check_exact=True)
        assert dict(found["folds"].filter(fold=number).select("metric", "value").rows()) == metrics
        assert set(found["folds"].filter(fold=number)["rows"]) == {expected.height}
    columns = [f"prediction_{name}" for name in CLASSES] if objective == "multiclass" else ["prediction"]
    assert found[""].columns == ["id", "fold", objective, *columns]


def test_folds_by_key__are_even_within_what_split_made_of_the_same_keys() -> None:
    many = pl.concat([PEOPLE.with_columns(id=pl.lit(f"{copy}-") + pl.col("id")) for copy in range(5)]).drop("split")
    divided = run_stage(Split(key="id", train=0.8, validation=0, test=0.2), {"rows": many})[""].filter(split="train")
    sizes = run_stage(checked(stage_for("binary", early_stopping_rounds=None, rounds=1)), {"rows": divided})[""]["fold"].value_counts()[
        "count"
    ]
    assert divided.height > 2000
    assert max(abs(size - divided.height / 4) for size in sizes) < 4 * math.sqrt(divided.height / 4)


def test_folds_by_group__are_as_even_as_scikit_learns_and_tear_no_group_apart() -> None:
    from sklearn.model_selection import GroupKFold

    model = stage_for("binary", early_stopping_rounds=None, rounds=3)
    frame = run_stage(checked(model, by="site", folds=3), {"rows": DATED})[""].join(DATED.select("id", "site"), on="id")
    assert frame.height == DATED.height
    assert frame.group_by("site").agg(pl.col("fold").n_unique())["fold"].to_list() == [1] * 7
    theirs = [len(test) for _, test in GroupKFold(3).split(np.zeros(DATED.height), groups=DATED["site"].to_numpy())]
    assert sorted(frame["fold"].value_counts()["count"].to_list()) == sorted(theirs)


@pytest.mark.parametrize("folds", [2, 4, 7])
def test_folds_by_time__are_scikit_learns_and_learn_from_earlier_rows_alone(folds: int) -> None:
    from sklearn.model_selection import TimeSeriesSplit

    model = stage_for("binary", early_stopping_rounds=None, rounds=5)
    found = run_stage(checked(model, time="day", folds=folds), {"rows": DATED}, 3)
    ordered = DATED.sort("day")
    for number, (past, test) in enumerate(TimeSeriesSplit(folds).split(np.zeros(ordered.height)), start=1):
        splits = np.full(ordered.height, "later", dtype=object)
        splits[past], splits[test] = "train", "test"
        expected, metrics = by_hand(ordered, model, pl.Series(splits, dtype=pl.String))
        assert_frame_equal(found[""].filter(fold=number).drop("fold"), expected, check_exact=True)
        assert dict(found["folds"].filter(fold=number).select("metric", "value").rows()) == metrics


def test_folds_by_time__that_learn_from_more_rows_are_more_urgent(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, submit = list[FoldTask](), Session.submit

    def noted(session: Session, function: Any, *arguments: Any, **told: Any) -> Any:
        """Submit, and keep the folds."""
        tasks.extend([function] if isinstance(function, FoldTask) else [])
        return submit(session, function, *arguments, **told)

    monkeypatch.setattr(Session, "submit", noted)
    for stage in (checked(time="day"), checked(by="site")):
        run_stage(stage, {"rows": DATED})
    assert [task.urgency for task in tasks] == [0.2, 0.4, 0.6, 0.8, 0.0, 0.0, 0.0, 0.0]


def test_equal_times__share_a_stretch() -> None:
    frame = DATED.with_columns(day=pl.col("day").dt.truncate("1mo"))
    found = run_stage(checked(time="day", folds=3), {"rows": frame})[""].join(frame.select("id", "day"), on="id")
    assert found.group_by("day").agg(pl.col("fold").n_unique())["fold"].unique().to_list() == [1]


@pytest.mark.parametrize(("more", "validation"), [({}, lambda fold: fold % 4 + 1), ({"time": "day"}, None)])
def test_a_model_that_stops_early__has_another_fold_to_stop_by(more: dict[str, Any], validation: Any) -> None:
    model = stage_for("binary", rounds=30)
    found = run_stage(checked(model, **more), {"rows": DATED})[""]
    with_fold = DATED.join(found.select("id", "fold"), on="id", how="left", maintain_order="left")
    number = 2
    if validation:
        at = pl.when(pl.col("fold") == number).then(pl.lit("test")).when(pl.col("fold") == validation(number)).then(pl.lit("validation"))
        splits = with_fold.select(at.otherwise(pl.lit("train"))).to_series()
    else:
        size, order = DATED.height // 6, DATED["day"].rank("ordinal") - 1
        start = DATED.height - 6 * size + (number + 1) * size
        at = pl.when(order >= start + size).then(pl.lit("later")).when(order >= start).then(pl.lit("test"))
        splits = pl.select(at.when(order >= start - size).then(pl.lit("validation")).otherwise(pl.lit("train"))).to_series()
    expected, _ = by_hand(DATED, model, splits)
    assert_frame_equal(found.filter(fold=number).drop("fold"), expected, check_exact=True)


def test_cross_validate__does_not_depend_on_parts_nor_on_the_order_of_rows() -> None:
    for more in ({}, {"by": "site"}, {"time": "day"}):
        assert_same_for_any_parts(checked(stage_for("binary", early_stopping_rounds=None, rounds=3), **more), {"rows": DATED}, ["id"])


def test_cross_validate__is_the_same_on_two_workers(workers: ClusterSession) -> None:
    here, there = (run_stage(checked(by="site"), {"rows": DATED}, 4, session) for session in (None, workers))
    for name in here:
        assert_frame_equal(there[name], here[name])


def test_another_seed__gives_other_folds_and_none_of_groups() -> None:
    quick = stage_for("binary", early_stopping_rounds=None, rounds=1)
    first, second = (run_stage(checked(quick, seed=seed), {"rows": PEOPLE})[""]["fold"] for seed in (1, 2))
    assert not first.equals(second)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"by": "site", "time": "day"}, "time: folds are of groups or of times, not of both"),
        ({"by": "b"}, "by: column 'b' is Float64, and a fraction is no key"),
        ({"time": "site"}, "time: column 'site' is String, and no time"),
        ({"time": "dy"}, "time: the table has no column 'dy'"),
        ({"model": stage_for("binary"), "folds": 2}, "folds: the model stops early: besides a fold to predict"),
        ({"model": stage_for("binary", features=("a", "no"))}, r"model\.features: the table has no column 'no'"),
    ],
)
def test_cross_validate__refuses_before_a_run_what_divides_no_rows(more: dict[str, Any], said: str) -> None:
    with pytest.raises(StageError, match=said):
        plan_stage(checked(**more), {"rows": DATED})


@pytest.mark.parametrize(
    ("frame", "more", "said"),
    [
        (DATED, {"by": "site", "folds": 8}, "'site' has 7 values, too few for 8 folds of whole groups"),
        (
            DATED.with_columns(site=pl.when(pl.col("site") != "a").then("site")),
            {"by": "site"},
            r"'site' is missing in \d+ rows, which belong",
        ),
        (DATED.with_columns(day=pl.col("day").dt.truncate("1y")), {"time": "day"}, "'day' has too few times for 5 stretches"),
        (DATED.with_columns(binary=pl.when(pl.col("site") != "a").then("binary")), {"by": "site"}, "fold 1 has no row with a target"),
    ],
)
def test_cross_validate__fails_for_rows_that_make_no_folds(frame: pl.DataFrame, more: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        run_stage(checked(**more), {"rows": frame})


JOB = """\
job: checking
results: results
inputs: {people: {format: parquet, path: people.parquet}}
stages:
  - use: cross_validate
    from: people
    as: checked
    folds: 3
    model: {use: xgboost, key: id, target: binary, objective: binary, features: [a, b, group, whole], rounds: 10}
outputs: {predictions: {from: checked}, folds: {from: checked.folds}}
"""


def test_a_job__tells_the_metrics_of_every_fold_with_their_mean_and_spread(tmp_path: Path) -> None:
    PEOPLE.write_parquet(tmp_path / "people.parquet", row_group_size=100)
    (tmp_path / "job.yaml").write_text(JOB)
    with inside(tmp_path):
        run = pipeline.load("job.yaml").run()
    found = run.metrics["checked"]
    assert list(found) == ["fold 1", "fold 2", "fold 3", "mean", "standard deviation"]
    values = [found[f"fold {number}"]["auc"] for number in (1, 2, 3)]
    assert found["mean"]["auc"] == statistics.fmean(values)
    assert found["standard deviation"]["auc"] == pytest.approx(np.std(values, ddof=1))
    assert run.record["stages"]["checked"]["counts"]["rows_predicted"] == PEOPLE.height
    page = Path(run.report).read_text(encoding="utf-8")
    assert "standard deviation" in page
    assert "fold 3" in page
