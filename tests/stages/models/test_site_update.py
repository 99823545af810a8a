"""site_update: rounds over three sites against training on all of their rows, what a site sends, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.backend.neural import arrays_of
from pipeline.errors import DataError, StageError
from pipeline.stages.models.network import Network
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from tests.stages.models.federation import Watching, assert_keeps_secrets
from tests.stages.models.rounds import FEATURES, TARGETS, Study, frame_of, kept_rows, kept_stage, ran, rows_of, training_rows

pytestmark = pytest.mark.long  # JAX compiles its programs

EXAMPLES = [StageExample(kept_stage("oslo"), {"rows": kept_rows("oslo")}, ordered=True, needs="jax")]
CATEGORIES: dict[str, Any] = {"layers": (4,), "activation": "tanh", "categorical": {"region": 3}, "embedding": 2}


def parameters(study: Study) -> dict[str, Any]:
    """The arrays of the model as it is now."""
    return arrays_of((study.folder / "risk.safetensors").read_bytes())


def pooled_network(objective: str, rounds: int, rate: float, **more: Any) -> Any:
    """What `network` learns of all sites' rows together: one step of plain gradient descent a round."""
    given = {
        "key": "id", "target": TARGETS[objective], "objective": objective, "features": (*FEATURES, *more.get("categorical", ())),
        "batch_size": 10_000, "optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.0, "clip": None, "dropout": 0.0, "rounds": rounds,
        "learning_rate": rate, "layers": (), **more,
    }  # fmt: skip
    return ran(Network.model_validate({**given, "categorical": tuple(more.get("categorical", ()))}), training_rows())


@pytest.mark.parametrize(
    ("objective", "start"),
    [("binary", {}), ("regression", {"layers": (4,)}), ("multiclass", {**CATEGORIES, "classes": (0, 1, 2)})],
)
def test_rounds_of_one_full_batch__are_gradient_descent_on_all_rows(objective: str, start: dict[str, Any], tmp_path: Path) -> None:
    study = Study(tmp_path, objective, start)
    study.rounds(4, learning_rate=0.3)
    classes = {"classes": start["classes"]} if "classes" in start else {}
    expected = pooled_network(objective, 4, 0.3, **{**start, **classes})
    theirs, ours = arrays_of(expected.files["risk.safetensors"]), parameters(study)
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        if "embedding" not in name:  # a row of an embedding that no row has is drawn here, and 0 there
            np.testing.assert_allclose(ours[name], array, rtol=1e-5, atol=1e-6, err_msg=name)
    history = pl.concat([part.frame for part in expected.tables["history"].futures()])
    np.testing.assert_allclose(study.losses(), history["value"].to_numpy(), rtol=1e-5)


def test_rounds_of_one_full_batch__are_steps_by_hand(tmp_path: Path) -> None:
    study = Study(tmp_path)
    rows = training_rows()
    values = rows.select(FEATURES).to_numpy()
    x = np.column_stack([(values - values.mean(axis=0)) / values.std(axis=0), np.ones(len(values))])
    weights = np.append(parameters(study)["layers_0/kernel"][:, 0], 0.0).astype(float)
    study.rounds(3, learning_rate=0.5)
    for _ in range(3):
        weights -= 0.5 * x.T @ (1 / (1 + np.exp(-x @ weights)) - rows["ill"].to_numpy()) / len(x)
    found = parameters(study)
    np.testing.assert_allclose(np.append(found["layers_0/kernel"][:, 0], found["layers_0/bias"]), weights, atol=2e-6)


def test_rounds_of_several_epochs__come_within_a_hundredth_of_the_best_loss(tmp_path: Path) -> None:
    from statsmodels.api import Logit, add_constant

    study = Study(tmp_path)
    study.rounds(8, epochs=4, batch_size=24, learning_rate=0.2)
    rows = training_rows()
    best = -Logit(rows["ill"].to_numpy(), add_constant(rows.select(FEATURES).to_numpy())).fit(disp=False).llf / rows.height
    assert study.losses()[0] > 1.1 * best
    assert best <= study.losses()[-1] < 1.01 * best


def test_site_update__looks_like_random_digits_and_has_other_masks_in_another_round(tmp_path: Path) -> None:
    study = Study(tmp_path, start={"layers": (16,)})
    first = frame_of(study.update("oslo"))
    content = np.frombuffer(bytes.fromhex("".join(first["masked"])), np.uint8)
    size = 8 * len(content)
    assert abs(int(np.unpackbits(content).sum()) - size / 2) < 4 * (size / 4) ** 0.5
    study.rounds(1, learning_rate=1e-9)
    again = frame_of(study.update("oslo"))
    assert not {*first["masked"]} & {*again["masked"]}
    assert [text.partition(",")[2][:9] for text in (first["study"][0], again["study"][0])] == [" round 1,", " round 2,"]


def test_site_update__keeps_its_losses_at_the_site(tmp_path: Path) -> None:
    outcome = Study(tmp_path).update("oslo", epochs=3, batch_size=20)
    assert outcome.metrics["training"]["round"] == 1
    assert outcome.metrics["training"]["loss_last_epoch"] < outcome.metrics["training"]["loss_first_epoch"]
    assert outcome.counts == {"rows_used": rows_of("oslo").filter(split="train").height, "round": 1}


@pytest.mark.parametrize(
    ("columns", "more", "message"),
    [
        ({}, {"least": 500}, "site 'oslo' has 7. rows to learn from, and least is 500"),
        ({"ill": pl.col("ill") * 2}, {}, "'ill' is not binary"),
        ({"age": pl.lit(float("inf"))}, {}, "'age' has infinite values"),
        ({}, {"learning_rate": 10.0, "epochs": 400, "momentum": 0.99}, "training does not hold together"),
    ],
)
def test_site_update__refuses_rows_that_cannot_be_learned(columns: Any, more: dict[str, Any], message: str, tmp_path: Path) -> None:
    study = Study(tmp_path, "regression" if "epochs" in more else "binary")
    with pytest.raises(DataError, match=message):
        study.update("oslo", rows_of("oslo").with_columns(**columns), **more)


def test_site_update__refuses_at_plan_time(tmp_path: Path) -> None:
    study = Study(tmp_path)
    for rows, more, message in (
        (rows_of("oslo").drop("ill"), {}, "no column 'ill'"),
        (rows_of("oslo").cast({"age": pl.Float32}), {}, "'age' is Float32, and was Float64"),
        (rows_of("oslo"), {"split": "dose"}, "'dose' is Float64: it must say train"),
        (rows_of("oslo"), {"secrets": {}}, "no secret shared with site 'berlin'"),
    ):
        with pytest.raises(StageError, match=message):
            study.update("oslo", rows, **more)
    told = json.loads((tmp_path / "risk.json").read_text())
    del told["federated"]
    (tmp_path / "risk.json").write_text(json.dumps(told))
    with pytest.raises(StageError, match="was not made by federated_start"):
        study.update("oslo")


def test_site_update__gives_no_task_a_secret() -> None:
    session, rows = Watching(), kept_rows("oslo")
    assert_keeps_secrets(kept_stage("oslo"), {"rows": Table.of(session, "rows", [Part(rows)], schema=Schema(rows.schema))}, session)
