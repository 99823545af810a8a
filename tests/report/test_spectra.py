"""The section on spectra: a drawing a series."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from pipeline.stages.science.fft import Fft
from pipeline.testing.stages import run_stage
from tests.report.pages import Page, page_of

SECONDS = np.arange(6_000) / 100
ROWS = pl.concat(
    pl.DataFrame({"place": name, "second": SECONDS, "x": np.sin(2 * np.pi * hertz * SECONDS)})
    for name, hertz in (("a", 5.0), ("b", 20.0), ("c", 1.0), ("d", 2.0), ("e", 3.0))
)


def test_spectra__are_drawn_series_by_series(tmp_path: Path) -> None:
    found = run_stage(Fft(by="place", time="second"), {"rows": ROWS})[""]
    page = Page(page_of(tmp_path, {"spectra": found}))
    assert "a: the greatest value of x at 5." in page.text
    assert "b: the greatest value of x at 20." in page.text
    assert "The first 4 of 5 series." in page.text


def test_spectra__of_no_rows_and_other_tables_are_no_failure(tmp_path: Path) -> None:
    found = run_stage(Fft(by="place", time="second"), {"rows": ROWS})[""]
    page = Page(page_of(tmp_path, {"none": found.clear(), "words": pl.DataFrame({"frequency": [3.0], "word": ["the"]})}))
    assert "the greatest value" not in page.text
