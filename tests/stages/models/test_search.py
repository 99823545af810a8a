"""search: the trials are those of a loop over the same stage, and what comes out is the best model's own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.errors import DataError, JobError, StageError
from pipeline.job.load import load_text
from pipeline.plan.fingerprints import digest, fields_of
from pipeline.stages.models._trials_space import Range, drawn, grid, space_of
from pipeline.stages.models.search import Search
from pipeline.stages.models.xgboost import Xgboost
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage, run_stage
from tests import example_tables as examples
from tests.small import inside, replace_in
from tests.stages.models.training import PEOPLE, stage_for, train

DEPTHS, RATES = (1, 2, 5), (0.02, 0.3)
MODEL = stage_for("binary", early_stopping_rounds=None, rounds=12)


def search(model: Xgboost = MODEL, **more: Any) -> Search:
    """A search of a small grid, unless more is said."""
    given = {"parameters": {"max_depth": DEPTHS, "learning_rate": RATES}, "method": "grid", "metric": "auc"}
    return Search.model_validate({"model": model, **given, **more})


EXAMPLES = [
    StageExample(
        search(
            Xgboost(key="id", target="label", objective="binary", features=("x", "y", "code"), categorical=("code",), rounds=5),
            parameters={"max_depth": [1, 4]},
        ),
        {"rows": examples.modelled_rows()},
        modelled=("prediction", *examples.IMPORTANCE),
        needs="xgboost",
    )
]


def value_by_hand(metric: str = "auc", **more: Any) -> float:
    """The metric on the validation rows of a model that is trained by itself."""
    value = train(stage_for("binary", **{"early_stopping_rounds": None, "rounds": 12, **more}), PEOPLE).metrics["validation"][metric]
    assert value is not None
    return value


def test_a_grid__is_scikit_learns_and_every_trial_has_the_metric_of_the_stage_by_itself() -> None:
    from sklearn.model_selection import ParameterGrid

    trials = run_stage(search(), {"rows": PEOPLE})["trials"]
    expected = list(ParameterGrid({"max_depth": DEPTHS, "learning_rate": RATES}))
    assert trials.select("max_depth", "learning_rate").to_dicts() == [
        {name: one[name] for name in ("max_depth", "learning_rate")} for one in expected
    ]
    by_hand = [value_by_hand(**one) for one in expected]
    assert trials["value"].to_list() == by_hand
    assert trials["best"].to_list() == [max(by_hand[: at + 1]) for at in range(len(by_hand))]
    assert trials["trial"].to_list() == list(range(1, 7))
    assert set(trials["metric"]) == {"auc"}
    assert set(trials["state"]) == {"measured"}


@pytest.mark.parametrize(("metric", "best"), [("auc", max), ("log_loss", min)])
def test_search__gives_what_the_best_of_its_stages_gives(metric: str, best: Any) -> None:
    found = run_stage(search(metric=metric), {"rows": PEOPLE}, 3)
    row = found["trials"].filter(pl.col("value") == best(found["trials"]["value"].to_list())).row(0, named=True)
    alone = train(
        stage_for("binary", early_stopping_rounds=None, rounds=12, max_depth=row["max_depth"], learning_rate=row["learning_rate"]), PEOPLE
    )
    assert_frame_equal(found[""], alone.predictions, check_exact=True)
    assert_frame_equal(found["importance"], alone.importance, check_exact=True)
    assert found["trials"]["best"][-1] == row["value"] == alone.metrics["validation"][metric]


def test_search__finds_better_than_a_default_that_is_bad() -> None:
    bad = stage_for("binary", early_stopping_rounds=None, rounds=12, max_depth=1, learning_rate=0.001)
    default = train(bad, PEOPLE).metrics["test"]["auc"]
    ranges = {"max_depth": {"from": 1, "to": 8}, "learning_rate": {"from": 0.001, "to": 0.5, "scale": "log"}}
    found = run_stage(search(bad, parameters=ranges, method="random", trials=12), {"rows": PEOPLE})
    test = found[""].filter(split="test").drop_nulls()
    from sklearn.metrics import roc_auc_score

    assert default is not None
    assert roc_auc_score(test["binary"], test["prediction"]) > default + 0.02


def test_random_values__are_in_their_ranges_each_once_and_the_first_are_the_same_for_more_trials() -> None:
    parameters: dict[str, Any] = {
        "max_depth": Range(low=2, high=6),
        "learning_rate": Range(low=0.001, high=1, scale="log"),
        "subsample": (0.5, 1.0),
    }
    space = space_of(MODEL, parameters)
    found = drawn(space, 400, 7)
    assert drawn(space, 30, 7) == found[:30]
    assert drawn(space, 30, 8) != found[:30]
    assert len({repr(values) for values in found}) == 400
    rates = [values["learning_rate"] for values in found]
    assert 0.001 <= min(rates) <= max(rates) <= 1
    assert 80 < sum(rate < 0.01 for rate in rates) < 190, "a third of the values in each decade"
    depths = Counter(values["max_depth"] for values in found)
    assert sorted(depths) == [2, 3, 4, 5, 6]
    assert min(depths.values()) > 50
    assert {v["subsample"] for v in found} == {0.5, 1.0}


def test_random__takes_the_whole_grid_where_it_has_no_more_combinations() -> None:
    space = space_of(MODEL, {"max_depth": Range(low=2, high=4), "subsample": (0.5, 1.0)})
    assert drawn(space, 6, 1) == grid(space) == drawn(space, 99, 2)
    assert len(drawn(space, 5, 1)) == 5


def test_steps__space_a_range_evenly_on_its_scale() -> None:
    space = space_of(MODEL, {"learning_rate": Range(low=0.01, high=1, scale="log", steps=3), "max_depth": Range(low=1, high=9, steps=3)})
    assert [axis.all() for axis in space] == [(0.01, 0.1, 1.0), (1, 5, 9)]


def test_search__is_the_same_on_two_workers(workers: ClusterSession) -> None:
    here, there = (run_stage(search(), {"rows": PEOPLE}, 4, session) for session in (None, workers))
    for name in here:
        assert_frame_equal(there[name], here[name])


def test_a_trial_that_fails__fails_the_search() -> None:
    with pytest.raises(DataError, match="there are no validation rows with a target, which trials are compared on"):
        run_stage(search(), {"rows": PEOPLE.filter(pl.col("split") != "validation")})
    with pytest.raises(DataError, match="no trial has a auc on the validation rows"):
        run_stage(search(), {"rows": PEOPLE.filter((pl.col("split") != "validation") | (pl.col("binary") == 1))})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"parameters": {"max_dept": [1]}}, r"parameters\.max_dept: xgboost has no parameter 'max_dept'\. Did you mean 'max_depth'"),
        (
            {"parameters": {"max_depth": [1, 99]}},
            r"parameters\.max_depth: xgboost does not take 99: Input should be less than or equal to 30",
        ),
        ({"parameters": {"max_depth": {"from": 1, "to": 2.5}}}, r"parameters\.max_depth: max_depth takes whole numbers, and this range"),
        ({"parameters": {"memory": {"from": 1, "to": 2}}}, r"parameters\.memory: memory takes no number\. Give a list of its values"),
        (
            {"parameters": {"learning_rate": {"from": 0.1, "to": 0.2}}},
            r"parameters\.learning_rate: a grid has so many values.*Give `steps`",
        ),
        (
            {"parameters": {"target": ["binary", "regression"]}},
            r"parameters\.target: 'regression' changes the columns that the model gives",
        ),
        (
            {"parameters": {"features": [["a"], ["a", "text"]]}},
            r"parameters\.features: \['a', 'text'\] does not fit: the table has no column",
        ),
        ({"metric": "rmse"}, r"metric: a binary objective has no rmse\. Known: accuracy, auc, log_loss"),
        ({"metric": "lift"}, r"metric: whether a greater lift is better or a lesser one is not known here\. Say so by `better`"),
        ({"trials": 3}, r"trials: a grid tries every combination"),
        ({"model": stage_for("binary", split=None, early_stopping_rounds=None)}, r"model\.split: trials are compared on validation rows"),
        ({"model": stage_for("binary", exclude=("no_such",))}, r"model\.exclude: the table has no column 'no_such'"),
        ({"parameters": {"rounds": list(range(1, 202)), "max_depth": list(range(1, 31)), "seed": [1]}}, "xgboost has no parameter 'seed'"),
        ({"parameters": {"rounds": list(range(1, 402)), "max_depth": list(range(1, 31))}}, r"the grid has 12,030 combinations"),
    ],
)
def test_search__refuses_what_cannot_be_tried_before_a_run(more: dict[str, Any], said: str) -> None:
    with pytest.raises(StageError, match=said):
        plan_stage(search(**more), {"rows": PEOPLE})


def test_a_fingerprint__has_the_models_name_version_and_parameters() -> None:
    base = fields_of(search())
    assert base["model"]["use"] == "xgboost"
    assert base["model"]["version"] == Xgboost.version
    assert digest(base) == digest(fields_of(search()))
    assert digest(base) != digest(fields_of(search(stage_for("binary", early_stopping_rounds=None, rounds=13))))


JOB = """\
job: tuning
seed: 5
results: results
inputs: {people: {format: parquet, path: people.parquet}}
stages:
  - {use: fill_missing, from: people, as: filled, columns: [a], method: mean, fit_where: "split = 'train'"}
  - use: search
    from: filled
    as: tuned
    model:
      use: xgboost
      key: id
      target: binary
      objective: binary
      features: [a, b, group, whole]
      rounds: 10
    parameters:
      max_depth: {from: 1, to: 4}
      learning_rate: {from: 0.01, to: 0.5, scale: log}
      subsample: [0.7, 1.0]
    trials: 6
    metric: auc
  - {use: select, from: people, as: rows, drop: [binary, split]}
