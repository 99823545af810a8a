"""search: the trials are those of a loop over the same stage, and what comes out is the best model's own."""

from __future__ import annotations

import json
import math
import pickle
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.errors import DataError, JobError, PlaceError, StageError
from pipeline.job.load import load_text
from pipeline.plan.fingerprints import digest, fields_of
from pipeline.registry import STAGES, stage_class
from pipeline.stage import Context
from pipeline.stages.models._search import methods as _trials_methods
from pipeline.stages.models._search.methods import Bayesian, all_at_once, halving, rungs_of
from pipeline.stages.models._search.model import Alone, with_values
from pipeline.stages.models._search.space import Axis, Range, drawn, grid, space_of
from pipeline.stages.models._search.trials import Goal, Trial, best_of
from pipeline.stages.models._supervised import Supervised
from pipeline.stages.models.cross_validate import CrossValidate
from pipeline.stages.models.search import Search
from pipeline.stages.models.xgboost import Xgboost
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import SEED, cut, even_sizes, plan_stage, run_stage
from tests import example_tables as examples
from tests.small import inside, replace_in, start
from tests.stages.models.training import PEOPLE, stage_for, train

KEYS = {"key": "id", "target": "binary", "objective": "binary"}
DEPTHS, RATES = (1, 2, 5), (0.02, 0.3)
MODEL = stage_for("binary", early_stopping_rounds=None, rounds=12)


def search(model: Supervised = MODEL, **more: Any) -> Search:
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
        modelled=("prediction", *examples.IMPORTANCE, "value", "best"),
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


def test_search__tries_what_stands_within_a_mapping() -> None:
    found = run_stage(search(parameters={"parameters.gamma": [0, 1.5, 60]}), {"rows": PEOPLE})
    assert found["trials"]["parameters.gamma"].to_list() == [0, 1.5, 60]
    by_hand = [value_by_hand(parameters={"gamma": gamma}) for gamma in (0, 1.5, 60)]
    assert found["trials"]["value"].to_list() == by_hand
    assert len(set(by_hand)) == 3


def test_search__is_the_same_on_two_workers(workers: ClusterSession) -> None:
    here, there = (run_stage(search(), {"rows": PEOPLE}, 4, session) for session in (None, workers))
    for name in here:
        assert_frame_equal(there[name], here[name])


def test_a_trial_that_fails__fails_the_search() -> None:
    with pytest.raises(DataError, match="there are no validation rows with a target, which trials are compared on"):
        run_stage(search(), {"rows": PEOPLE.filter(pl.col("split") != "validation")})
    with pytest.raises(DataError, match="no trial has a auc on the validation rows"):
        run_stage(search(), {"rows": PEOPLE.filter((pl.col("split") != "validation") | (pl.col("binary") == 1))})


def learners() -> list[str]:
    """The stages that learn a target of two classes, and need no more parameters for it."""
    kinds = [stage_class(name) for name, module in STAGES.modules.items() if ".models." in module]
    needed = {name for name, field in Supervised.model_fields.items() if field.is_required()}
    return sorted(kind.name for kind in kinds if issubclass(kind, Supervised) and needed == required(kind))


def required(kind: type[Supervised]) -> set[str]:
    return {name for name, field in kind.model_fields.items() if field.is_required()}


@pytest.mark.parametrize("use", learners())
def test_search_and_cross_validate__take_any_stage_that_learns_a_target(use: str) -> None:
    model = stage_class(use).model_validate({**KEYS, "features": ["b", "whole"], "rounds": 2})
    assert isinstance(model, Supervised)
    found = run_stage(search(model, parameters={"rounds": [2, 5]}, method="grid", metric="log_loss"), {"rows": PEOPLE}, 2)
    best = found["trials"].sort("value", "trial")["rounds"][0]
    table = Table.of(Session(), "rows", cut(PEOPLE, even_sizes(PEOPLE.height, 2)), schema=Schema(PEOPLE.schema))
    alone = with_values(model, {"rounds": best}).run({"rows": table}, Context("tested", SEED, Session()))
    assert_frame_equal(found[""], concat_parts(alone.tables[""].futures()).frame, check_exact=True)
    assert alone.metrics["validation"]["log_loss"] == min(found["trials"]["value"].to_list())
    checked = run_stage(CrossValidate.model_validate({"model": model, "folds": 2}), {"rows": PEOPLE}, 2)
    assert checked[""]["id"].to_list() == PEOPLE["id"].to_list()
    assert checked["folds"]["metric"].unique().sort().to_list() == ["accuracy", "auc", "log_loss"]


