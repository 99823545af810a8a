"""xgboost with `workers: all`: the model of one task whatever the workers and parts, and the same bytes where one of them is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import xgboost as xgb

from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.local import Local
from pipeline.errors import DataError, StageError
from pipeline.plan.fingerprints import digest
from pipeline.results.checkpoints import Keeping
from pipeline.results.remembered import Remembered
from pipeline.results.store import open_store
from pipeline.running.progress import progress_of
from pipeline.stage import Context, Outcome
from pipeline.stages.models._trees.blocks import BLOCK
from pipeline.stages.models._trees.draws import Draws
from pipeline.stages.models._trees.over_workers import _Training
from pipeline.stages.models.xgboost import Xgboost
from pipeline.tables.part import Part, Schema
from pipeline.tables.rounds import Round
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Table
from pipeline.tables.together import Together
from pipeline.testing.stages import SEED, cut, even_sizes
from tests.harness import in_process
from tests.stages.models.training import FEATURES, PEOPLE, native, people, stage_for, train

MANY = people(2000)
PARTS = even_sizes(MANY.height, 5)


@pytest.fixture(scope="module")
def three() -> Iterator[ClusterSession]:
    """A session on three workers that are threads of this process."""
    with in_process(3) as session:
        yield session


SKEWED = [1, 1_500, 0, 490, 9]  # rows of parts: of the first part one, of the third none
WEIGHTED = MANY.with_columns(weight=pl.int_range(pl.len()) % 4 * 0.7)


@pytest.mark.parametrize(
    ("objective", "more"),
    [
        ("binary", {"class_weight": "balanced", "categorical": ["group"], "watch": "both", "metric": "auc"}),
        ("regression", {"subsample": 0.5, "colsample": 0.5, "weight": "weight", "watch": "both"}),
        (
            "multiclass",
            {"parameters": {"grow_policy": "lossguide", "max_leaves": 5, "gamma": 0.1, "colsample_bynode": 0.7}, "metric": "auc"},
        ),
        ("multiclass", {"subsample": 0.6, "class_weight": "balanced", "weight": "weight", "categorical": ["group"]}),
    ],
)
def test_workers_all__gives_the_model_of_one_task_whatever_the_workers_and_parts(
    objective: str, more: dict[str, Any], workers: ClusterSession, three: ClusterSession
) -> None:
    one = train(stage_for(objective, **more), WEIGHTED)
    stage = stage_for(objective, workers="all", **more)
    for session, sizes in ((workers, PARTS), (three, SKEWED)):
        found = train(stage, WEIGHTED, sizes, session)
        same_trees(found.booster, one.booster)
        np.testing.assert_allclose(found.predicted, one.predicted, rtol=2e-6, atol=1e-6)
        assert found.predictions["id"].equals(one.predictions["id"])
        assert found.tables["history"].drop("value").equals(one.tables["history"].drop("value"))
        np.testing.assert_allclose(found.tables["history"]["value"], one.tables["history"]["value"], rtol=1e-6)
        assert (found.counts, session.notes) == (one.counts, [])


def same_trees(found: xgb.Booster, expected: xgb.Booster) -> None:
    """Splits are of the same features at the same values; leaves say the same but for rounding."""
    mine, right = (booster.trees_to_dataframe() for booster in (found, expected))
    for column in ("Tree", "Node", "Feature", "Split", "Yes", "No", "Missing", "Category"):
        assert mine[column].equals(right[column]), column
    np.testing.assert_allclose(mine["Cover"], right["Cover"], rtol=1e-5)
    assert found.feature_types == expected.feature_types


def test_workers_all__is_what_xgboost_trains_on_the_whole_table(workers: ClusterSession) -> None:
    booster, expected = native(MANY, "binary", types=["q", "q", "c", "q"])
    booster.feature_names = FEATURES
    found = train(stage_for("binary", workers="all", categorical=["group"]), MANY, SKEWED, workers)
    same_trees(found.booster, booster[: booster.best_iteration + 1])
    np.testing.assert_allclose(found.predicted, expected, rtol=2e-6)


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


def test_workers_all__one_worker_may_have_the_shares_of_others(three: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_for("binary", workers="all", subsample=0.5, weight="weight")
    expected = train(stage, WEIGHTED, SKEWED, three)
    once, workers = _Training._once, Together.workers

    def on_two(self: _Training, *arguments: Any) -> Any:
        """Train on two of the three workers that the rows were divided for."""
        with monkeypatch.context() as patched:
            patched.setattr(Together, "workers", lambda together: workers(together)[:2])
            return once(self, *arguments)

    monkeypatch.setattr(_Training, "_once", on_two)
    assert train(stage, WEIGHTED, SKEWED, three).model == expected.model


def test_workers_all__refuses_quantiles() -> None:
    stage = stage_for("quantile", target="regression", quantiles=[0.1, 0.9], workers="all")
    with pytest.raises(StageError, match=r"quantiles are learned in one task: of several, XGBoost takes the mean of theirs\. Leave it out"):
        stage.plan({"rows": Schema(PEOPLE.schema)}, Context("tested", SEED, Session()))


def trained(stage: Xgboost, session: Session, folder: Path) -> Outcome:
    """What the stage gives, which keeps how far it has come in a folder."""
    rows = Table.of(session, "rows", cut(WEIGHTED, SKEWED), schema=Schema(WEIGHTED.schema))
    return stage.run({"rows": rows}, Context("tested", SEED, session, Remembered.of(open_store(str(folder)), ["these rows"], digest)))


LONG: dict[str, Any] = {"early_stopping_rounds": None, "rounds": 3 * BLOCK, "subsample": 0.5, "weight": "weight"}


def test_workers_all__goes_on_from_the_last_block_where_the_run_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, three: ClusterSession
) -> None:
    stage, asked = stage_for("binary", workers="all", **LONG), list[int]()

    def due(keeping: Keeping) -> bool:
        """Keep the first two blocks, and then no more: what is left is what a kill would leave."""
        asked.append(1)
        return keeping._place is not None and len(asked) <= 2

    with monkeypatch.context() as patched:
        patched.setattr(Keeping, "due", due)
        whole = trained(stage, three, tmp_path)
        expected = {name: file.result(60) for name, file in whole.files.items()}, whole.metrics.result(60)
    resumed = trained(stage, three, tmp_path)
    found = {name: file.result(60) for name, file in resumed.files.items()}, resumed.metrics.result(60)
    assert resumed.counts.result(60)["rounds_found"] == 2 * BLOCK
    assert found == expected


def die_at(at: int) -> None:
    """Have this process die in the middle of a round of its next training."""

    def dying(self: Draws, booster: Any, matrix: Any, number: int) -> None:
        """Grow a round's trees, but for one round."""
        if number == at:
            os.kill(os.getpid(), signal.SIGKILL)
        update(self, booster, matrix, number)

    update = Draws.update
    pytest.MonkeyPatch().setattr(Draws, "update", dying)


@pytest.mark.process
@pytest.mark.parametrize("at", [pytest.param(0, marks=pytest.mark.soak), 20, pytest.param(3 * BLOCK - 1, marks=pytest.mark.soak)])
def test_workers_all__gives_the_same_bytes_where_a_worker_is_lost(at: int, tmp_path: Path) -> None:
    stage = stage_for("multiclass", workers="all", **LONG)
    with open_cluster(Local(workers=2, threads=1, dashboard=False), "cpu") as cluster:
        session = cluster.session()
        expected = trained(stage, session, tmp_path / "undisturbed").files["tested.ubj"].result(60)
        session.client.run(die_at, at, workers=[max(session.client.nthreads())])
        found = trained(stage, session, tmp_path / "disturbed").files["tested.ubj"].result(60)
    assert found == expected
    (note,) = session.notes
    assert note.startswith("tested: training was begun again, from where it stood; the model is the same (")
