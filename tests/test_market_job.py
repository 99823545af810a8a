"""jobs/market.yaml: it looks at nothing that is not known yet, walks forward better than the naive rule, and says what may be lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline import api
from tests.report.pages import Page
from tests.small import ROOT, inside

MARKET = ROOT / "data" / "market"


def run(results: Path, market: Path) -> api.Run:
    """The job as it is shipped, on the prices of a folder."""
    paths = {f"inputs__{name}__path": str(market / f"{name}.parquet") for name in ("prices", "shares")}
    with inside(ROOT):
        job = api.load("jobs/market.yaml", results=str(results), cluster__dashboard=False, **paths)
        return job.run()


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    return run(tmp_path_factory.mktemp("market"), MARKET)


def test_the_model__walks_forward_better_than_the_naive_rule(shipped: api.Run) -> None:
    walk = shipped.table("walk").to_polars()
    assert walk["fold"].to_list() == [1, 2, 3, 4, 5, 6]
    assert (walk["first_day"][1:] > walk["last_day"][:-1]).all()
    weights = walk["forecasts"].to_numpy()
    model, naive = (np.average(walk[name].to_numpy(), weights=weights) for name in ("model_accuracy", "naive_accuracy"))
    assert model > 0.515
    assert naive < 0.5
    assert (walk["model_return"] > walk["naive_return"]).all()


def test_features__know_nothing_of_later_days(shipped: api.Run, tmp_path: Path) -> None:
    """Cut off half of the days: what is left has the features that it had, but for the last day's target."""
    prices, days = pl.read_parquet(MARKET / "prices.parquet"), shipped.table("features").to_polars()
    last = prices["day"].unique().sort()[600]
    (tmp_path / "cut").mkdir()
    prices.filter(pl.col("day") <= last).write_parquet(tmp_path / "cut" / "prices.parquet")
    pl.read_parquet(MARKET / "shares.parquet").write_parquet(tmp_path / "cut" / "shares.parquet")
    cut = run(tmp_path / "results", tmp_path / "cut").table("features").to_polars().sort("id")
    assert cut.height > 10_000
    assert_frame_equal(cut, days.join(cut.select("id"), on="id", how="semi").sort("id"), rel_tol=1e-9, abs_tol=1e-12)


def test_value_at_risk__of_all_shares_is_numpys_on_their_mean_return(shipped: api.Run) -> None:
    prices = pl.read_parquet(MARKET / "prices.parquet").filter(pl.col("close") > 0).unique(["share", "day"]).sort("share", "day")
    moves = prices.with_columns(move=pl.col("close") / pl.col("close").shift(1).over("share") - 1).drop_nulls("move")
    returns = moves.group_by("day").agg(pl.col("move").mean()).sort("day")["move"].to_numpy()
    risk = shipped.table("risk").to_polars().filter(sector="all", method="historical", level=0.99).row(0, named=True)
    assert risk["value_at_risk"] == pytest.approx(-np.quantile(returns[-250:], 0.01), rel=1e-9)
    assert risk["tested"] == len(returns) - 250


def test_the_page__shows_folds_walk_and_risk(shipped: api.Run) -> None:
    page = Page((Path(shipped.path) / "report.html").read_text(encoding="utf-8"))
    assert {"Cross-validation: folds", "Value at risk", "Losses and what was said of them: risk_days"} <= {*page.headings}
    assert "Model and naive rule: walk" in page.headings
    assert "greater in 6 of 6 by fold" in page.text
