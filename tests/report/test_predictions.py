from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, roc_auc_score, roc_curve
from statsmodels.stats.proportion import proportion_confint

from pipeline.report import plots
from pipeline.report.svg import Panel
from tests.report.pages import Page, dots_of, page_of, predictions_of


def test_receiver_operating__follows_scikit_learn() -> None:
    rows = predictions_of(200).with_columns(pl.col("prediction").round(1))
    truth, score = rows["disease"].to_numpy().astype(float), rows["prediction"].to_numpy().astype(float)
    svg = plots.receiver_operating([("s0", truth, score)], "ROC")
    false, hits, _ = roc_curve(truth, score, drop_intermediate=False)
    panel = Panel(330, 300, (0.0, 1.0), (0.0, 1.0))
    path = "L".join(f"{x} {y}" for x, y in zip(panel.x(false), panel.y(hits), strict=True))
    assert f'd="M{path}"' in svg


def test_predictions__tell_the_auc_of_every_split(tmp_path: Path) -> None:
    rows = predictions_of()
    text = Page(page_of(tmp_path, {"predictions": rows})).text
    for name in ("train", "validation", "test"):
        part = rows.filter(pl.col("split") == name)
        assert f"{name}: {roc_auc_score(part['disease'], part['prediction']):.3f}" in text
    assert "test AUC of disease" in text


def test_predictions__find_the_target_in_any_order_of_columns(tmp_path: Path) -> None:
    rows = predictions_of().select("prediction", "disease", "split", "person")
    assert "test AUC of disease" in Page(page_of(tmp_path, {"predictions": rows})).text


def test_predictions__with_one_class_or_no_rows_are_no_failure(tmp_path: Path) -> None:
    rows = predictions_of()
    one = Page(page_of(tmp_path / "one", {"predictions": rows.filter(pl.col("disease") == 1)}))
    assert "No split has both classes of disease" in one.text
    assert "Predictions" in Page(page_of(tmp_path / "none", {"predictions": rows.head(0)})).headings
    assert "AUC" in Page(page_of(tmp_path / "unsplit", {"predictions": rows.drop("split")})).text
    assert Page(page_of(tmp_path / "alone", {"p": rows.select("prediction")})).headings[0] == "Stages"


def test_predictions__of_a_value_show_r2(tmp_path: Path) -> None:
    rows = predictions_of().with_columns(disease=pl.col("prediction") * 10 + pl.col("person") / 300)
    text = Page(page_of(tmp_path, {"predictions": rows})).text
    assert "Predicted disease" in text
    assert "test R² of disease" in text


def test_predictions__of_classes_show_the_confusion(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {
            "person": range(4),
            "split": ["test"] * 4,
            "kind": ["a", "b", "b", "c"],
            "prediction_a": [0.8, 0.1, 0.9, 0.1],
            "prediction_b": [0.1, 0.8, 0.05, 0.1],
            "prediction_c": [0.1, 0.1, 0.05, 0.8],
        }
    )
    html = page_of(tmp_path, {"predictions": rows})
    assert "75.0% of 4 are right" in html
    assert '<td class="l">b</td><td class="h" style="--share: 0.500">1</td><td class="h" style="--share: 0.500">1</td>' in html


def test_deciles__are_those_of_scikit_learn_and_statsmodels() -> None:
    rows = predictions_of(1_000)
    truth, score = rows["disease"].to_numpy().astype(float), rows["prediction"].to_numpy().astype(float)
    share, mean = calibration_curve(truth, score, n_bins=10, strategy="quantile")
    found = plots.deciles(truth, score)
    assert found.rows.tolist() == [100] * 10
    assert found.share == pytest.approx(share)
    assert found.mean == pytest.approx(mean)
    low, high = proportion_confint(found.cases, found.rows, method="wilson")
    assert found.interval[0] == pytest.approx(low, rel=1e-4)
    assert found.interval[1] == pytest.approx(high, rel=1e-4)
    assert plots.deciles(np.zeros(580), score[:580]).interval[0].tolist() == [0.0] * 10
    svg = plots.calibration([("s0", found)], "calibration")
    assert dots_of(svg, "huge s0") == 10


def test_predictions__tell_brier_scores_and_calibration_with_counts(tmp_path: Path) -> None:
    rows = predictions_of()
    html = page_of(tmp_path, {"predictions": rows})
    for split in ("train", "validation", "test"):
        part = rows.filter(pl.col("split") == split)
        assert f'<td class="r">{brier_score_loss(part["disease"], part["prediction"]):.4f}</td>' in html
    test = rows.filter(pl.col("split") == "test").sort("prediction")
    first = test.head(20)
    expected = ["1", "20", str(first["disease"].sum()), *(f"{np.mean(first[name].to_numpy()):.4f}" for name in ("prediction", "disease"))]
    assert "".join(f'<td class="r">{cell}</td>' for cell in expected) in re.sub(r"\s*\n\s*", "", html)
