"""Clusters, components and neighbors on the page: what their tables and figures say of outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.report.finding import Evidence, sections
from pipeline.report.pieces import Figure, Grid, Section
from tests.report.pages import Page, dots_of, page_of

COUNT = 240


def shown(outputs: dict[str, pl.DataFrame], title: str) -> Section:
    """The section of that title."""
    return next(one for one in sections(Evidence({name: frame.lazy() for name, frame in outputs.items()})) if one.title == title)


def outputs_of(count: int = COUNT, clusters: int = 3) -> dict[str, pl.DataFrame]:
    random = np.random.default_rng(1)
    cluster = np.sort(np.arange(count) % clusters)
    keys = np.arange(count)
    rows = {"id": keys, "split": ["train", "test"] * (count // 2), "cluster": cluster, "distance": random.uniform(size=count)}
    centers = {"cluster": np.repeat(np.arange(clusters), 2), "rows": 1, "feature": ["a", "b"] * clusters}
    places = {"id": keys, "component_1": cluster + random.normal(size=count) / 9, "component_2": random.normal(size=count)}
    numbers = {"component": [1, 2, 3], "singular_value": 1.0, "explained_share": [0.5, 0.3, 0.1]}
    loadings = {"component": np.repeat([1, 2, 3], 2), "feature": ["a", "b"] * 3, "loading": [0.1, -0.9, 0.8, 0.2, 1.0, 0.0]}
    return {
        "groups": pl.DataFrame(rows),
        "middles": pl.DataFrame(centers).with_columns(center=pl.Series(np.arange(2.0 * clusters))),
        "axes": pl.DataFrame(places),
        "numbers": pl.DataFrame(numbers),
        "weights": pl.DataFrame(loadings),
    }


def grid_of(section: Section) -> Grid:
    (grid,) = [block for block in section.blocks if isinstance(block, Grid)]
    return grid


def figures_of(section: Section) -> list[Figure]:
    return [block for block in section.blocks if isinstance(block, Figure)]


def test_clusters__are_counted_by_split_with_their_quartiles() -> None:
    outputs = outputs_of()
    grid = grid_of(shown(outputs, "Clusters: groups"))
    groups = outputs["groups"]
    assert [row[:4] for row in grid.rows] == [(str(number), "80", 1.0, "33.3%") for number in range(3)]
    for number, row in enumerate(grid.rows):
        own = groups.filter(pl.col("cluster") == number)
        assert row[4:6] == ("40", "40")
        assert [float(text) for text in row[6:]] == pytest.approx(np.quantile(own["distance"], [0.25, 0.5, 0.75]), rel=1e-3)
    assert len(grid.head) == len(grid.align) == len(grid.rows[0])


def test_centers__are_darker_where_they_are_higher() -> None:
    grid = grid_of(shown(outputs_of(), "Centers of clusters: middles"))
    assert grid.head == ["feature", "0", "1", "2"]
    assert grid.rows == [["a", ("0", 0.0), ("2", 0.5), ("4", 1.0)], ["b", ("1", 0.0), ("3", 0.5), ("5", 1.0)]]
    many = outputs_of(clusters=40)
    assert "10 of 40 clusters" in grid_of(shown(many, "Centers of clusters: middles")).caption


def test_components__are_coloured_by_the_clusters_of_another_output() -> None:
    section = shown(outputs_of(), "Components: axes")
    (figure,) = figures_of(section)
    assert figure.caption == "240 rows on their first two components, coloured by cluster (of output groups)."
    assert [name for _, name in figure.legend] == ["0", "1", "2"]
    assert dots_of(figure.svg, "large s1") == 80
    assert "Component 1 (50.0% of the variance)" in figure.svg


def test_components__have_what_they_explain_and_what_they_are_made_of() -> None:
    (bars,) = figures_of(shown(outputs_of(), "Explained variance: numbers"))
    assert bars.caption == "What the components explain: 90.0% of the variance by 3 (bars: one by one, line: together)."
    rows = grid_of(shown(outputs_of(), "Loadings: weights")).rows
    assert [row[:2] for row in rows] == [("1", "b"), ("1", "a"), ("2", "a"), ("2", "b")]
    assert rows[0][2:] == (0.9, "-0.9")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"kind": pl.Series(["x", None] * 120)}, ", coloured by kind."),
        ({"cluster": pl.Series([7] * 240)}, ", coloured by cluster."),
        ({"name": pl.Series([f"n{number}" for number in range(240)])}, "."),
    ],
    ids=["text", "own cluster", "names"],
)
def test_components__alone_are_coloured_by_what_they_have(more: dict[str, Any], said: str) -> None:
    section = shown({"axes": outputs_of()["axes"].with_columns(**more)}, "Components: axes")
    assert figures_of(section)[0].caption == f"240 rows on their first two components{said}"


def test_components__with_more_clusters_than_colours_have_none() -> None:
    outputs = outputs_of(clusters=40)
    assert figures_of(shown(outputs, "Components: axes"))[0].legend == []


def test_neighbors__have_their_distances_by_rank() -> None:
    rows = pl.DataFrame({"id": [1, 1, 2, 2], "rank": [1, 2, 1, 2], "neighbor": [3, 4, 3, 4], "distance": [1.0, 2.0, 3.0, 6.0]})
    assert grid_of(shown({"near": rows}, "Neighbors: near")).rows == [("1", "2", "1.5", "2", "2.5"), ("2", "2", "3", "4", "5")]


def test_a_page__holds_all_of_them_and_of_no_rows_too(tmp_path: Path) -> None:
    page = Page(page_of(tmp_path, outputs_of()))
    titles = {"Clusters: groups", "Centers of clusters: middles", "Components: axes", "Explained variance: numbers", "Loadings: weights"}
    assert titles <= {*page.headings}
    assert not [title for title in page.headings if title.startswith("Preview")]
    empty = Page(page_of(tmp_path / "none", {name: frame.clear() for name, frame in outputs_of().items()}))
    assert titles <= {*empty.headings}


def test_columns_of_other_kinds_under_the_same_names__make_no_page_fail(tmp_path: Path) -> None:
    texts = {name: frame.cast(pl.String).with_columns(pl.all().replace("1", "x")) for name, frame in outputs_of().items()}
    assert "Clusters: groups" in Page(page_of(tmp_path, texts)).headings
