from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from sklearn.metrics import mean_pinball_loss

from tests.report.pages import Page, page_of


def rows_of(rows: int = 400) -> pl.DataFrame:
    """A normal value with its true quantiles as predictions."""
    level = np.random.default_rng(5).normal(size=rows)
    split = np.array(["train", "test"])[np.arange(rows) % 2]
    frame = pl.DataFrame({"id": np.arange(rows), "split": split, "level": level})
    return frame.with_columns(pl.lit(value).alias(f"prediction_{at}") for at, value in ((0.1, -1.2816), (0.5, 0.0), (0.9, 1.2816)))


def test_quantiles__show_observed_shares_and_losses(tmp_path: Path) -> None:
    rows = rows_of()
    page = Page(page_of(tmp_path, {"predictions": rows}))
    assert "Predicted quantiles: predictions" in page.headings
    assert not any(heading.startswith("Predictions") for heading in page.headings)
    test = rows.filter(pl.col("split") == "test")
    level = test["level"].to_numpy()
    assert f"{mean_pinball_loss(level, test['prediction_0.9'], alpha=0.9):.4g}" in page.text
    assert f"{(level <= 0).mean():.3f}" in page.text
    inside = ((level > -1.2816) & (level <= 1.2816)).mean()
    assert f"{inside:.1%}" in page.text
    assert "test rows between the 0.1 and 0.9 quantiles of level" in page.text


def test_quantiles__of_no_rows_or_no_target_are_no_failure(tmp_path: Path) -> None:
    assert "No row has both level and predictions" in Page(page_of(tmp_path / "none", {"predictions": rows_of().head(0)})).text
    alone = rows_of().select(pl.col("^prediction_.*$"))
    assert "Predicted quantiles" not in " ".join(Page(page_of(tmp_path / "alone", {"predictions": alone})).headings)
