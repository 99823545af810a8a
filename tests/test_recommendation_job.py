"""jobs/recommend.yaml: what it recommends is there to be watched, is better than the most popular films, and is on the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline import api
from tests.report.pages import Page

ROOT = Path(__file__).parents[1]
RATINGS = ROOT / "data" / "ratings"


def run(results: Path, **overrides: Any) -> api.Run:
    """The job as it is shipped, but for overrides."""
    paths = {f"inputs__{name}__path": str(RATINGS / f"{name}.parquet") for name in ("views", "films")}
    return api.load(ROOT / "jobs" / "recommend.yaml", results=str(results), cluster__dashboard=False, **paths, **overrides).run()


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    return run(tmp_path_factory.mktemp("recommendation"))


def test_the_lists__are_of_ten_films_that_a_person_has_not_watched_in_training(shipped: api.Run) -> None:
    lists = shipped.table("recommendations").to_polars()
    views = pl.read_parquet(RATINGS / "views.parquet").filter(pl.col("person").is_not_null() & (pl.col("plays") > 0))
    assert lists["person"].unique().sort().to_list() == views["person"].unique().sort().to_list()
    assert lists.group_by("person").len()["len"].unique().to_list() == [10]
    assert lists["kind"].null_count() == 0
    last = pl.int_range(pl.len()).over("person", order_by="day", descending=True)
    again = views.with_columns(last=last).filter(pl.col("last") >= 6).join(lists, on=["person", "film"], how="semi")
    assert again.height == 0  # some films of a day lie on both sides of the last two


@pytest.mark.parametrize("method", ["als", "bpr"])
def test_the_lists__find_twice_as_many_of_the_last_films_as_the_most_popular_do(method: str, shipped: api.Run, tmp_path: Path) -> None:
    more = {"stages__recommended__method": "bpr", "stages__recommended__alpha": None, "stages__recommended__regularization": None}
    found = shipped if method == "als" else run(tmp_path, **more, stages__recommended__rounds=60)
    model, popular = (found.metrics["recommended"][name] for name in ("test", "test, most popular"))
    assert model["users"] == popular["users"] > 1_400
    assert all(model[name] > 1.9 * popular[name] > 0 for name in model if name != "users")


def test_the_page__shows_measures_loss_and_long_tail(shipped: api.Run) -> None:
    page = Page((Path(shipped.path) / "report.html").read_text(encoding="utf-8"))
    assert {"Recommendations: recommended", "Training: history", "Long tail: items"} <= {*page.headings}
    assert "rows without a user, item, weight, time or split" in page.text
    assert "rows of weight 0" in page.text
