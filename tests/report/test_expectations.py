from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.report.pages import Page, page_of

RULES = {
    "ids": {"rule": "id is unique", "action": "fail", "rows": 2000, "broken": 0},
    "amounts": {"rule": "amount >= 0", "action": "quarantine", "rows": 2000, "broken": 30},
}


def test_expectations__show_the_rules_that_are_broken_first_and_once(tmp_path: Path) -> None:
    page = Page(page_of(tmp_path, {"checked": pl.DataFrame({"id": [1]})}, metrics={"checked": RULES}))
    assert "Expectations" in page.headings
    assert "Metrics" not in page.headings
    assert page.text.index("amount >= 0") < page.text.index("id is unique")
    assert "1.50%" in page.text
    assert "Stage checked: 1 of 2 rules hold for 2,000 rows." in page.text
    assert page.text.count("amount >= 0") == 1
