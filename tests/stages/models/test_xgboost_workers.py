"""xgboost with `workers: all`: xgboost.dask on two processes, close to the one-task model and the same run after run."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError
from pipeline.running.progress import progress_of
from pipeline.tables.part import Part
from pipeline.tables.rounds import Round
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Table
from pipeline.testing.stages import even_sizes
from tests.harness import two_workers
from tests.stages.models.training import CLASSES, PEOPLE, people, stage_for, train

MANY = people(4000)
PARTS = even_sizes(MANY.height, 5)


def test_workers_all__gives_the_same_model_run_after_run_close_to_the_one_task_model(workers: ClusterSession) -> None:
    stage = stage_for("binary", workers="all", class_weight="balanced", categorical=["group"])
    one = train(stage, MANY, PARTS)
    first, second = train(stage, MANY, PARTS, workers), train(stage, MANY, PARTS, workers)
    assert second.model == first.model != one.model
    assert second.predictions.equals(first.predictions)
    assert first.predictions.drop("prediction").equals(one.predictions.drop("prediction"))
    assert first.booster.feature_types == ["q", "q", "c", "q"]
    assert "group:{" in "".join(first.booster.get_dump())
    assert first.booster.num_boosted_rounds() == first.counts["trees_used"] == first.description["trees_used"] < 80
    assert first.metrics["test"]["auc"] == pytest.approx(one.metrics["test"]["auc"], abs=0.01)
    unweighted = train(stage_for("binary", categorical=["group"]), MANY)
    assert abs(first.predicted - one.predicted).mean() < abs(first.predicted - unweighted.predicted).mean() / 2 < 0.05


def test_workers_all__says_its_rounds_and_ends_where_it_is_given_up(workers: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[Round]()

    def look() -> None:
        """Give up when two rounds were seen."""
        seen.extend(progress_of(workers.client, workers.submitted).rounds.values())
        if len({last.at for last in seen}) > 1:
            raise KeyboardInterrupt("as Ctrl-C does")

    monkeypatch.setattr(workers, "look", look)
    with pytest.raises(KeyboardInterrupt, match="as Ctrl-C does"):
        train(stage_for("regression", workers="all", rounds=100_000, early_stopping_rounds=50_000), MANY, PARTS, workers)
    assert seen[0].of == 100_000
    assert "validation rmse" in seen[0].figures
    while any(workers.client.processing().values()):  # else 100,000 rounds, which outlast the test
        time.sleep(0.05)


@pytest.mark.parametrize("objective", ["regression", "multiclass"])
def test_workers_all__other_objectives_too(objective: str, workers: ClusterSession) -> None:
    stage = stage_for(objective, workers="all", categorical=["group"])
    found, one = train(stage, MANY, PARTS, workers), train(stage, MANY)
    for name, value in one.metrics["test"].items():
        assert found.metrics["test"][name] == pytest.approx(value, rel=0.05), name
    assert found.predicted.shape == ((MANY.height, len(CLASSES)) if objective == "multiclass" else (MANY.height,))


def test_workers_all__without_early_stopping_trains_all_rounds_on_all_rows(workers: ClusterSession) -> None:
    stage = stage_for("binary", workers="all", split=None, early_stopping_rounds=None, rounds=5)
    found = train(stage, PEOPLE.drop("split"), [300, 300], workers)
    assert found.booster.num_boosted_rounds() == 5
    assert set(found.metrics) == {"train"}


def test_workers_all__empty_parts_and_parts_of_one_split_do_not_break_it(workers: ClusterSession) -> None:
    ordered = PEOPLE.sort("split", maintain_order=True)  # test, train, validation
    test, fitting, validation = (len(rows) for rows in ordered.partition_by("split", maintain_order=True))
    sizes = [0, test, fitting, 0, validation]
    found = train(stage_for("binary", workers="all", categorical=["group"]), ordered, sizes, workers)
    assert found.predictions["id"].to_list() == PEOPLE["id"].to_list()
    assert found.metrics["test"]["auc"] == pytest.approx(train(stage_for("binary"), PEOPLE).metrics["test"]["auc"], abs=0.05)


def test_workers_all__takes_dosages(workers: ClusterSession) -> None:
    dosages = np.random.default_rng(2).integers(0, 3, (PEOPLE.height, 2)).astype(np.float32)
    part = Part(PEOPLE.with_columns(binary=pl.Series((dosages[:, 1] == 2).astype(int))), {"dosages": dosages})
    variants: Any = pl.DataFrame({"variant_id": ["rs1", "rs2"]})
    stage = stage_for("binary", workers="all", early_stopping_rounds=None, rounds=10)
    found = train(stage, part, [200, 400], workers, axes={"dosages": Table.of(workers, "axis", [Part(variants)])})
    assert found.importance["feature"][0] == "rs2"
    assert found.metrics["test"]["auc"] == 1


def test_workers_all__of_one_part_or_one_worker_is_the_one_task_model(workers: ClusterSession) -> None:
    stage, expected = stage_for("binary", workers="all"), train(stage_for("binary"), PEOPLE)
    assert train(stage, PEOPLE, [600], workers).model == expected.model
    assert train(stage, PEOPLE, [300, 300], Session()).model == expected.model


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"binary": pl.lit(1)}, "'binary' is 1 in every training row"),
        ({"a": 1 / pl.col("whole")}, "stage tested: feature 'a' has infinite values"),
        ({"id": pl.lit("p")}, "key 'id' has the value 'p' twice"),
    ],
)
def test_workers_all__names_what_cannot_be_learned(change: dict[str, pl.Expr], message: str, workers: ClusterSession) -> None:
    with pytest.raises(DataError, match=message):
        train(stage_for("binary", workers="all"), PEOPLE.with_columns(**change), [300, 300], workers)


@pytest.mark.process
@pytest.mark.soak
def test_workers_all__training_begins_again_when_a_worker_is_killed() -> None:
    with two_workers() as session:
        pids = session.client.run(os.getpid)

        def kill_one() -> None:
            """Kill a worker once the same task, of XGBoost and not of ours, was seen on it twice, half a second apart."""
            address = next(iter(pids))
            before: Any = None
            now: Any = ()
            while not now or now != before or any(key.startswith("tested") for key in now):
                time.sleep(0.5)
                before, now = now, session.client.processing()[address]
            os.kill(next(iter(pids.values())), signal.SIGKILL)

        killer = threading.Thread(target=kill_one, daemon=True)
        killer.start()
        trained = train(stage_for("binary", workers="all", rounds=2_500, early_stopping_rounds=None), MANY, PARTS, session)
        killer.join(120)
        assert not killer.is_alive()
        assert len(trained.model) > 0
        (note,) = session.notes
        assert "training began again; the model may be another one, about as good. XGBoost and Dask say: " in note
