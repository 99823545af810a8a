"""network's `weight`: with one batch of all rows a row of weight 2 is that row twice, and odd weights are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stages.models.network import Network
from pipeline.testing.stages import plan_stage, run_stage
from tests import example_tables as examples

pytestmark = pytest.mark.long  # JAX compiles its programs

CLASSES = ["low", "middle", "high"]
TARGETS: dict[str, dict[str, Any]] = {"regression": {"target": "value"}, "binary": {"target": "label"}, "multiclass": {"target": "group"}}
ROWS = examples.modelled_rows()


def stage_for(objective: str, **more: Any) -> Network:
    """A network that goes down by the slope of all rows, without chance but that of its first parameters."""
    plain = {"batch_size": 4_096, "optimizer": "sgd", "momentum": 0, "learning_rate": 0.3, "dropout": 0, "rounds": 8, "layers": [12]}
    classes = {"classes": CLASSES} if objective == "multiclass" else {}
    learned = {"key": "id", "features": ["x", "y", "code"], "categorical": ["code"]}
    return Network.model_validate({"objective": objective, **learned, **plain, **TARGETS[objective], **classes, **more})


def weighed(target: str) -> pl.DataFrame:
    """The rows with weights from 0 to 3, missing where there is no target."""
    weights = pl.Series("heft", np.random.default_rng(5).integers(0, 4, ROWS.height))
    return ROWS.with_columns(pl.when(pl.col(target).is_not_null()).then(weights).alias("heft"))


def repeated(rows: pl.DataFrame) -> pl.DataFrame:
    """As many rows of each as it weighs, with new keys, and the old ones as `of`; none of weight 0."""
    often = rows["heft"].fill_null(1)
    several = rows.rename({"id": "of"}).select(pl.all().repeat_by(often).explode(keep_nulls=False, empty_as_null=False))
    return several.with_columns(id=pl.int_range(pl.len()))


@pytest.mark.parametrize("objective", TARGETS)
def test_weight__of_a_row_is_how_often_it_counts(objective: str) -> None:
    rows = weighed(TARGETS[objective]["target"])
    several = repeated(rows)
    found = run_stage(stage_for(objective, weight="heft"), {"rows": rows})
    expected = run_stage(stage_for(objective), {"rows": several})
    columns = pl.selectors.starts_with("prediction")
    here = several.select(id="of").join(found[""], on="id", how="left", maintain_order="left").select(columns)
    there = several.select("id").join(expected[""], on="id", how="left", maintain_order="left").select(columns)
    np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["history"]["value"], expected["history"]["value"], rtol=1e-4)


def test_weight__moves_the_model_alike_in_any_unit_and_over_several_devices() -> None:
    rows = weighed("label")
    stage = stage_for("binary", weight="heft", batch_size=64)
    found = run_stage(stage, {"rows": rows})[""]["prediction"].to_numpy()
    assert np.abs(found - run_stage(stage_for("binary", batch_size=64), {"rows": ROWS})[""]["prediction"].to_numpy()).max() > 1e-3
    scaled = run_stage(stage, {"rows": rows.with_columns(pl.col("heft") * 0.01)})[""]["prediction"].to_numpy()
    np.testing.assert_allclose(scaled, found, rtol=1e-4, atol=1e-5)
    for parallel in ({"data": 4}, {"pipeline": 2}):
        over = run_stage(stage_for("binary", weight="heft", batch_size=64, accumulate=2, parallel=parallel), {"rows": rows}, 7)
        np.testing.assert_allclose(over[""]["prediction"], found, rtol=1e-3, atol=1e-4)


def test_weight__that_is_none_is_refused() -> None:
    rows = weighed("label")
    stage = stage_for("binary", weight="heft")
    with pytest.raises(DataError, match="is -1, and weights are numbers of 0 or more"):
        run_stage(stage, {"rows": rows.with_columns(heft=-1)})
    with pytest.raises(DataError, match="every train row weighs 0 by 'heft'"):
        run_stage(stage, {"rows": rows.with_columns(heft=0)})
    with pytest.raises(StageError, match="'x' is the key, the target, the split or a feature already"):
        plan_stage(stage_for("binary", weight="x"), {"rows": rows})