@pytest.mark.parametrize(
    ("objective", "metric", "better"),
    [
        ("quantile", "pinball_loss_0.1", "less"),
        ("quantile", "pinball_loss", "less"),
        ("ranking", "ndcg@5", "greater"),
        ("binary", "auc", "greater"),
    ],
)
def test_which_value_is_better__is_known_of_the_metrics_of_every_objective(objective: str, metric: str, better: str) -> None:
    assert Goal.of(MODEL.model_copy(update={"objective": objective}), metric, "validation", None).better == better


RANGES = {"max_depth": {"from": 1, "to": 8}, "learning_rate": {"from": 0.01, "to": 0.5, "scale": "log"}, "subsample": [0.7, 1.0]}


@pytest.mark.parametrize(("trials", "factor"), [(20, 3), (8, 2), (27, 3)])
def test_halving__gives_a_share_of_the_trials_more_rounds_until_all_have_been_divided(trials: int, factor: int) -> None:
    rungs = rungs_of(trials, 200, factor)
    assert rungs[-1] == 200
    assert all(before == after // factor for before, after in pairwise(rungs))
    goal = Goal("auc", "validation", "greater")
    found = halving(
        [{"n": at} for at in range(trials)],
        lambda asked: [replace(t, value=t.values["n"], state="measured") for t in asked],
        goal,
        rungs,
        factor,
    )
    counts = [sum(trial.rounds == rounds for trial in found) for rounds in rungs]
    assert counts[0] == trials
    assert counts[1:] == [math.ceil(count / factor) for count in counts[:-1]]
    assert found[-1].values == {"n": trials - 1} or counts[-1] > 1
    assert best_of(found, goal).values == {"n": trials - 1}


def test_halving__measures_what_the_stage_with_so_many_rounds_does_and_goes_on_with_the_best() -> None:
    found = run_stage(search(parameters=RANGES, method="halving", trials=9), {"rows": PEOPLE})
    trials = found["trials"]
    assert trials["rounds"].to_list() == [1] * 9 + [4] * 3 + [12]
    for row in trials.iter_rows(named=True):
        assert row["value"] == value_by_hand(**{name: row[name] for name in ("max_depth", "learning_rate", "subsample", "rounds")})
    for rounds, more in ((1, 4), (4, 12)):
        rung, after = trials.filter(rounds=rounds), trials.filter(rounds=more)
        assert rung.filter(state="went on")["trial"].to_list() == after["trial"].to_list()
        assert max(rung.filter(state="stopped")["value"].to_list()) <= min(rung.filter(state="went on")["value"].to_list())
    last = trials.row(-1, named=True)
    assert (last["state"], last["best"]) == ("measured", last["value"])
    alone = stage_for(
        "binary", early_stopping_rounds=None, **{name: last[name] for name in ("max_depth", "learning_rate", "subsample", "rounds")}
    )
    assert_frame_equal(found[""], train(alone, PEOPLE).predictions, check_exact=True)


def test_bayesian__has_the_metric_of_the_stage_itself_and_is_the_same_again_and_on_two_workers(workers: ClusterSession) -> None:
    stage = search(parameters=RANGES, method="bayesian", trials=10, batch=4)
    trials = run_stage(stage, {"rows": PEOPLE})["trials"]
    assert trials.height == 10
    for row in trials.iter_rows(named=True):
        assert row["value"] == value_by_hand(**{name: row[name] for name in ("max_depth", "learning_rate", "subsample")})
    assert_frame_equal(run_stage(stage, {"rows": PEOPLE}, 3)["trials"], trials, check_exact=True)
    there = run_stage(stage, {"rows": PEOPLE}, 4, workers)["trials"]
    assert_frame_equal(there, trials)
    more = run_stage(search(parameters=RANGES, method="bayesian", trials=14, batch=4), {"rows": PEOPLE})["trials"]
    assert_frame_equal(more.head(8), trials.head(8), check_exact=True)
    other = run_stage(search(parameters=RANGES, method="bayesian", trials=10, seed=3), {"rows": PEOPLE})["trials"]
    assert not other.equals(trials)


def test_bayesian__comes_nearer_to_the_best_than_random_does() -> None:
    space = [Axis("x", None, 0.0, 1.0), Axis("y", None, 0.001, 1.0, log=True), Axis("z", ("a", "b", "c"))]
    goal = Goal("loss", "validation", "less")

    def measure(asked: Sequence[Trial]) -> list[Trial]:
        """A bowl with its least value at 0.3, 0.05 and b."""
        far = [(t.values["x"] - 0.3) ** 2 + (math.log10(t.values["y"]) + 1.3) ** 2 / 9 + (t.values["z"] != "b") for t in asked]
        return [replace(trial, value=value, state="measured") for trial, value in zip(asked, far, strict=True)]

    def least(trials: Sequence[Trial]) -> float:
        return min(trial.value for trial in trials if trial.value is not None)

    bayesian = [least(Bayesian(40, 4, seed, 1).search(space, measure, goal)) for seed in range(5)]
    at_random = [least(all_at_once(drawn(space, 40, seed), measure)) for seed in range(5)]
    assert statistics.median(bayesian) < statistics.median(at_random) / 2


def test_pruning__stops_trials_that_are_worse_than_the_median_after_their_first_rounds() -> None:
    trials = run_stage(search(parameters=RANGES, method="bayesian", trials=8, prune=True), {"rows": PEOPLE})["trials"]
    first, last = trials.filter(rounds=4), trials.filter(rounds=12)
    assert first.height == 8
    assert first.filter(state="went on")["trial"].to_list() == last["trial"].sort().to_list()
    for batch in (first.head(4), first):
        limit = statistics.median(batch["value"].to_list())
        late = batch.tail(4)
        assert (late["state"] == "went on").to_list() == [value >= limit for value in late["value"]]
    assert set(last["state"]) == {"measured"}


def test_bayesian__without_optuna_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_trials_methods, "find_spec", lambda _name: None)
    with pytest.raises(
        PlaceError, match=r"method: bayesian needs optuna, which is not installed\. Install it with: pip install '\.\[search\]'"
    ):
        plan_stage(search(method="bayesian"), {"rows": PEOPLE})


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
        ({"trials": 3}, r"trials: method: grid has no trials\. Leave it out, or use asha or bayesian or halving or random"),
        ({"method": "random", "factor": 2}, r"factor: method: random has no factor\. Leave it out, or use asha or bayesian or halving"),
        ({"method": "halving", "parameters": {"rounds": [5, 9]}}, r"parameters\.rounds: the trials get more rounds step by step"),
        ({"method": "halving", "factor": 20}, r"model\.rounds: the model has 12 rounds, and trials begin with a 20-th of them"),
        ({"model": stage_for("binary", split=None, early_stopping_rounds=None)}, r"model\.split: trials are compared on validation rows"),
        ({"model": stage_for("binary", exclude=("no_such",))}, r"model\.exclude: the table has no column 'no_such'"),
        ({"parameters": {"rounds": list(range(1, 202)), "max_depth": list(range(1, 31)), "seed": [1]}}, "xgboost has no parameter 'seed'"),
        ({"parameters": {"rounds": list(range(1, 402)), "max_depth": list(range(1, 31))}}, r"the grid has 12,030 combinations"),
    ],
)
def test_search__refuses_what_cannot_be_tried_before_a_run(more: dict[str, Any], said: str) -> None:
    with pytest.raises(StageError, match=said):
        plan_stage(search(**more), {"rows": PEOPLE})


