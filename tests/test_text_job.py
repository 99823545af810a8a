"""jobs/text.yaml: it files messages as scikit-learn does, finds messages of the same group, and says so on the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline import api
from tests.report.pages import Page
from tests.small import ROOT, inside

MESSAGES = ROOT / "data" / "messages" / "messages.parquet"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    with inside(ROOT):
        return api.load("jobs/text.yaml", results=str(tmp_path_factory.mktemp("text")), cluster__dashboard=False).run()


def test_the_messages__are_filed_as_scikit_learn_files_them(shipped: api.Run) -> None:
    text, linear_model = pytest.importorskip("sklearn.feature_extraction.text"), pytest.importorskip("sklearn.linear_model")
    split = shipped.table("predictions").to_polars()
    messages = (
        pl.read_parquet(MESSAGES).unique("message", keep="first").join(split.select("message", "split"), on="message").sort("message")
    )
    words = messages["text"].to_list()
    trained, tested = ((messages["split"] == name).to_numpy() for name in ("train", "test"))
    counted = text.TfidfVectorizer().fit([word for word, one in zip(words, trained, strict=True) if one]).transform(words)
    model = linear_model.LogisticRegression(C=10, max_iter=500).fit(counted[trained], messages["group"].to_numpy()[trained])
    theirs = (model.predict(counted[tested]) == messages["group"].to_numpy()[tested]).mean()
    ours = shipped.metrics["filed"]["test"]["accuracy"]
    assert ours > theirs - 0.03  # it counts words, each in a column of its own; the job hashes them to 2,048
    assert ours > 0.88


def test_the_splits__tear_no_author_apart_and_messages_without_text_are_left_out(shipped: api.Run) -> None:
    rows = shipped.table("predictions").to_polars()
    messages = pl.read_parquet(MESSAGES)
    kept = messages.filter(pl.col("text").str.len_chars() > 0)
    assert rows["message"].sort().to_list() == kept["message"].unique().sort().to_list()
    sides = kept.unique("message").join(rows.select("message", "split"), on="message").group_by("author").agg(pl.col("split").n_unique())
    assert sides["split"].unique().to_list() == [1]
    assert {*rows["split"]} == {"train", "validation", "test"}


def test_the_messages_alike__are_of_the_same_group_five_times_in_six(shipped: api.Run) -> None:
    alike = shipped.table("alike").to_polars()
    assert alike.group_by("message").len()["len"].unique().to_list() == [5]
    assert (alike["group"] == alike["neighbor_group"]).to_numpy().mean() > 0.8  # one in twenty by chance
    assert np.diff(alike["distance"].to_numpy().reshape(-1, 5), axis=1).min() >= 0


def test_the_page__shows_which_groups_are_taken_for_which(shipped: api.Run) -> None:
    page = Page((Path(shipped.path) / "report.html").read_text(encoding="utf-8"))
    assert "science.statistics" in page.text
    assert {"Predictions", "Neighbors: alike"} <= {*page.headings}
    assert "features do not vary in the training rows" in page.text
