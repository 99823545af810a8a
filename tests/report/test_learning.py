from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.report.pages import Page, page_of


def history(step: str = "round") -> pl.DataFrame:
    """Two metrics of two splits over four rounds; validation is best in the third."""
    rows = [
        (at, split, metric, value)
        for metric, values in {"auc": (0.6, 0.7, 0.81, 0.8), "logloss": (0.69, 0.5, 0.41, 0.45)}.items()
        for split in ("train", "validation")
        for at, value in enumerate(values, 1)
    ]
    return pl.DataFrame(rows, schema=[step, "split", "metric", "value"], orient="row")


@pytest.mark.parametrize("step", ["round", "epoch"])
def test_a_history__is_drawn_with_its_best_round(step: str, tmp_path: Path) -> None:
    page = Page(page_of(tmp_path, {"history": history(step)}))
    assert "Training: history" in page.headings
    assert f"auc by {step}; the greater the better" in page.text
    assert f"logloss by {step}; the smaller the better" in page.text
    assert f"validation: best 0.81 at {step} 3, last 0.8" in page.text
    assert f"validation: best 0.41 at {step} 3, last 0.45" in page.text
    assert f"best validation auc, {step} 3" in page.text


def test_a_history__of_one_round_or_none_is_no_failure(tmp_path: Path) -> None:
    assert "train: best 0.6 at round 1" in Page(page_of(tmp_path / "one", {"history": history().filter(pl.col("round") == 1)})).text
    assert "No round has a value" in Page(page_of(tmp_path / "none", {"history": history().head(0)})).text
    odd = history().with_columns(value=pl.when(pl.col("round") < 3).then("value").otherwise(float("nan")))
    assert "best 0.7 at round 2" in Page(page_of(tmp_path / "odd", {"history": odd})).text
