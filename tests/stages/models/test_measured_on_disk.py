"""Metrics of predictions that are read part by part, against scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as reference

from pipeline.stages.models import _measured_on_disk
from pipeline.stages.models._measured_on_disk import measured_on_disk
from pipeline.stages.models._training_rows import SPLITS, Labels
from pipeline.stages.models.linear import Linear

ROWS = 30_000
EDGES = [0, 1, 9_000, 9_000, 20_500, ROWS]
RANDOM = np.random.default_rng(20261201)
SPLIT = RANDOM.choice([-1, 0, 0, 0, 1, 2], ROWS).astype(np.int8)


def read(truth: Any, predicted: Any, weights: Any, seen: list[int] | None = None) -> Callable[[], Iterator[tuple[Labels, Any, Any]]]:
    """Rows in parts, of which one is empty and one has a row; `seen` counts how often they are read."""

    def parts() -> Iterator[tuple[Labels, Any, Any]]:
        """From the first one on."""
        if seen is not None:
            seen.append(1)
        for low, high in pairwise(EDGES):
            yield Labels(truth[low:high], SPLIT[low:high]), predicted[low:high], None if weights is None else weights[low:high]

    return parts


def asked(objective: str, **more: Any) -> Linear:
    """A stage with this objective."""
    return Linear.model_validate({"target": "truth", "key": "id", "objective": objective, "split": "split", **more})


def known(truth: Any, weights: Any, split: str) -> Any:
    """The rows of a split that count."""
    return (SPLITS.index(split) == SPLIT) & ~np.isnan(truth) & (True if weights is None else weights > 0)


@pytest.fixture(params=[False, True], ids=["alike", "weighted"])
def weights(request: pytest.FixtureRequest) -> Any:
    """None, or weights of which some are 0."""
    return RANDOM.integers(0, 4, ROWS) * 0.7 if request.param else None


@pytest.mark.parametrize("most", [ROWS, 4_000, 700])
@pytest.mark.parametrize("decimals", [1, 12])
def test_a_binary_model__has_the_area_of_all_pairs_whatever_is_in_memory(
    most: int, decimals: int, weights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_measured_on_disk, "EACH", 7)
    truth = np.where(RANDOM.random(ROWS) < 0.02, np.nan, RANDOM.random(ROWS) < 0.3)
    predicted = np.clip((RANDOM.normal(0.4, 0.2, ROWS) + np.where(truth == 1, 0.1, 0)).round(decimals), 0.001, 0.999)
    seen = list[int]()
    found = measured_on_disk(asked("binary"), read(truth, predicted, weights, seen), most)
    for split in SPLITS:
        of = known(truth, weights, split)
        weight = None if weights is None else weights[of]
        assert found[split] == {
            "auc": pytest.approx(reference.roc_auc_score(truth[of], predicted[of], sample_weight=weight), abs=1e-12),
            "log_loss": pytest.approx(reference.log_loss(truth[of], predicted[of], sample_weight=weight), rel=1e-9),
            "accuracy": pytest.approx(reference.accuracy_score(truth[of], predicted[of] >= 0.5, sample_weight=weight), rel=1e-12),
        }
    ranges = -(-ROWS // most)
    assert len(seen) == 1 + ranges if decimals == 12 else len(seen) <= 1 + min(ranges, 12)  # rows that tie are in one


def test_a_regression__has_the_errors_of_all_rows(weights: Any) -> None:
    truth = np.where(RANDOM.random(ROWS) < 0.02, np.nan, 1e6 + np.arange(ROWS) / 1_000 + RANDOM.normal(0, 2, ROWS))  # parts lie apart
    predicted = np.nan_to_num(truth) + RANDOM.normal(0, 1, ROWS)
    found = measured_on_disk(asked("regression"), read(truth, predicted, weights), 10)
    for split in SPLITS:
        of = known(truth, weights, split)
        weight = None if weights is None else weights[of]
        mean_square = reference.mean_squared_error(truth[of], predicted[of], sample_weight=weight)
        explained = reference.r2_score(truth[of], predicted[of], sample_weight=weight)
        assert found[split] == {"rmse": pytest.approx(mean_square**0.5, rel=1e-12), "r2": pytest.approx(explained, rel=1e-9)}


def test_several_classes__have_the_losses_of_all_rows(weights: Any) -> None:
    truth = np.where(RANDOM.random(ROWS) < 0.02, np.nan, RANDOM.integers(0, 3, ROWS))
    predicted = RANDOM.dirichlet(np.ones(3), ROWS)
    found = measured_on_disk(asked("multiclass", classes=["a", "b", "c"]), read(truth, predicted, weights), 10)
    for split in SPLITS:
        of = known(truth, weights, split)
        weight = None if weights is None else weights[of]
        right = reference.accuracy_score(truth[of], predicted[of].argmax(axis=1), sample_weight=weight)
        loss = reference.log_loss(truth[of], predicted[of], labels=[0, 1, 2], sample_weight=weight)
        assert found[split] == {"log_loss": pytest.approx(loss, rel=1e-9), "accuracy": pytest.approx(right, rel=1e-12)}


def test_a_split_of_one_class__has_no_area(weights: Any) -> None:
    truth = np.where(SPLIT == 1, 1.0, RANDOM.random(ROWS) < 0.3)
    found = measured_on_disk(asked("binary"), read(truth, RANDOM.random(ROWS), weights), 4_000)
    assert found["validation"]["auc"] is None
    assert found["train"]["auc"] is not None
