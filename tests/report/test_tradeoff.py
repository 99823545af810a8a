from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.report.pages import Page, page_of


def forms() -> pl.DataFrame:
    """Forty forms of a model, each with its log loss on two splits."""
    sizes = [40_000, *(1000 * step for step in range(40, 0, -1))]
    rows = [
        (
            "prune_trees" if number else "as given",
            f"{number} of 40 rounds" if number else "as given",
            size,
            split,
            "log_loss",
            0.5 + 1 / size,
            number == 21,
        )
        for number, size in enumerate(sizes)
        for split in ("train", "validation")
    ]
    return pl.DataFrame(rows, ["method", "form", "bytes", "split", "metric", "value", "chosen"], orient="row")


def test_tradeoff__shows_the_loss_by_size_and_the_form_that_was_chosen(tmp_path: Path) -> None:
    page = Page(page_of(tmp_path, {"costs": forms()}))
    assert "Smaller model: costs" in page.headings
    assert "of the model's 40 kB are left" in page.text
    assert "21 of 40 rounds" in page.text
    assert "log_loss by the size of the model's file" in page.text
    assert "validation: 0.5 as given, 0.5 chosen" in page.text
    assert "of 41 forms of the model by prune_trees" in page.text


def test_tradeoff__of_nothing_measured_says_so(tmp_path: Path) -> None:
    assert "No form of the model was measured." in Page(page_of(tmp_path, {"costs": forms().clear()})).text
