"""Recommendations on the page: their measures beside the most popular items', and the long tail."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.report.pages import Page, page_of

MEASURED = {
    "test": {"precision_at_10": 0.08, "recall_at_10": 0.4, "ndcg_at_10": 0.25, "map_at_10": 0.15, "users": 1248},
    "test, most popular": {"precision_at_10": 0.04, "recall_at_10": 0.2, "ndcg_at_10": 0.125, "map_at_10": 0.0, "users": 1248},
}
ITEMS = pl.DataFrame({"film": range(10), "interactions": [50, 1, 30, 2, 3, 4, 2, 3, 5, 0], "recommended": [60, 0, 20, 5, 5, 5, 0, 3, 2, 0]})


def test_measures__stand_beside_those_of_the_most_popular_items(tmp_path: Path) -> None:
    page = Page(page_of(tmp_path, {}, metrics={"lists": MEASURED, "other": {"test": {"auc": 0.8}}}))
    assert "Recommendations: lists" in page.headings
    assert "Means over 1,248 users of split test" in page.text
    assert "0.40000.20002.00" in "".join(page.text.split())
    assert "recall at 10, test (0.200 by popularity)" in page.text
    assert not any("other" in heading for heading in page.headings)


def test_the_long_tail__says_what_part_of_the_lists_goes_to_whom(tmp_path: Path) -> None:
    page = Page(page_of(tmp_path, {"items": ITEMS}))
    assert "Long tail: items" in page.headings
    assert "interactions: 50% of the 1 most popular items" in page.text
    assert "recommendations: 60% of the 1 most popular items" in page.text
    assert "78%of9itemsarerecommendedtosomeone" in "".join(page.text.split())
    assert "head150.0%60.0%100%" in "".join(page.text.split())
    assert "middle130.0%20.0%100%" in "".join(page.text.split())
    assert "tail720.0%20.0%71%" in "".join(page.text.split())


def test_items_that_nobody_took_or_that_are_in_no_list__are_no_failure(tmp_path: Path) -> None:
    for name, items in {"none": ITEMS.clear(), "never": ITEMS.with_columns(recommended=0), "one": ITEMS.head(1)}.items():
        page = Page(page_of(tmp_path / name, {"items": items}))
        assert ("No item was taken and recommended" in page.text) == (name != "one")
