"""Pages of very many rows: figures of some of them, and counts of all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.report import drawn
from tests.report.pages import Page, page_of

ROWS = 1_000
RANDOM = np.random.default_rng(7)
TRUTH = RANDOM.integers(0, 2, ROWS)
SPLIT = np.where(np.arange(ROWS) % 4 == 0, "test", "train")
PAGES = {
    "clusters": pl.DataFrame({"id": range(ROWS), "split": SPLIT, "cluster": np.arange(ROWS) // 700, "distance": RANDOM.random(ROWS)}),
    "anomalies": pl.DataFrame({"id": range(ROWS), "score": RANDOM.random(ROWS), "anomaly": np.arange(ROWS) < 30}),
    "neighbors": pl.DataFrame({"id": range(ROWS), "rank": 1 + np.arange(ROWS) % 2, "neighbor": 0, "distance": RANDOM.random(ROWS)}),
    "predictions": pl.DataFrame({"id": range(ROWS), "split": SPLIT, "late": TRUTH, "prediction": 0.5 * TRUTH + 0.3 * RANDOM.random(ROWS)}),
    "quantiles": pl.DataFrame(
        {"id": range(ROWS), "split": SPLIT, "sold": RANDOM.random(ROWS), "prediction_0.1": 0.1, "prediction_0.9": 0.9}
    ),
    "components": pl.DataFrame({"id": range(ROWS), "component_1": RANDOM.random(ROWS), "component_2": RANDOM.random(ROWS)}),
}


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("clusters", ["2 clusters with rows; 1,000 rows.", "700", "300"]),
        ("anomalies", ["Scores of 1,000 rows; 3.00% are anomalies."]),
        ("neighbors", ["500"]),
        ("predictions", ["late"]),
        ("quantiles", ["sold"]),
        ("components", ["rows on their first two components"]),
    ],
)
def test_a_page_of_very_many_rows__says_of_how_many_its_figures_are(
    name: str, counted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Page(page_of(tmp_path / "whole", {name: PAGES[name]})).text
    assert "ne row in" not in whole
    monkeypatch.setattr(drawn, "MOST", 150)
    few = Page(page_of(tmp_path / "few", {name: PAGES[name]})).text
    assert "one row in 7" in few.lower()
    for text in counted:
        assert text in whole
        assert text in few


def test_drawn_rows__are_every_nth() -> None:
    rows = pl.DataFrame({"x": range(ROWS)}).lazy()
    assert drawn.drawn(rows) == (rows, 1)


def test_drawn_rows__begin_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "MOST", 300)
    found, step = drawn.drawn(pl.DataFrame({"x": range(ROWS)}).lazy())
    assert step == 4
    assert found.collect()["x"].to_list() == list(range(0, ROWS, 4))
