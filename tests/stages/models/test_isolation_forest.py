"""isolation_forest: scikit-learn's scores of a forest on the same sample, for any parts, and new rows get what training gave."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, InputError, PlaceError, StageError
from pipeline.stages._keys import FRACTION, STEP, with_fraction
from pipeline.stages.models import _classical
from pipeline.stages.models.isolation_forest import IsolationForest
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import SEED, plan_stage, shuffled, table_schemas
from tests.stages.models.points import BLOBS, FEATURES, learn, matrix


def stage_for(**more: Any) -> IsolationForest:
    return IsolationForest.model_validate({"key": "id", "features": FEATURES, "trees": 20, "max_samples": 64, **more})


EXAMPLES = [
    StageExample(stage_for(split="split", contamination=0.05), {"rows": BLOBS}, needs="sklearn"),
    StageExample(stage_for(sample=80, max_features=0.7, missing="mean"), {"rows": BLOBS}, needs="sklearn"),
]


def fractions(frame: pl.DataFrame, seed: int = SEED) -> Any:
    """The hash of every row's key."""
    rows = Table.of(Session(), "rows", [Part(frame)], schema=table_schemas({"rows": frame})["rows"])
    return concat_parts(with_fraction(rows, ["id"], STEP * (seed + 1)).futures()).frame[FRACTION].to_numpy()


def by_hand(frame: pl.DataFrame, sample: int = 100_000, seed: int = SEED, **more: Any) -> Any:
    """scikit-learn's forest on the rows of the lowest hashes, in their order."""
    from sklearn.ensemble import IsolationForest as Oracle

    order = np.argsort(fractions(frame, seed))[:sample]
    given = {"n_estimators": 20, "max_samples": min(64, len(order)), "random_state": seed % 2**32, **more}
    return Oracle(**given).fit(matrix(frame)[order].astype(np.float32))


@pytest.mark.parametrize("more", [{}, {"max_features": 0.7}, {"contamination": 0.1}, {"max_samples": 200, "n_estimators": 7}], ids=str)
@pytest.mark.parametrize("sample", [100_000, 90])
def test_isolation_forest__is_scikit_learns_on_the_same_sample(sample: int, more: dict[str, Any]) -> None:
    oracle = by_hand(BLOBS, sample, **(more | ({"max_samples": min(200, sample)} if "max_samples" in more else {})))
    ours = {"trees" if name == "n_estimators" else name: value for name, value in more.items()}
    if "max_samples" in ours:
        ours["max_samples"] = min(200, sample)
    found = learn(stage_for(sample=sample, **ours), BLOBS, 3)
    points = matrix(BLOBS).astype(np.float32)
    np.testing.assert_allclose(found.rows["score"], -oracle.score_samples(points), rtol=1e-12)
    assert found.rows["anomaly"].to_list() == (oracle.predict(points) < 0).tolist()
    assert found.counts["anomalies"] == (oracle.predict(points) < 0).sum()
    assert found.counts["sample_rows"] == min(sample, BLOBS.height)
    assert found.metrics["mean_score"] == pytest.approx(-oracle.score_samples(points).mean())


def test_isolation_forest__learns_from_the_rows_of_split_train_alone() -> None:
    train = BLOBS.filter(pl.col("split") == "train")
    found = learn(stage_for(split="split"), BLOBS, 2)
    np.testing.assert_allclose(found.rows["score"], -by_hand(train).score_samples(matrix(BLOBS).astype(np.float32)), rtol=1e-12)
    assert set(found.metrics) == {"train", "validation", "test"}
    share = found.rows.filter(pl.col("split") == "test")["anomaly"].mean()
    assert found.metrics["test"]["anomaly_share"] == pytest.approx(share)
    assert found.counts["rows_train"] == train.height


def test_isolation_forest__is_the_same_for_any_parts_and_order_and_seed_says_another() -> None:
    whole = learn(stage_for(sample=100), BLOBS)
    for frame, parts in ((BLOBS, 2), (BLOBS, 7), (shuffled(BLOBS), 3), (BLOBS, [0, 100, 200, 0])):
        assert isinstance(frame, pl.DataFrame)
        found = learn(stage_for(sample=100), frame, parts)
        assert_frame_equal(found.rows, whole.rows, check_exact=True)
        assert found.model == whole.model
    assert learn(stage_for(sample=100, seed=5), BLOBS).model != whole.model


def test_isolation_forest__over_two_workers_is_that_of_one(workers: ClusterSession) -> None:
    whole, found = learn(stage_for(), BLOBS), learn(stage_for(), BLOBS, 4, workers)
    assert_frame_equal(found.rows, whole.rows, check_exact=True)
    assert found.model == whole.model


@pytest.mark.parametrize("more", [{}, {"missing": "mean", "contamination": 0.03}], ids=["known", "missing"])
def test_score__says_of_the_rows_of_training_what_training_did(
    more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = BLOBS.with_columns(b=pl.when(pl.col("a") > 480).then("b")) if more else BLOBS
    found = learn(stage_for(**more), rows, 3)
    monkeypatch.setattr(_classical, "find_spec", lambda _name: None)
    for parts in (1, 7):
        assert_frame_equal(found.scored(rows.drop("split"), tmp_path, parts), found.rows, check_exact=True)


def test_isolation_forest__counts_a_missing_value_as_the_mean_where_told_so() -> None:
    rows = BLOBS.with_columns(b=pl.when(pl.col("a") > 480).then("b"))
    filled = rows.with_columns(pl.col("b").fill_null(strategy="mean"))
    found = learn(stage_for(missing="mean"), rows, 2)
    np.testing.assert_allclose(found.rows["score"], -by_hand(filled).score_samples(matrix(filled).astype(np.float32)), rtol=1e-12)
    with pytest.raises(DataError, match="feature 'b' is missing in"):
        learn(stage_for(), rows)


def test_isolation_forest__is_published_as_arrays_without_pickles() -> None:
    found = learn(stage_for(), BLOBS)
    with np.load(io.BytesIO(found.model), allow_pickle=False) as file:
        assert {"feature", "threshold", "left", "right", "length", "roots"} <= set(file.files)
        assert len(file["roots"]) == 20
    with pytest.raises(InputError, match="these bytes are no model"):
        IsolationForest.predictor(found.description, b"nothing", "cpu")


def test_isolation_forest__finds_a_row_that_stands_alone() -> None:
    alone = pl.concat([BLOBS, BLOBS.head(1).with_columns(id=pl.lit("alone"), a=pl.lit(900.0), b=pl.lit(40.0))])
    found = learn(stage_for(trees=100), alone)
    assert found.rows.sort("score")["id"][-1] == "alone"


def test_isolation_forest__refuses_what_it_cannot_take(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"a forest of 1 row; two or more are needed"):
        learn(stage_for(), BLOBS.head(1))
    with pytest.raises(DataError, match="feature 'b' has values beyond the 32 bits that trees take"):
        learn(stage_for(), BLOBS.with_columns(b=pl.col("b") * 1e300))
    with pytest.raises(StageError, match="column 'score' has the name of a column of the answer"):
        plan_stage(stage_for(key="score"), {"rows": BLOBS.rename({"id": "score"})})
    monkeypatch.setattr(_classical, "find_spec", lambda _name: None)
    with pytest.raises(PlaceError, match=r"scikit-learn is not installed\. Install it with: pip install '\.\[classical\]'"):
        plan_stage(stage_for(), {"rows": BLOBS})
