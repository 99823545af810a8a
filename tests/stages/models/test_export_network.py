"""export and compress of networks: ONNX predicts what JAX does, and weights in eight bits nearly the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import StageError
from pipeline.registry import stage_class
from pipeline.stages.models._smaller.thinned import filled
from pipeline.stages.models.export import Export
from pipeline.stages.models.score import Score
from pipeline.testing.stages import run_stage
from tests.stages.models.test_compress import compress
from tests.stages.models.test_network import ROWS, stage_for, train

pytestmark = pytest.mark.long  # JAX compiles its programs

SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("regression", {"layers": [12, 7], "activation": "relu"}),
    ("binary", {"activation": "gelu"}),
    ("multiclass", {"activation": "silu"}),
    ("regression", {"layers": []}),
    ("binary", {"activation": "tanh", "features": ["code"]}),
    ("multiclass", {"features": ["x", "y"], "categorical": []}),
]


@pytest.mark.parametrize(("objective", "more"), SHAPES)
def test_export__of_a_network_predicts_what_it_does(objective: str, more: dict[str, Any], tmp_path: Path) -> None:
    given = train(stage_for(objective, rounds=3, **more))
    compared = run_stage(Export(model=str(given.published(tmp_path))).opened(stage_class), {"rows": ROWS}, 2)[""]
    assert compared["rows"].to_list() == [ROWS.height] * (3 if objective == "multiclass" else 1)
    assert np.ptp(given.tables[""].select(pl.col("^prediction.*$")).to_numpy(), axis=0).min() > 1e-3


def test_quantize__of_a_network_is_a_quarter_of_its_size_and_scores(tmp_path: Path) -> None:
    given = train(stage_for("binary", layers=[64, 64], early_stopping_rounds=None))
    found = compress(str(given.published(tmp_path)), ROWS, method="quantize", tolerance=0.05)
    assert len(found.files["small.safetensors"]) < 0.4 * len(given.model)
    np.testing.assert_allclose(found.predicted, given.tables[""]["prediction"], atol=0.02)
    model = found.saved(tmp_path)
    scored = run_stage(Score(model=model).opened(stage_class), {"rows": ROWS})[""]
    assert_frame_equal(scored, found.predictions.select(scored.columns), check_exact=True)
    assert run_stage(Export(model=model).opened(stage_class), {"rows": ROWS})[""]["rows"].to_list() == [ROWS.height]


def test_prune_weights__leaves_the_smallest_of_each_matrix_out(tmp_path: Path) -> None:
    from safetensors.numpy import load

    given = train(stage_for("binary", layers=[64, 64], early_stopping_rounds=None))
    found = compress(str(given.published(tmp_path)), ROWS, method="prune_weights", tolerance=0.05)
    assert len(found.files["small.safetensors"]) < 0.9 * len(given.model) == 0.9 * found.counts["bytes_given"]
    before, told = load(given.model), json.loads(found.files["small.json"])
    after = load(filled(found.files["small.safetensors"], told["thinned"]))
    shares = set()
    for name, weights in before.items():
        same = after[name] == weights
        if weights.ndim < 2:
            assert same.all()
            continue
        shares.add(round(float((after[name] != 0).mean()), 1))
        assert np.abs(weights[~same]).max(initial=0) <= np.abs(after[name][same & (weights != 0)]).min()
        assert (after[name][~same] == 0).all()
    assert len(shares) <= 2  # each matrix has the same share, but for rounding
    scored = run_stage(Score(model=found.saved(tmp_path)).opened(stage_class), {"rows": ROWS})[""]
    assert_frame_equal(scored, found.predictions.select(scored.columns), check_exact=True)
    with pytest.raises(StageError, match="this model of network is made smaller by distill"):
        compress(str(tmp_path / "small.json"), ROWS, method="quantize")


def test_distill__of_boosted_trees_into_a_network_and_back(tmp_path: Path) -> None:
    given = train(stage_for("regression", rounds=20))
    student = {"use": "xgboost", "rounds": 30, "max_depth": 3}
    found = compress(str(given.published(tmp_path)), ROWS, method="distill", tolerance=5, student=student)
    again = {"use": "network", "layers": [4], "rounds": 5}
    back = compress(found.saved(tmp_path), ROWS, method="distill", tolerance=5, student=again)
    assert sorted(back.files) == ["small.json", "small.safetensors"]
    scored = run_stage(Score(model=back.saved(tmp_path)).opened(stage_class), {"rows": ROWS})[""]
    assert_frame_equal(scored, back.predictions.select(scored.columns), check_exact=True)
