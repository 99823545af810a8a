from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from tests.report.pages import Page, page_of

SCORES = pl.DataFrame({"id": [f"r{n:03d}" for n in range(200)], "score": np.linspace(0.3, 0.7, 200)}).with_columns(
    anomaly=pl.col("score") > 0.65
)


def test_anomalies__show_scores_and_the_most_unusual_rows(tmp_path: Path) -> None:
    text = Page(page_of(tmp_path, {"unusual": SCORES})).text
    count = SCORES["anomaly"].sum()
    assert f"Scores of 200 rows; {count / 200:.2%} are anomalies." in text
    assert "The 20 rows of the highest scores." in text
    assert "r199" in text
    assert "r180" in text
    assert "r179" not in text


def test_anomalies__none_or_no_scores_or_others_words_are_no_failure(tmp_path: Path) -> None:
    assert "0.00% are anomalies" in Page(page_of(tmp_path / "none", {"unusual": SCORES.filter(~pl.col("anomaly"))})).text
    assert "No row has a score." in Page(page_of(tmp_path / "empty", {"unusual": SCORES.clear()})).text
    text = SCORES.with_columns(anomaly=pl.lit("none"))
    assert "Anomalies: unusual" not in Page(page_of(tmp_path / "text", {"unusual": text})).headings


def test_anomalies__whole_numbers_of_rows_have_no_commas(tmp_path: Path) -> None:
    named = SCORES.with_columns(sensor=pl.lit(1005))
    text = Page(page_of(tmp_path / "named", {"unusual": named})).text
    assert "1005" in text
    assert "1,005" not in text
