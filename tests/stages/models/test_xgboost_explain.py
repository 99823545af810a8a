"""xgboost's `explain`: SHAP values are XGBoost's own, sum to the margin, and are the same for any parts and close over workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import xgboost as xgb

from pipeline.errors import StageError
from pipeline.stages.models import _training_rows
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Table
from pipeline.testing.stages import even_sizes, plan_stage
from tests.report.pages import Page, page_of
from tests.stages.models.training import CLASSES, FEATURES, PEOPLE, Result, numbers, people, stage_for, train

TYPES = ["q", "q", "c", "q"]
EXPLAINED: dict[str, Any] = {"explain": True, "categorical": ["group"]}


def by_hand(found: Result, **more: Any) -> Any:
    """What the saved model says of all rows."""
    matrix = xgb.DMatrix(numbers(PEOPLE), feature_names=FEATURES, feature_types=TYPES, enable_categorical=True)
    return found.booster.predict(matrix, **more)


@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass"])
def test_shap__of_every_row_is_xgboosts_and_sums_to_its_margin(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_training_rows, "BATCH_ROWS", 128)
    found = train(stage_for(objective, **EXPLAINED), PEOPLE)
    table, expected, margin = found.tables["shap"], by_hand(found, pred_contribs=True), by_hand(found, output_margin=True)
    assert table.columns == ["id", *(["class"] if objective == "multiclass" else []), *FEATURES, "bias"]
    outputs = CLASSES if objective == "multiclass" else (None,)
    blocks = table.partition_by("class", maintain_order=True) if objective == "multiclass" else [table]
    for at, (name, block) in enumerate(zip(outputs, blocks, strict=True)):
        assert name is None or block["class"].unique().to_list() == [name]
        assert block["id"].equals(PEOPLE["id"])
        values = block.select(*FEATURES, "bias").to_numpy()
        assert np.array_equal(values, expected[:, at] if name else expected)
        assert values.sum(axis=1, dtype=np.float64) == pytest.approx(margin[:, at] if name else margin, abs=2e-5)
    assert found.model == train(stage_for(objective, categorical=["group"]), PEOPLE).model


def test_shap__means_stand_in_the_importance_and_on_the_page(tmp_path: Path) -> None:
    found = train(stage_for("multiclass", **EXPLAINED), PEOPLE)
    means = {name: found.tables["shap"].select(pl.col(name).cast(pl.Float64).abs().mean()).item() for name in FEATURES}
    for name, value in found.importance.select("feature", "mean_abs_shap").rows():
        assert value == pytest.approx(means[name], rel=1e-9)
    page = Page(page_of(tmp_path, {"importance": found.importance}))
    assert "mean |SHAP|" in page.text
    assert f"{max(means.values()):.4g}" in page.text


def test_shap__does_not_depend_on_the_parts(workers: ClusterSession) -> None:
    expected = train(stage_for("binary", **EXPLAINED), PEOPLE)
    for session in (Session(), workers):
        found = train(stage_for("binary", **EXPLAINED), PEOPLE, even_sizes(600, 7), session)
        assert found.tables["shap"].equals(expected.tables["shap"])
        assert found.importance.equals(expected.importance)


@pytest.mark.parametrize("objective", ["binary", "multiclass"])
def test_shap__over_workers_sums_to_the_margin_of_that_model(objective: str, workers: ClusterSession) -> None:
    many = people(4000)
    found = train(stage_for(objective, workers="all", **EXPLAINED), many, even_sizes(4000, 5), workers)
    matrix = xgb.DMatrix(numbers(many), feature_names=FEATURES, feature_types=TYPES, enable_categorical=True)
    margin = found.booster.predict(matrix, output_margin=True)
    table = found.tables["shap"]
    sums = table.select(pl.sum_horizontal(pl.col(*FEATURES, "bias").cast(pl.Float64))).to_series().to_numpy()
    assert sums == pytest.approx(margin.T.ravel(), abs=2e-5)
    assert table["id"].head(4000).equals(many["id"])


def test_shap__that_cannot_be_is_refused_by_the_plan() -> None:
    for name in ("bias", "class"):
        stage = stage_for("multiclass", features=[name, "b"], explain=True)
        with pytest.raises(StageError, match=f"column '{name}' has the name of a column of the SHAP values. Rename it before"):
            plan_stage(stage, {"rows": PEOPLE.rename({"a": name})})
    part = Part(PEOPLE, {"dosages": np.zeros((600, 2), np.float32)})
    axes = {"dosages": Table.of(Session(), "axis", [Part(pl.DataFrame({"variant_id": ["v1", "v2"]}))])}
    with pytest.raises(StageError, match="SHAP values are of features that are columns, and the table has dosages beside them"):
        train(stage_for("binary", explain=True), part, axes=axes)
