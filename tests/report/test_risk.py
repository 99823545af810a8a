"""The sections of the page about loans that may be lost: what they are expected to cost, and whether the model holds over time."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import polars as pl

from tests.report.pages import Page, page_of

LOSSES = pl.DataFrame(
    {
        "split": ["train", "test", "test"],
        "decile": [1, 1, 2],
        "loans": [10, 30, 10],
        "predicted": [0.5, 0.4, 0.2],
        "observed": [0.5, 0.3, 0.1],
        "balance": [1000.0, 3000.0, 1000.0],
        "expected_loss": [50.0, 120.0, 20.0],
        "observed_loss": [40.0, 90.0, 0.0],
    }
)
YEARS = pl.DataFrame(
    {
        "made_in": [2024, 2025, None],
        "loans": [100, 120, 3],
        "predicted": [0.05, 0.06, None],
        "observed": [0.04, 0.07, None],
        "auc": [0.8, 0.75, None],
        "psi": [0.02, 0.4, None],
    }
)


def text_of(html: str) -> str:
    """The page's text, a bar between two pieces."""
    return "|".join(piece for piece in (each.strip() for each in re.sub("<[^>]*>", "\n", html).split("\n")) if piece)


def test_expected_loss__is_shown_by_decile_and_of_whole_splits(tmp_path: Path) -> None:
    html = page_of(tmp_path, {"expected_loss": LOSSES})
    text = text_of(html)
    assert "Expected loss" in Page(html).headings
    assert "|1|30|40.00%|30.00%|3000|120|90|4.00%|2|10|20.00%|10.00%|1000|20|0|2.00%|" in text
    assert "|train|10|50.00%|50.00%|1000|50|40|5.00%|test|40|35.00%|25.00%|4000|140|90|3.50%|" in text
    assert "|140|expected loss, test; 90 was observed|" in text


def test_expected_loss__of_no_loan_or_none_that_is_known_is_no_failure(tmp_path: Path) -> None:
    assert "No loan has a prediction." in Page(page_of(tmp_path / "none", {"losses": LOSSES.clear()})).text
    unknown = LOSSES.with_columns(observed=None, balance=0.0).cast({"observed": pl.Float64})
    assert "Expected loss: losses" in Page(page_of(tmp_path / "unknown", {"losses": unknown})).headings


def test_stability__is_shown_by_period(tmp_path: Path) -> None:
    html = page_of(tmp_path, {"stability": YEARS})
    text = text_of(html)
    assert "Stability" in Page(html).headings
    assert "|2024|100|5.00%|4.00%|0.8|0.02|steady|2025|120|6.00%|7.00%|0.75|0.4|moved|" in text
    assert "|None|3|not compared|" in text
    assert "Shares of late loans by made in" in text


def test_stability__of_one_day_of_none_and_by_name_is_no_failure(tmp_path: Path) -> None:
    days = YEARS.head(1).with_columns(made_in=date(2026, 1, 1))
    assert "2026-01-01" in Page(page_of(tmp_path / "one", {"stability": days})).text
    assert "Stability" in Page(page_of(tmp_path / "none", {"stability": YEARS.clear()})).headings
    named = YEARS.with_columns(made_in=pl.lit("spring"))
    assert "Stability" not in Page(page_of(tmp_path / "named", {"stability": named})).headings
