"""network by asynchronous learners: in step like one device, nearly as good with stale parameters, on threads and on workers."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sklearn.datasets import load_breast_cancer

from pipeline.errors import RunError, StageError
from pipeline.neural import asynchronous
from pipeline.stage import Context
from pipeline.stages.models.network import Network
from pipeline.tables.part import Schema
from pipeline.tables.session import ClusterSession
from pipeline.tables.table import Table
from pipeline.testing.stages import SEED, cut, even_sizes, plan_stage
from tests.stages.models.test_network import ROWS, Result, stage_for, train

pytestmark = pytest.mark.long  # JAX compiles its programs

WAYS: list[dict[str, int]] = [{"asynchronous": 2}, {"asynchronous": 4, "staleness": 2}]
GIVEN: dict[str, Any] = {"batch_size": 64, "rounds": 8, "layers": [16, 8], "dropout": 0.1, "early_stopping_rounds": None}
BOUND = 0.1  # of the validation loss: how much worse, or better, stale parameters may end


@pytest.mark.soak
def test_learners_in_step__have_the_loss_curve_of_one_device_and_the_same_model_again() -> None:
    one, found = (train(stage_for("binary", **GIVEN, parallel=way)) for way in (None, {"asynchronous": 4}))
    assert_frame_equal(found.tables["history"], one.tables["history"], rel_tol=1e-4)
    assert_frame_equal(found.tables[""], one.tables[""], rel_tol=1e-3, abs_tol=1e-4)
    assert found.metrics["parallel"]["staleness_most"] == 0
    assert train(stage_for("binary", **GIVEN, parallel={"asynchronous": 4})).model == found.model
    assert found.description["reproducible"]


@pytest.mark.soak
def test_stale_parameters__come_as_far_and_are_never_older_than_the_bound() -> None:
    ways = ({"data": 4}, {"asynchronous": 4, "staleness": 4})
    given = {**GIVEN, "rounds": 60, "learning_rate": 0.002}  # a lower rate than one device would bear
    same, found = (train(stage_for("regression", **given, parallel=way)) for way in ways)
    assert found.metrics["validation"]["rmse"] == pytest.approx(same.metrics["validation"]["rmse"], rel=BOUND)
    cost = found.metrics["parallel"]
    assert 0 <= cost["staleness_mean"] <= cost["staleness_most"] <= 4
    assert not found.description["reproducible"]


@pytest.mark.parametrize("layers", [pytest.param([], id="linear"), pytest.param([32, 16], id="network", marks=pytest.mark.soak)])
def test_the_best_round_of_stale_parameters__at_the_default_rate_is_about_as_good_on_real_rows(layers: list[int]) -> None:
    given = {"target": "y", "key": "id", "objective": "binary", "layers": layers, "dropout": 0, "batch_size": 64, "rounds": 60}
    ways: list[dict[str, Any]] = [{}, {"parallel": {"asynchronous": 4, "staleness": 8}}]
    one, stale = (best_round(train(Network.model_validate(given | way), tumours())) for way in ways)
    assert stale <= (1 + BOUND) * one
    assert stale < 0.3 < np.log(2)  # what a model says that knows nothing


def best_round(found: Result) -> float:
    """The least validation loss."""
    return float(found.tables["history"].filter(pl.col("split") == "validation")["value"].to_numpy().min())


def tumours() -> pl.DataFrame:
    """scikit-learn's breast cancer data: 569 rows of 30 measures, a quarter of them to validate."""
    data, split = load_breast_cancer(), np.random.default_rng(3).choice(["train", "validation"], 569, p=[0.75, 0.25])
    measures = pl.DataFrame(data.data, schema=[f"x{number}" for number in range(30)])
    return measures.with_columns(id=pl.int_range(569), y=pl.Series(data.target.astype(np.int64)), split=pl.Series(split))


def test_learners_of_two_workers__of_one_thread_each_come_as_far_and_in_step_go_the_same_way(workers: ClusterSession) -> None:
    one = train(stage_for("binary", **GIVEN))
    same, stale = (train(stage_for("binary", **GIVEN, parallel=way), ROWS, even_sizes(600, 3), workers) for way in WAYS)
    assert_frame_equal(same.tables["history"], one.tables["history"], rel_tol=1e-4)
    assert stale.metrics["validation"]["log_loss"] == pytest.approx(one.metrics["validation"]["log_loss"], rel=BOUND)
    assert stale.metrics["parallel"]["staleness_most"] <= 2


def test_a_learner_that_fails_on_a_worker__fails_the_run_by_name(workers: ClusterSession) -> None:
    (first, *_) = sorted(workers.client.scheduler_info(n_workers=-1)["workers"])
    workers.client.run(_broken, workers=[first])
    try:
        with pytest.raises(RunError, match=r"learner [1-4] of 4 failed: ValueError: no gradients here"):
            train(stage_for("binary", **GIVEN, parallel=WAYS[1]), ROWS, [600], workers)
    finally:
        workers.client.run(_mended, workers=[first])
    assert _idle(workers)


def test_a_run_that_is_given_up__leaves_no_learner_behind(workers: ClusterSession) -> None:
    stage = stage_for("binary", **{**GIVEN, "rounds": 100_000}, parallel=WAYS[1])
    table = Table.of(workers, "rows", cut(ROWS, [600]), schema=Schema(ROWS.schema))
    model = stage.run({"rows": table}, Context("tested", SEED, workers)).files["tested.safetensors"]
    until = time.monotonic() + 30
    while sum(workers.client.run(_at_work).values()) < 5 and time.monotonic() < until:
        time.sleep(0.1)
    workers.client.cancel([model], force=True)
    assert _idle(workers)


@pytest.mark.parametrize(
    ("parallel", "said"),
    [
        ({"asynchronous": 2, "data": 2}, "asynchronous learners go with none of data, model, pipeline or compress"),
        ({"asynchronous": 2, "compress": "int8"}, "asynchronous learners go with none of data, model, pipeline or compress"),
        ({"data": 2, "staleness": 3}, "staleness 3 is of asynchronous learners: say how many there are"),
        ({"asynchronous": 3}, "a batch of 64 rows cannot be cut into 3 equal pieces"),
    ],
)
def test_learners__are_refused_where_they_do_not_fit(parallel: dict[str, int], said: str) -> None:
    with pytest.raises(StageError, match=said):
        plan_stage(stage_for("binary", **GIVEN, parallel=parallel), {"rows": ROWS})


def _broken() -> None:
    """On a worker: no learner finds gradients."""
    names = vars(asynchronous)
    names["kept"], names["_gradients"] = names["_gradients"], _fails


def _fails(_task: Any) -> None:
    raise ValueError("no gradients here")


def _mended() -> None:
    """On a worker: they do again."""
    names = vars(asynchronous)
    names["_gradients"] = names.pop("kept")


def _at_work(dask_worker: Any) -> int:
    """How many tasks a worker runs."""
    return len(dask_worker.state.executing | dask_worker.state.long_running)


def _idle(workers: ClusterSession) -> bool:
    """Whether all tasks end soon."""
    until = time.monotonic() + 15
    while sum(workers.client.run(_at_work).values()):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True