outputs: {predictions: {from: tuned}, importance: {from: tuned.importance}, trials: {from: tuned.trials}}
"""
SCORING = """\
job: scoring
results: scored
inputs: {people: {format: parquet, path: people.parquet, parts: 3}}
stages: [{use: score, from: people, as: scores, model: results/current/models/tuned.json}]
outputs: {scores: {from: scores, sort_by: id}}
"""


def test_a_job__publishes_the_best_model_which_scores_and_shows_the_trials(tmp_path: Path) -> None:
    PEOPLE.write_parquet(tmp_path / "people.parquet", row_group_size=100)
    for name, text in (("job.yaml", JOB), ("scoring.yaml", SCORING)):
        (tmp_path / name).write_text(text)
    with inside(tmp_path):
        run = pipeline.load("job.yaml").run()
        scores = pipeline.load("scoring.yaml").run().table("scores").to_polars()
    trials, found = run.table("trials").to_polars(), run.metrics["tuned"]["search"]
    best = trials.filter(trial=found["best_trial"]).row(0, named=True)
    assert found["value"] == best["value"] == trials["value"].max()
    assert found["value"] == pytest.approx(run.metrics["tuned"]["validation"]["auc"], abs=1e-6)
    assert {name: found[name] for name in ("max_depth", "learning_rate", "subsample")} == {
        name: best[name] for name in ("max_depth", "learning_rate", "subsample")
    }
    told = json.loads((tmp_path / "results/current/models/tuned.json").read_text())
    assert (told["use"], told["parameters"]["max_depth"]) == ("xgboost", best["max_depth"])
    assert_frame_equal(scores, run.table("predictions").to_polars().sort("id").select("id", "prediction"), check_exact=True)
    assert run.record["stages"]["tuned"]["counts"]["trials"] == 6
    page = Path(run.report).read_text(encoding="utf-8")
    for text in ("Search: trials", "auc of each trial, and of the best one so far", "auc by learning_rate", "best auc of 6 trials"):
        assert text in page


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "rounds: 10",
            "round: 10",
            r"job\.yaml:16:7: stages\.tuned\.model\.round: unknown parameter 'round' of xgboost\. Did you mean 'rounds'",
        ),
        ("rounds: 10", "rounds: 0", r"job\.yaml:16:15: stages\.tuned\.model\.rounds: 0 is below the smallest value allowed, 1"),
        ("use: xgboost", "use: xgbost", r"job\.yaml:11:12: stages\.tuned\.model\.use: there is no stage 'xgbost'\. Did you mean 'xgboost'"),
        (
            "use: xgboost",
            "use: select",
            r"job\.yaml:11:12: stages\.tuned\.model\.use: 'select' is no stage of the kind that is needed here: Learns",
        ),
        ("      target: binary\n", "", r"job\.yaml:11:7: stages\.tuned\.model.target: missing: target"),
        (
            JOB[JOB.index("    model:") : JOB.index("    parameters")],
            "    model: xgboost\n",
            r"10:12: stages\.tuned\.model: expected a mapping, found 'xgboost'",
        ),
        ("metric: auc", "metrics: auc", r"stages\.tuned\.metrics: unknown parameter 'metrics' of search"),
    ],
)
def test_a_job__names_the_place_of_what_is_wrong_with_the_model(old: str, new: str, said: str) -> None:
    with pytest.raises(JobError, match=said):
        load_text(JOB.replace(old, new, 1), "job.yaml")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("target: binary", "target: binery", r"job\.yaml:13:15: stages\.tuned\.model\.target: the table has no column 'binery'"),
        (
            "subsample: [0.7, 1.0]",
            "subsample: [0.7, 1.5]",
            r"job\.yaml:20:18: stages\.tuned\.parameters\.subsample: xgboost does not take 1\.5",
        ),
    ],
)
def test_a_plan__names_the_place_of_what_does_not_fit(old: str, new: str, said: str, tmp_path: Path) -> None:
    PEOPLE.write_parquet(tmp_path / "people.parquet")
    (tmp_path / "job.yaml").write_text(JOB)
    replace_in(tmp_path / "job.yaml", old, new)
    with inside(tmp_path), pytest.raises(JobError, match=said):
        pipeline.load("job.yaml").plan()
