"""jobs/groups.yaml: groups are of like loans, neighbors are older loans, and all of it is on the page."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pipeline import api
from tests.report.pages import Page

ROOT = Path(__file__).parents[1]
LOANS = ROOT / "data" / "loans" / "loans"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    results = tmp_path_factory.mktemp("groups")
    return api.load(ROOT / "jobs" / "groups.yaml", results=str(results), cluster__dashboard=False, inputs__loans__path=str(LOANS)).run()


def test_the_groups__take_half_of_the_spread_of_loans_away(shipped: api.Run) -> None:
    groups, mixture, axes = (shipped.table(name).to_polars() for name in ("groups", "mixture", "axes"))
    assert groups.height == mixture.height == axes.height == pl.read_parquet(LOANS / "*.parquet").height
    assert groups["cluster"].unique().sort().to_list() == [0, 1, 2, 3]
    features = 5
    for split, metrics in shipped.metrics["groups"].items():
        assert metrics["inertia"] < 0.65 * features * (groups["split"] == split).sum()
    densities = {split: metrics["log_density"] for split, metrics in shipped.metrics["mixture"].items()}
    assert abs(densities["train"] - densities["test"]) < 0.1


def test_the_neighbors__are_older_loans_and_nearest_first(shipped: api.Run) -> None:
    similar = shipped.table("similar").to_polars()
    years = pl.read_parquet(LOANS / "*.parquet").select("loan_id", year=pl.col("origination_date").str.slice(0, 4))
    assert similar["loan_id"].is_in(years.filter(pl.col("year") == "2022")["loan_id"].implode()).all()
    assert similar["neighbor"].is_in(years.filter(pl.col("year") < "2022")["loan_id"].implode()).all()
    assert similar.group_by("loan_id", maintain_order=True).agg((pl.col("distance").diff().drop_nulls() >= 0).all())["distance"].all()


def test_the_page__shows_all_of_it(shipped: api.Run) -> None:
    page = Page((Path(shipped.path) / "report.html").read_text(encoding="utf-8"))
    titles = {"Clusters: groups", "Clusters: mixture", "Centers of clusters", "Components: axes", "Explained variance", "Loadings"}
    assert titles | {"Neighbors: similar"} <= {*page.headings}
