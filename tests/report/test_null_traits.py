from __future__ import annotations

from pathlib import Path

import polars as pl

from pipeline.report.findings.null_traits import NullTraits
from tests.report.pages import Page, page_of


def counts(rows: list[tuple[str, float, float, float, int, int]]) -> pl.DataFrame:
    """Trait, bin, threshold, tests and how many passed; an interval of a fifth of the rate."""
    found = [(*row, row[5] / row[4], 0.8 * row[5] / row[4], 1.2 * row[5] / row[4], 1.02, 1.3) for row in rows]
    return pl.DataFrame(found, [*NullTraits.columns], orient="row")


ROWS = counts(
    [
        ("ill", 0.001, 0.01, 0.05, 10_000, 490), ("ill", 0.001, 0.01, 1e-3, 10_000, 60), ("ill", 0.001, 0.01, 5e-8, 10_000, 0),
        ("ill", 0.05, 0.5, 0.05, 20_000, 1_010), ("ill", 0.05, 0.5, 1e-3, 20_000, 19), ("ill", 0.05, 0.5, 5e-8, 20_000, 0),
    ]
)  # fmt: skip


def test_null_traits__shows_where_a_test_passes_too_often(tmp_path: Path) -> None:
    page = Page(page_of(tmp_path, {"gwas_calibration": ROWS.with_columns(case_share=0.02)}))
    assert "Null traits: gwas_calibration" in page.headings
    assert "ill (2.00% cases)" in page.text
    assert "6.00 (4.80 to 7.20)" in page.text
    assert "passes too often" in page.text
    assert "holds" in page.text
    assert "of 4 counts of null traits lie above their threshold" in page.text
    assert "5e-08" not in page.text


def test_null_traits__of_a_few_tests_and_without_cases_say_nothing_of_them(tmp_path: Path) -> None:
    page = Page(page_of(tmp_path, {"gwas_calibration": ROWS}))
    assert "cases" not in page.text
    few = ROWS.with_columns(tests=pl.lit(10))
    assert "Null traits: gwas_calibration" not in Page(page_of(tmp_path / "few", {"gwas_calibration": few})).headings