def test_search__says_all_that_does_not_fit_at_once() -> None:
    ranges = {name: {"from": 0.1, "to": 0.9} for name in ("learning_rate", "subsample")}
    wrong = search(method="grid", trials=5, factor=2, metric="rmse", parameters={**ranges, "max_depht": [3]})
    with pytest.raises(StageError) as unnamed:
        plan_stage(wrong, {"rows": PEOPLE})
    assert [one.key for one in (unnamed.value, *unnamed.value.others)] == ["metric", "trials", "factor", "parameters.max_depht"]
    with pytest.raises(StageError, match=r"has no trials.*\n.*learning_rate is any number.*\n.*subsample is any number") as found:
        plan_stage(search(method="grid", trials=5, parameters=ranges), {"rows": PEOPLE})
    assert [one.key for one in (found.value, *found.value.others)] == ["trials", "parameters.learning_rate", "parameters.subsample"]
    with pytest.raises(StageError, match="has no trials") as carried:
        raise pickle.loads(pickle.dumps(found.value))
    assert len(carried.value.others) == 2


def test_a_grid__takes_trials_of_another_method_that_are_set_to_nothing() -> None:
    assert plan_stage(search(trials=None), {"rows": PEOPLE}) == plan_stage(search(), {"rows": PEOPLE})


