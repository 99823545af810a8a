"""export and compress of linear models: ONNX in 64 bits predicts what they do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.registry import stage_class
from pipeline.stages.models.export import Export
from pipeline.stages.models.score import Score
from pipeline.testing.stages import run_stage
from tests.stages.models.fitting import PEOPLE, Result, fit, stage_for
from tests.stages.models.test_compress import compress


def published(result: Result, folder: Path) -> str:
    (folder / "tested.npz").write_bytes(result.model)
    (folder / "tested.json").write_text(json.dumps(result.description))
    return str(folder / "tested.json")


@pytest.mark.parametrize("target", ["normal", "binary", "poisson", "gamma", "multiclass"])
def test_export__of_a_linear_model_predicts_what_it_does(target: str, tmp_path: Path) -> None:
    given = fit(stage_for(target), PEOPLE)
    model = published(given, tmp_path)
    compared = run_stage(Export(model=model, tolerance=1e-9).opened(stage_class), {"rows": PEOPLE}, 2)[""]
    assert compared["rows"].to_list() == [PEOPLE.height] * (3 if target == "multiclass" else 1)
    assert np.ptp(given.predictions.select(pl.col("^prediction.*$")).to_numpy(), axis=0).min() > 0.1


@pytest.mark.parametrize("more", [{"l2": 0.01}, {}])
def test_quantize__of_several_classes_costs_little_whatever_units_features_have(more: dict[str, Any], tmp_path: Path) -> None:
    given = fit(stage_for("multiclass", **more), PEOPLE)
    found = compress(published(given, tmp_path), PEOPLE, method="quantize", tolerance=0.02)
    assert len(found.files["small.npz"]) != len(given.model)
    expected = given.predictions.select(pl.col("^prediction.*$")).to_numpy()
    np.testing.assert_allclose(found.predicted, expected, atol=0.02)
    scored = run_stage(Score(model=found.saved(tmp_path)).opened(stage_class), {"rows": PEOPLE})[""]
    assert_frame_equal(scored, found.predictions.select(scored.columns), check_exact=True)


def test_distill__of_a_linear_model_into_another_gives_it_back(tmp_path: Path) -> None:
    given = fit(stage_for("binary"), PEOPLE)
    found = compress(published(given, tmp_path), PEOPLE, method="distill", tolerance=0.01, student={"use": "linear"})
    np.testing.assert_allclose(found.predicted, given.predictions["prediction"], atol=0.005)  # its rows of training have a target
