"""The section about the words that tell a text model's classes apart."""

from __future__ import annotations

import polars as pl

from pipeline.report.finding import Evidence, sections
from pipeline.report.findings.ngrams import CLASSES
from pipeline.report.pieces import Grid

ROWS = pl.DataFrame(
    {
        "text": "comment",
        "ngram": ["good", "not good", "bad", "so", "so"],
        "towards": ["1", "0", "0", "0", "1"],
        "influence": [2.0, 1.5, 1.0, -0.5, 0.5],
        "texts": [9, 5, 7, 30, 30],
    }
)


def test_telling_words__are_a_column_a_class_the_greatest_first() -> None:
    (section,) = sections(Evidence({"seen": ROWS.lazy()}))
    (grid,) = section.blocks
    assert isinstance(grid, Grid)
    assert section.title == "Telling words: seen"
    assert grid.head == ["towards 1", "towards 0"]
    assert grid.rows == [(("good · 2", 1.0), ("not good · 1.5", 0.75)), (("so · 0.5", 0.25), ("bad · 1", 0.5))]


def test_telling_words__of_many_classes_say_how_many_are_left_out_and_none_are_no_section() -> None:
    many = pl.concat([ROWS.head(1).with_columns(towards=pl.lit(f"c{number}")) for number in range(CLASSES + 3)])
    (section,) = sections(Evidence({"words": many.lazy()}))
    assert "3 more classes are in the output" in str(section.blocks)
    assert [*sections(Evidence({"words": ROWS.clear().lazy()}))] == []
