from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
from sklearn.metrics import roc_auc_score

from pipeline.report.finding import Evidence, sections
from pipeline.report.pieces import Figure, Section
from tests.report.pages import Page, dots_of, page_of

PEOPLE = [f"p{i}" for i in range(300)]


def first(outputs: dict[str, pl.DataFrame]) -> Section:
    return next(iter(sections(Evidence({name: frame.lazy() for name, frame in outputs.items()}))))


def figures(section: Section) -> list[Figure]:
    return [block for block in section.blocks if isinstance(block, Figure)]


def scores_of(seed: int = 1) -> tuple[pl.DataFrame, pl.Series]:
    random = np.random.default_rng(seed)
    disease = pl.Series("disease", random.integers(0, 2, len(PEOPLE)))
    score = random.normal(size=len(PEOPLE)) + disease.to_numpy()
    return pl.DataFrame({"sample_id": PEOPLE, "score_sum": score, "score_average": score / 2_000, "variants_used": 1_000}), disease


def test_ancestry__colours_few_groups_and_no_names() -> None:
    rows = pl.DataFrame({"sample_id": ["a", "b", "c"], "pc1": [1.0, 2.0, None], "pc2": [1.0, 1.0, 1.0], "pop": ["n", "s", "s"]})
    figure = figures(first({"axes": rows, "sizes": pl.DataFrame({"component": [1, 2], "eigenvalue": [41.25, 3.0]})}))[0]
    assert [name for _, name in figure.legend] == ["n", "s"]
    assert dots_of(figure.svg, "large s0") == dots_of(figure.svg, "large s1") == 1
    assert "PC1 (eigenvalue 41.25)" in figure.svg
    many = rows.with_columns(pop=pl.Series([f"g{i}" for i in range(3)]), pc1=1.0)
    wide = pl.concat([many.with_columns(pop=pl.col("pop") + str(i)) for i in range(7)])
    assert figures(first({"axes": wide}))[0].legend == []


def test_ancestry__takes_its_colours_from_another_output_of_the_people() -> None:
    axes = pl.DataFrame({"sample_id": PEOPLE, "pc1": np.arange(300.0), "pc2": 0.0})
    sheet = pl.DataFrame({"sample_id": PEOPLE[:200], "batch": ["a", "b"] * 100, "population": ["n", "s"] * 100})
    figure = figures(first({"axes": axes, "sheet": sheet.reverse()}))[0]
    assert figure.caption == "300 people, coloured by population (of output sheet)."
    assert [name for _, name in figure.legend] == ["n", "s", "unknown"]
    assert dots_of(figure.svg, "large s2") == 100
    strangers = sheet.with_columns(pl.col("sample_id") + "x")
    assert figures(first({"axes": axes, "sheet": strangers}))[0].caption == "300 people."


def test_scores__are_shown_by_the_outcome_of_another_output() -> None:
    scores, disease = scores_of()
    other = pl.DataFrame({"sample_id": PEOPLE, "sex": [0, 1] * 150}).with_columns(disease).reverse()
    figure = figures(first({"scores": scores, "other": other}))[0]
    area = roc_auc_score(disease, scores["score_average"])
    assert f"by disease (of output other). The AUC of 1 against 0 is {area:.3f}" in figure.caption
    controls = scores.filter(disease == 0)["score_average"]
    mean, spread = cast(float, controls.mean()), cast(float, controls.std())
    assert figure.legend[0][1] == f"disease = 0: {controls.len()} people, mean {mean:.4g}, SD {spread:.4g}"


def test_scores__are_shown_by_split_or_all_together() -> None:
    scores, _ = scores_of()
    split = figures(first({"scores": scores.with_columns(split=pl.Series(["train", "test"] * 150))}))[0]
    assert [text.split(":")[0] for _, text in split.legend] == ["test", "train"]
    alone = figures(first({"scores": scores.drop("sample_id", "score_average")}))[0]
    assert alone.caption == "score_sum of 300 people."
    assert alone.legend[0][1].startswith("all: 300 people")


def test_scores__without_values_are_no_failure(tmp_path: Path) -> None:
    scores, _ = scores_of()
    none = scores.with_columns(score_sum=pl.lit(None, pl.Float64), score_average=pl.lit(None, pl.Float64))
    assert "300 of 300 people have no score." in Page(page_of(tmp_path / "a", {"scores": none})).text
    assert "Polygenic scores" in Page(page_of(tmp_path / "b", {"scores": scores.head(0)})).headings
    assert "1 person" in Page(page_of(tmp_path / "c", {"scores": scores.head(1)})).text


def test_kinship__counts_pairs_by_degree() -> None:
    pairs = pl.DataFrame({"sample_id_1": list("abcde"), "sample_id_2": list("fghij"), "kinship": [0.5, 0.25, 0.25, 0.1, 0.05]})
    grids = cast(list[Any], first({"pairs": pairs}).blocks)
    assert [row[2] for row in grids[0].rows] == ["1", "2", "1", "1"]
    assert grids[1].rows[0] == ("a", "f", "0.5000")
    assert len(first({"pairs": pairs.head(0)}).blocks) == 1
