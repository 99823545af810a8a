"""The section on a portfolio's risk: a line a level, the losses of all paths, and the positions that add most."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from pipeline.report.finding import Evidence
from pipeline.report.findings.portfolio_risk import PortfolioRisks
from pipeline.report.pieces import Figure, Grid
from pipeline.stages.finance.portfolio_risk import PortfolioRisk
from pipeline.testing.stages import run_stage
from tests.report.pages import Page, page_of
from tests.stages.finance.test_portfolio_risk import SMALL, TABLES

OUTPUTS = {"measures": {"from": "risk"}, "bins": {"from": "risk.losses"}, "parts": {"from": "risk.contributions"}, "other": {"from": "x"}}


def evidence_of(positions: pl.DataFrame) -> Evidence:
    found = run_stage(PortfolioRisk(**SMALL), {**TABLES, "positions": positions})
    tables = {"measures": found[""], "bins": found["losses"], "parts": found["contributions"]}
    return Evidence({name: frame.lazy() for name, frame in tables.items()}, record={"job": {"outputs": OUTPUTS}})


def test_portfolio_risk__is_a_table_a_histogram_and_the_greatest_positions() -> None:
    many = pl.concat([TABLES["positions"].with_columns(pl.col("position") + 4 * at) for at in range(4)])
    (section,) = PortfolioRisks().sections(evidence_of(many))
    table, figure, parts = section.blocks
    assert isinstance(table, Grid)
    assert [row[0] for row in table.rows] == ["95 %", "99 %"]
    assert isinstance(figure, Figure)
    assert "20,000 paths" in figure.caption
    assert len(re.findall('class="line s[12] thin"', figure.svg)) == 4
    assert isinstance(parts, Grid)
    assert len(parts.rows) == 13
    assert parts.rows[-1][0] == "4 others"
    assert section.highlights == [(table.rows[1][1], "is the value at risk at 99 %")]


def test_portfolio_risk__of_a_loss_that_never_differs_is_drawn() -> None:
    still = pl.DataFrame({"position": [1], "asset": ["steel"], "quantity": [0.0]})
    (section,) = PortfolioRisks().sections(evidence_of(still))
    assert len(section.blocks) == 3


def test_the_measures_alone__are_a_table_on_the_page(tmp_path: Path) -> None:
    measures = run_stage(PortfolioRisk(**SMALL), TABLES)[""]
    page = Page(page_of(tmp_path, {"measures": measures}))
    assert "Portfolio risk: measures" in page.headings
    page = Page(page_of(tmp_path, {"measures": measures.clear()}))
    assert "Portfolio risk: measures" not in page.headings
