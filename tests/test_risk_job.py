"""jobs/risk.yaml beside a simulation written plainly on NumPy's own random numbers, and what its page shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import ndtr, ndtri, stdtr

from pipeline import api
from tests.report.pages import Page
from tests.small import ROOT, inside

DATA = ROOT / "data" / "risk"
PATHS, YEARS, RATE = 100_000, 10 / 252, 0.02


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    """The job as it is shipped, with fewer paths."""
    results = str(tmp_path_factory.mktemp("risk"))
    with inside(ROOT):
        job = api.load("jobs/risk.yaml", results=results, cluster__dashboard=False, stages__risk__paths=PATHS, stages__crash__paths=PATHS)
        return job.run()


def worth(kind: str, prices: Any, row: dict[str, Any], asset: dict[str, Any], left: float) -> Any:
    """A share, a call or a put, with so many years left."""
    if kind == "share":
        return prices
    sign, spread, years = (1 if kind == "call" else -1), row["implied_volatility"] * np.sqrt(left), left
    forward = prices * np.exp((RATE - asset["dividend_yield"]) * years)
    d = np.log(forward / row["strike"]) / spread + spread / 2
    return sign * np.exp(-RATE * years) * (forward * ndtr(sign * d) - row["strike"] * ndtr(sign * (d - spread)))


def plain_losses() -> Any:
    """The losses of the portfolio, all assets as Brownian motions that a t copula with four degrees of freedom ties together."""
    assets, positions = pl.read_csv(DATA / "assets.csv"), pl.read_csv(DATA / "positions.csv")
    place = {name: at for at, name in enumerate(assets["asset"])}
    matrix = np.eye(len(place))
    for one, other, value in pl.read_csv(DATA / "correlations.csv").iter_rows():
        matrix[place[one], place[other]] = matrix[place[other], place[one]] = value
    rng = np.random.default_rng(1)
    moves = rng.multivariate_normal(np.zeros(len(place)), matrix, PATHS) / np.sqrt(rng.chisquare(4, (PATHS, 1)) / 4)
    normal, total = ndtri(stdtr(4, moves)), np.zeros(PATHS)
    for row in positions.iter_rows(named=True):
        asset = assets.row(place[row["asset"]], named=True)
        growth = (asset["drift"] - asset["volatility"] ** 2 / 2) * YEARS
        then = asset["spot"] * np.exp(growth + asset["volatility"] * np.sqrt(YEARS) * normal[:, place[row["asset"]]])
        left = row["expiry_years"] or 0.0
        total += row["quantity"] * (
            worth(row["kind"], asset["spot"], row, asset, left) - worth(row["kind"], then, row, asset, left - YEARS)
        )
    return np.sort(total)


def test_the_crash__is_as_a_plain_simulation_has_it(shipped: api.Run) -> None:
    losses = plain_losses()
    for row in shipped.table("crash").to_polars().iter_rows(named=True):
        place = int(row["level"] * PATHS)
        # Of a difference of two simulations: four standard errors are 4 x 1.41 / 3.92 intervals.
        wide = 1.45 * (row["value_at_risk_high"] - row["value_at_risk_low"])
        assert row["value_at_risk"] == pytest.approx(losses[place - 1], abs=wide)
        wide = 1.45 * (row["expected_shortfall_high"] - row["expected_shortfall_low"])
        assert row["expected_shortfall"] == pytest.approx(losses[place:].mean(), abs=wide)


def test_the_portfolio__has_its_positions_and_a_crash_takes_more(shipped: api.Run) -> None:
    risk, crash = (shipped.table(name).to_polars() for name in ("risk", "crash"))
    parts = shipped.table("contributions").to_polars()
    sums = parts.group_by("level").agg(pl.col("expected_shortfall").sum()).sort("level")
    assert sums["expected_shortfall"].to_list() == pytest.approx(risk["expected_shortfall"].to_list(), rel=1e-9)
    assert parts.height == 3 * 30
    assert crash["expected_shortfall"][-1] > risk["expected_shortfall"][-1]
    assert shipped.metrics["risk"]["value"] == pytest.approx(parts.filter(level=0.99)["value"].sum())
    assert shipped.record["stages"]["risk"]["counts"] == {"paths": PATHS, "assets": 12, "positions": 30}


def test_the_page__shows_both_portfolios(shipped: api.Run) -> None:
    page = Page((Path(shipped.path) / "report.html").read_text(encoding="utf-8"))
    assert {"Portfolio risk", "Portfolio risk: crash"} <= {*page.headings}
    assert "Losses of 100,000 paths" in page.text
    assert "18 others" in page.text
