"""The section of a model beside the naive rule, and ticks of whole steps."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.report.svg import ticks_of
from tests.report.pages import Page, page_of

WALK = pl.DataFrame(
    {
        "fold": [2, 1, 3],
        "forecasts": [100, 300, 0],
        "model_accuracy": [0.6, 0.5, None],
        "naive_accuracy": [0.5, 0.52, None],
        "model_name": ["a", "b", "c"],
    }
)


def test_naive__shows_both_by_fold_with_their_means_by_forecasts(tmp_path: Path) -> None:
    html = page_of(tmp_path, {"walk": WALK})
    page = Page(html)
    assert "Model and naive rule: walk" in page.headings
    assert "Preview: walk" not in page.headings
    assert "accuracy of the model, of the naive rule 0.515; greater in 1 of 2 by fold" in page.text
    assert "0.525" in page.text
    assert re.findall(r'text-anchor="middle">(\d[\d.]*)<', html)[:2] == ["1", "2"]


def test_naive__of_no_rows_or_of_texts_says_so(tmp_path: Path) -> None:
    odd = pl.DataFrame({"fold": [1], "model_accuracy": ["good"], "naive_accuracy": ["bad"]})
    for frame in (WALK.clear(), odd):
        assert "No period could be compared." in Page(page_of(tmp_path, {"walk": frame})).text


@pytest.mark.parametrize("values", [[1, 2], [1, 2, 3, 4], [2019, 2024], [7], [1, 1000]])
def test_ticks__of_whole_steps_are_whole(values: list[int]) -> None:
    span = (min(values) - 0.1, max(values) + 0.1)
    found = [value for value, _ in ticks_of(values, span)]
    assert found
    assert all(value == round(value) for value in found)
    assert any(value != round(value) for value, _ in ticks_of(np.array([0.5, 2.0]), (0.5, 2.0)))
