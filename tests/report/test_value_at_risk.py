"""The section on value at risk: a row a series, how it held, and the days beyond it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from pipeline.stages.finance.value_at_risk import ValueAtRisk
from pipeline.testing.stages import run_stage
from tests.report.pages import Page, page_of

RETURNS = pl.DataFrame({"n": np.arange(300), "gain": np.random.default_rng(2).normal(0, 0.01, 300)})


def test_value_at_risk__is_a_table_and_a_drawing_of_its_days(tmp_path: Path) -> None:
    found = run_stage(ValueAtRisk(time="n", value="gain", levels=(0.95,), window=100), {"rows": RETURNS})
    page = Page(page_of(tmp_path, {"risk": found[""], "days": found["days"]}))
    assert "Value at risk: risk" in page.headings or "Value at risk" in page.headings
    historical = found[""].filter(method="historical").row(0, named=True)
    assert f"{100 * historical['value_at_risk']:.2f} %" in page.text
    assert f"the series: {historical['exceedances']} of 200 losses are beyond the historical value at risk; 10.0 expected." in page.text


def test_value_at_risk__of_no_rows_is_no_failure(tmp_path: Path) -> None:
    found = run_stage(ValueAtRisk(time="n", value="gain", window=100), {"rows": RETURNS.clear()})
    page = Page(page_of(tmp_path, {"risk": found[""], "days": found["days"]}))
    assert "0 of 0" in page.text


def test_without_a_window__there_is_nothing_to_test(tmp_path: Path) -> None:
    found = run_stage(ValueAtRisk(time="n", value="gain"), {"rows": RETURNS})
    assert "Kupiec" not in Page(page_of(tmp_path, {"risk": found[""]})).text