@pytest.mark.parametrize(("at_once", "threads"), [(1, 4), (2, 4), (3, 2), (8, 1), (100, 1), (0, 4)])
def test_trials_at_once__share_the_threads_of_all_workers(at_once: int, threads: int) -> None:
    session = Session()
    session.workers, session.threads = 2, 4
    rows = Table.of(session, "rows", [Part(PEOPLE)], schema=Schema(PEOPLE.schema))
    assert Alone.of(rows, Context("tested", SEED, session), at_once).threads == threads


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


def test_the_shipped_job__searches_and_validates(tmp_path: Path) -> None:
    names = {"id": "loan_id", "binary": "label"}
    PEOPLE.drop_nulls("binary").drop("regression", "multiclass").rename(names).write_parquet(tmp_path / "features.parquet")
    paths = {"inputs__features__path": str(tmp_path / "features.parquet"), "results": str(tmp_path / "results")}
    run = pipeline.load(Path(__file__).parents[3] / "jobs" / "search.yaml", stages__tuned__trials=9, **paths).run()
    assert run.metrics["tuned"]["search"]["trials"] == 9
    assert run.table("trials").to_polars()["rounds"].unique().sort().to_list() == [22, 66, 200]
    assert len([name for name in run.metrics["checked"] if name.startswith("fold ")]) == 5


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
            r"11:12: stages\.tuned\.model\.use: 'select' is no stage of the kind .*here\. Stages that are: linear, network, xgboost\.",
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


def test_a_search_that_is_run_again__takes_what_was_measured_and_runs_the_rest(tmp_path: Path) -> None:
    PEOPLE.write_parquet(tmp_path / "people.parquet", row_group_size=100)
    (tmp_path / "job.yaml").write_text(JOB)

    def found(**overrides: Any) -> tuple[int, pl.DataFrame]:
        run = pipeline.load("job.yaml", **overrides).run()
        return run.record["stages"]["tuned"]["counts"]["trials_found"], run.table("trials").to_polars()

    with inside(tmp_path):
        first, trials = found()
        shutil.rmtree("results/runs")
        Path("results/current").unlink()
        again, same = found()
        more, further = found(stages__tuned__trials=9, stages__tuned__metric="log_loss")
        other, _ = found(seed=6)
        PEOPLE.head(590).write_parquet("people.parquet")
        rows, _ = found()
    assert (first, again, more, other, rows) == (0, 6, 6, 0, 0)
    assert_frame_equal(same, trials, check_exact=True)
    columns = ["max_depth", "learning_rate", "subsample"]
    assert_frame_equal(further.head(6).select(columns), trials.select(columns))


@pytest.mark.process
def test_a_search_that_is_killed__goes_on_where_it_was(tmp_path: Path) -> None:
    PEOPLE.write_parquet(tmp_path / "people.parquet", row_group_size=100)
    (tmp_path / "job.yaml").write_text(JOB.replace("rounds: 10", "rounds: 300").replace("trials: 6", "trials: 12"))
    process, kept = start("job.yaml", "--quiet", cwd=tmp_path), tmp_path / "results" / "remembered"
    deadline = time.monotonic() + 120
    while len(list(kept.glob("[0-9a-f]*/manifest.json"))) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=60)
    measured = len(list(kept.glob("[0-9a-f]*/manifest.json")))
    assert 3 <= measured < 12
    with inside(tmp_path):
        resumed = pipeline.load("job.yaml").run()
        anew = pipeline.load("job.yaml", results="fresh").run()
    assert resumed.record["stages"]["tuned"]["counts"]["trials_found"] == measured
    assert anew.record["stages"]["tuned"]["counts"]["trials_found"] == 0
    for table in ("trials", "predictions"):
        assert_frame_equal(resumed.table(table).to_polars(), anew.table(table).to_polars(), rel_tol=1e-6)
    assert resumed.metrics["tuned"]["search"]["best_trial"] == anew.metrics["tuned"]["search"]["best_trial"]
