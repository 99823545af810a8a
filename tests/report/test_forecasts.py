from __future__ import annotations

from datetime import date
from pathlib import Path

import polars as pl

from tests.report.pages import Page, page_of


def forecasts_of(stores: int) -> pl.DataFrame:
    month = pl.date_range(date(2024, 1, 1), date(2024, 12, 1), "1mo", eager=True)
    seen = pl.Series([float(n) if n < 8 else None for n in range(12)])
    ahead = pl.Series([float(n) if n > 5 else None for n in range(12)])
    one = pl.DataFrame({"month": month, "observed": seen, "mean": ahead, "lower": ahead - 2, "upper": ahead + 2})
    return pl.concat([one.select(pl.lit(f"s{store}").alias("store"), pl.all()) for store in range(stores)])


def test_forecasts__are_drawn_with_what_was_observed(tmp_path: Path) -> None:
    html = page_of(tmp_path, {"ahead": forecasts_of(2)})
    page = Page(html)
    assert "Forecasts: ahead" in page.headings
    assert "s1: forecast to 2024-12-01, 11 at the end." in page.text
    assert html.count('class="area pale s0"') == html.count('class="area pale s3"') == 2
    assert "forecast of values held out" in page.text
    assert "2024-06-01" in page.text or "2024-07-01" in page.text


def test_forecasts__of_many_series_show_the_first_ones(tmp_path: Path) -> None:
    html = page_of(tmp_path, {"ahead": forecasts_of(9)})
    assert html.count('class="area pale s0"') == 6
    assert "The first 6 of 9 series by store." in Page(html).text


def test_forecasts__of_one_series_without_intervals_or_of_none_are_no_failure(tmp_path: Path) -> None:
    one = forecasts_of(1).drop("store").with_columns(lower=None, upper=None).cast({"lower": pl.Float64, "upper": pl.Float64})
    assert "The series: forecast to 2024-12-01" in Page(page_of(tmp_path / "one", {"ahead": one})).text
    assert "Forecasts: ahead" in Page(page_of(tmp_path / "none", {"ahead": one.clear()})).headings
    numbered = forecasts_of(1).with_columns(month=pl.int_range(12))
    assert "forecast to 11" in Page(page_of(tmp_path / "numbers", {"ahead": numbered})).text
    hours = forecasts_of(1).with_columns(month=pl.col("month").cast(pl.Datetime("us")) + pl.duration(hours=pl.int_range(12)))
    assert "forecast to 2024-12-01 11:00:00" in Page(page_of(tmp_path / "hours", {"ahead": hours})).text
    untimed = forecasts_of(1).drop("month")
    assert "Forecasts: ahead" not in Page(page_of(tmp_path / "untimed", {"ahead": untimed})).headings
