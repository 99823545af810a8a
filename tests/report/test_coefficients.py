"""The report's section on a linear model's coefficients."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl

from pipeline.report.plots_forest import Effect, forest
from tests.report.pages import Page, page_of
from tests.stages.models.fitting import PEOPLE, fit, stage_for


def test_coefficients__are_drawn_with_their_intervals_and_their_numbers(tmp_path: Path) -> None:
    html = page_of(tmp_path, {"coefficients": fit(stage_for("binary"), PEOPLE).coefficients})
    page = Page(html)
    assert "Coefficients" in page.headings
    assert "The 7 of 7 columns that move the linear predictor most" in page.text
    assert "group = code 4" in page.text
    assert "(intercept)" not in page.text
    assert len(re.findall(r"95 % interval", page.text)) >= 2
    effects = fit(stage_for("binary"), PEOPLE).coefficients.with_columns(effect=(pl.col("coefficient") * pl.col("scale")).abs())
    first = effects.drop_nulls("scale").sort("effect", descending=True).row(0, named=True)
    low, high = (first["coefficient"] + sign * 1.96 * first["standard_error"] for sign in (-1, 1))
    assert f"{first['feature']}{first['coefficient']:.4g}{low:.4g} to {high:.4g}".replace(" ", "") in page.text.replace(" ", "")


def test_coefficients__of_classes_and_of_a_penalty_and_of_none_are_no_failure(tmp_path: Path) -> None:
    penalized = Page(page_of(tmp_path / "l2", {"coefficients": fit(stage_for("multiclass", l2=0.1), PEOPLE).coefficients}))
    for name in ("low", "mid", "high"):
        assert f"{name}: the 7 of 7 columns" in penalized.text
    assert "without intervals, which a penalty takes" in penalized.text
    none = fit(stage_for("binary"), PEOPLE).coefficients.head(0)
    assert "No column has a coefficient" in Page(page_of(tmp_path / "none", {"coefficients": none})).text


def test_a_forest__places_effects_below_one_another() -> None:
    svg = forest([Effect("first", 2.0, 1.0, 3.0), Effect("x" * 99, -1.0, -2.0, 0.5), Effect("<bar>", 1.0, 1.0, 1.0)], "Effect", "about")
    ups = [float(up) for up in re.findall(r'y="([\d.]+)" text-anchor="end"', svg)]
    assert len(ups) == 3
    assert np.diff(ups).min() > 15
    assert "first</text>" in svg
    assert "&lt;bar&gt;</text>" in svg
    assert "x" * 33 + "…" in svg
