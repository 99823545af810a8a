"""The section about what moves a network's answer."""

from __future__ import annotations

import polars as pl

from pipeline.report.finding import Evidence
from pipeline.report.findings.influence import Influence
from pipeline.report.pieces import Grid


def test_influence__shows_the_greatest_first_and_says_how_many_there_are() -> None:
    rows = pl.LazyFrame({"feature": [f"f{number:02d}" for number in range(30)], "influence": [float(number) for number in range(30)]})
    (section,) = Influence().sections(Evidence({"importance": rows}))
    grid = section.blocks[0]
    assert isinstance(grid, Grid)
    assert section.title == "Feature influence: importance"
    assert [row[:2] for row in grid.rows][:2] == [("f29", 1.0), ("f28", 28 / 29)]
    assert len(grid.rows) == 20
    assert "20 of 30 features" in grid.caption
    (empty,) = Influence().sections(Evidence({"importance": rows.head(0)}))
    assert "0 of 0 features" in str(empty.blocks)
