"""Previews: what an output without a finding of its own holds."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.report.findings import preview as previewing
from pipeline.report.findings.preview import BINS, FIRST_ROWS, MOST_COLUMNS, preview
from pipeline.report.pieces import Grid
from tests.report.pages import Page, page_of, predictions_of


def grids(frame: pl.DataFrame) -> list[Grid]:
    return [block for block in preview("table", frame.lazy()).blocks if isinstance(block, Grid)]


def heights(svg: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", re.findall(r'aria-label="[^:]*: ([^v]*)values', svg)[0])]


def test_preview__tells_gaps_ranges_and_shapes_as_numpy_does() -> None:
    random = np.random.default_rng(3)
    amount, day = random.gamma(2, 3, 997), np.datetime64("2024-01-01") + random.integers(0, 300, 997)
    frame = pl.DataFrame({"amount": amount, "day": day, "count": random.integers(-5, 90, 997)}).with_columns(
        amount=pl.when(pl.int_range(pl.len()) % 10 == 0).then(None).otherwise("amount")
    )
    columns, first = grids(frame)
    rows = {row[0]: row for row in columns.rows}
    assert [rows[name][2] for name in frame.columns] == ["100 (10 %)", "0", "0"]
    assert rows["day"][3:5] == (str(frame["day"].min()), str(frame["day"].max()))
    for name in frame.columns:
        values = frame[name].drop_nulls().to_physical().to_numpy().astype(float)
        assert heights(rows[name][6]) == np.histogram(values, np.linspace(values.min(), values.max(), BINS + 1))[0].tolist()
    assert float(rows["count"][5]) == pytest.approx(frame["count"].to_numpy().mean(), rel=1e-3)
    assert len(first.rows) == FIRST_ROWS
    assert first.rows[0][0] == ""


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (pl.Series([1.0, float("nan"), float("inf"), None]), ("1 (25 %); 2 NaN or infinite", "1", "1", "")),
        (pl.Series(["pear", "fig", None, "x" * 90]), ("1 (25 %)", "fig", "x" * 39 + "…", "")),
        (pl.Series([True, False, True, True]), ("0", "False", "True", "")),
        (pl.Series([None] * 4, dtype=pl.Int64), ("4 (100 %)", "", "", "")),
        (pl.Series([[1], [2, 3], None, []]), ("1 (25 %)", "", "", "")),
        (pl.Series(["a", "b", "a", None], dtype=pl.Categorical), ("1 (25 %)", "a", "b", "")),
        (pl.Series([datetime.timedelta(1)] * 4), ("0", "1 day, 0:00:00", "1 day, 0:00:00", "")),
        (pl.Series([2**63 - 1] * 4), ("0", str(2**63 - 1), str(2**63 - 1), "")),
    ],
)
def test_preview__of_odd_columns(values: pl.Series, told: tuple[Any, ...]) -> None:
    (row,) = grids(values.alias("odd").to_frame())[0].rows
    assert (*row[2:5], row[6]) == told


def test_preview__of_no_rows_and_of_many_columns(tmp_path: Path) -> None:
    assert "The output has no rows." in Page(page_of(tmp_path / "a", {"table": pl.DataFrame(schema={"a": pl.Int64})})).text
    wide = pl.DataFrame({f"c{number}": [1, 2] for number in range(MOST_COLUMNS + 5)})
    page = Page(page_of(tmp_path / "b", {"table": wide}))
    assert f"The first {MOST_COLUMNS} of {MOST_COLUMNS + 5} columns." in page.text


def test_preview__is_for_outputs_that_no_other_finding_shows(tmp_path: Path) -> None:
    page = Page(page_of(tmp_path, {"orders": pl.DataFrame({"id": [1, 2], "price": [3.5, 4.0]}), "predictions": predictions_of()}))
    assert [heading for heading in page.headings if heading.startswith("Preview")] == ["Preview: orders"]
    assert page.text.count("Every row: ") == 2, "every section of an output has links to its files"


@pytest.mark.parametrize("held", [1, 8 * 20 * 2, 8 * 20 * 5])
def test_preview__is_the_same_however_many_columns_are_held_at_once(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({f"x{at}": [float(at * row) for row in range(20)] for at in range(4)} | {"name": [*"abcdefghijklmnopqrst"]})
    whole = grids(frame)
    monkeypatch.setattr(previewing, "HELD_BYTES", held)
    assert grids(frame) == whole


def test_preview__of_very_many_rows_draws_stretches_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previewing, "MANY_ROWS", 5_000)
    monkeypatch.setattr(previewing, "STRETCH", 50)
    up = np.arange(64_000.0)
    frame = pl.DataFrame({"up": up, "name": "x", "on": up > 1, "day": (up / 1_000).astype("datetime64[D]"), "last": up == up[-1]})
    frame.write_parquet(tmp_path / "rows.parquet", row_group_size=999)
    columns = next(block for block in preview("table", pl.scan_parquet(tmp_path / "rows.parquet")).blocks if isinstance(block, Grid))
    assert columns.caption.startswith("64,000 rows. How values lie is that of 1,600 rows, in 32 stretches.")
    rows = {row[0]: row for row in columns.rows}
    for name in ("up", "day"):
        assert heights(rows[name][6]) == [100] * BINS
    assert rows["up"][3:6] == ("0", "63,999", "32,000")
    assert (rows["last"][4], rows["name"][6]) == ("True", "")
