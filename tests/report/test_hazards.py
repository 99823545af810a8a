from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from tests.report.pages import Page, dots_of, page_of


def ratios_of(coefficients: list[float], error: float = 0.1) -> pl.DataFrame:
    beta = np.array(coefficients)
    numbers = {"coefficient": beta, "standard_error": error, "scale": 2.0, "z": beta / error, "p_value": np.exp(-np.abs(beta))}
    ends = {"hazard_ratio": beta, "hazard_ratio_lower": beta - 2 * error, "hazard_ratio_upper": beta + 2 * error}
    return pl.DataFrame({"feature": [f"<x{n}>" for n in range(len(beta))], **numbers, **{name: np.exp(end) for name, end in ends.items()}})


def test_hazards__are_drawn_with_their_intervals_and_listed_by_p_value(tmp_path: Path) -> None:
    html = page_of(tmp_path, {"effects": ratios_of([0.2, -0.9, 0.0])})
    page = Page(html)
    assert "Hazard ratios: effects" in page.headings
    assert (dots_of(html, "huge s0"), dots_of(html, "huge s6")) == (2, 1)
    assert "0.4066" in page.text
    assert "0.3329 to 0.4966" in page.text
    assert page.text.rindex("<x1>") < page.text.rindex("<x0>")


def test_hazards__near_one_or_far_from_it_or_none_are_no_failure(tmp_path: Path) -> None:
    assert "Hazard ratios: near" in Page(page_of(tmp_path / "near", {"near": ratios_of([0.0001], 1e-5)})).headings
    assert "Hazard ratios: far" in Page(page_of(tmp_path / "far", {"far": ratios_of([300.0, -300.0])})).headings
    assert "There is no feature." in Page(page_of(tmp_path / "none", {"none": ratios_of([])})).text


def test_hazards__show_the_baseline_survival_of_every_stratum(tmp_path: Path) -> None:
    steps = pl.DataFrame({"site": ["a", "a", "b"], "time": [1.0, 4, 2], "cumulative_hazard": [0.1, 0.3, 0.2]})
    steps = steps.with_columns(survival=(-pl.col("cumulative_hazard")).exp())
    text = Page(page_of(tmp_path / "strata", {"baseline": steps})).text
    assert "site a: 0.741 after 4" in text
    assert "site b: 0.819 after 2" in text
    assert "3 times of events" in Page(page_of(tmp_path / "one", {"baseline": steps.drop("site")})).text
    assert "There is no time of an event." in Page(page_of(tmp_path / "none", {"baseline": steps.clear()})).text
