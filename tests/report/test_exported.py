from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.report.pages import Page, page_of

COMPARED = pl.DataFrame(
    {
        "column": ["prediction_low", "prediction_high"],
        "rows": [12_345, 12_345],
        "largest_difference": [2e-7, 4.2e-7],
        "mean_difference": [1e-9, 3e-9],
    }
)


def test_exported__says_how_far_each_column_of_predictions_is_from_ours(tmp_path: Path) -> None:
    page = Page(page_of(tmp_path, {"onnx": COMPARED}))
    assert "Exported model: onnx" in page.headings
    assert "largest difference of 12,345 predictions" in page.text
    for told in ("prediction_low", "2e-07", "4.2e-07", "3e-09"):
        assert told in page.text


def test_exported__of_no_column_is_no_failure(tmp_path: Path) -> None:
    assert "Exported model: onnx" in Page(page_of(tmp_path, {"onnx": COMPARED.clear()})).headings
