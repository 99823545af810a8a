"""Categories that are more than a task may hold: what DuckDB and scikit-learn say of them, and what one part says, whatever is on disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.registry import stage_class
from pipeline.stage import Context, FittedRows, Outcome
from pipeline.stages.features.categorify import Categorify
from pipeline.stages.features.count_encode import CountEncode
from pipeline.stages.features.target_encode import TargetEncode
from pipeline.stages.models.linear import Linear
from pipeline.stages.models.score import Score
from pipeline.tables import budget
from pipeline.tables.budget import Budget
from pipeline.tables.categories import InParts
from pipeline.tables.laid import Laid
from pipeline.tables.learned import InOne, states_of
from pipeline.tables.part import Schema
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Table
from tests.small import inside
from tests.stages.in_parts import PARTS, called, in_parts, of_duckdb

ROWS = 6_000
NAMES = ("city", "number", "flag", "none")
TRAIN = "split = 'train'"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """One whose tables may have as little memory as a part of what is learned of these rows takes."""
    found = Session()
    little(found, tmp_path, monkeypatch)
    return found


def little(session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give it so little memory."""
    monkeypatch.setattr(budget, "LEAST_BYTES", 10_000)
    session.budget = Budget(80_000, 2, str(folder))


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """Texts and numbers of very many values and of few, with gaps; a column without values; a target that is missing here and there."""
    random = np.random.default_rng(4)
    city = pl.Series([f"city {number}é" for number in random.integers(0, 1_500, ROWS)])
    frame = pl.DataFrame({"id": random.permutation(ROWS), "city": city, "number": random.integers(-600, 600, ROWS)})
    frame = frame.with_columns(
        pl.Series("flag", random.integers(0, 2, ROWS) == 1),
        pl.lit(None, dtype=pl.String).alias("none"),
        pl.Series("y", random.integers(0, 50, ROWS)),
        pl.Series("split", np.where(random.random(ROWS) < 0.6, "train", "test")),
    )
    return frame.with_columns(
        pl.when(pl.col("number") % 11 != 3).then("city"),
        pl.when(pl.col("id") % 17 != 3).then("number"),
        pl.when(pl.col("id") % 13 != 3).then("y"),
    )


def frame_of(table: Table) -> pl.DataFrame:
    """The rows of all parts."""
    whole: pl.DataFrame = pl.concat([table.session.value(part).frame for part in table.futures()])
    return whole


def given_by(stage: FittedRows, session: Session, frame: pl.DataFrame) -> tuple[Outcome, dict[str, pl.DataFrame]]:
    """What a stage gives of the rows in parts, learned in several; the rows are in as many parts as they were."""
    outcome = stage.run({"rows": in_parts(session, frame)}, Context("tested", 1, session))
    assert len(outcome.tables["fitted"].blocks) > 3
    parts = [session.value(part).rows for part in outcome.tables[""].futures()]
    assert parts == [part.source.rows for part in in_parts(session, frame).blocks]
    return outcome, {name: frame_of(table) for name, table in outcome.tables.items()}


def in_one(stage: FittedRows, frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """What it gives with all the memory that it wants."""
    outcome = stage.run({"rows": in_parts(Session(), frame)}, Context("tested", 1, Session()))
    assert len(outcome.tables["fitted"].blocks) == 1
    return {name: frame_of(table) for name, table in outcome.tables.items()}


STAGES = [
    Categorify(columns=NAMES),
    Categorify(columns=("number",), min_count=4),
    Categorify(columns=NAMES, min_count=4, rare="bucket", fit_where=TRAIN),
    Categorify(columns=("none", "city"), rare="bucket"),
    Categorify(columns=NAMES[:2], min_count=3, fit_where=TRAIN),
    CountEncode(columns=NAMES),
    CountEncode(columns=NAMES, share=True, fit_where=TRAIN),
    TargetEncode(columns=NAMES, target="y", key=("id",)),
    TargetEncode(columns=NAMES[:2], target="y", key=("city", "id"), folds=3, smoothing=0, seed=7, fit_where=TRAIN),
    TargetEncode(columns=("number",), target="flag", key=("id",), folds=2, smoothing=3.5),
]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: f"{stage.name} {sorted(stage.model_fields_set)}")
def test_many_categories__give_what_they_give_in_one_part(session: Session, rows: pl.DataFrame, stage: FittedRows) -> None:
    _, found = given_by(stage, session, rows)
    expected = in_one(stage, rows)
    assert found.keys() == expected.keys()
    for name, frame in expected.items():
        assert_frame_equal(found[name], frame, check_exact=True)


def test_codes_of_many_categories__are_duckdbs_ranks(session: Session, rows: pl.DataFrame) -> None:
    _, found = given_by(Categorify(columns=NAMES), session, rows)
    ranks = ", ".join(
        f"case when {name} is not null then dense_rank() over (order by {name}::text) - 1 end::int as {name}" for name in NAMES
    )
    expected = of_duckdb(f"select id, {ranks} from given", rows)  # nulls last, as it has them
    assert_frame_equal(found[""].select("id", *NAMES).sort("id"), expected.sort("id"))
    counts = " union all ".join(f"select '{name}' as c, {name}::text as v, count(*) as n from given group by v" for name in NAMES)
    learned = of_duckdb(f"select *, row_number() over (partition by c order by v)::int - 1 from ({counts}) where v is not null", rows)
    assert found["fitted"].rows() == learned.sort("c", "v").rows()
    assert found["embeddings"]["codes"].to_list() == [rows[name].drop_nulls().n_unique() for name in NAMES]


@pytest.mark.parametrize("name", NAMES[:3])
def test_rare_ones_of_many_categories__are_scikit_learns(session: Session, rows: pl.DataFrame, name: str) -> None:
    from sklearn.preprocessing import OrdinalEncoder

    _, found = given_by(Categorify(columns=NAMES, min_count=5, rare="bucket"), session, rows)
    texts = rows[name].cast(pl.String)
    values = texts.drop_nulls().to_numpy().astype(object).reshape(-1, 1)
    coded = OrdinalEncoder(min_frequency=5).fit_transform(values)[:, 0].astype(int)
    assert found[""][name].drop_nulls().to_list() == coded.tolist()
    assert (found[""][name].is_null() == texts.is_null()).all()


@pytest.mark.parametrize("share", [False, True])
def test_counts_of_many_categories__are_duckdbs(session: Session, rows: pl.DataFrame, share: bool) -> None:
    _, found = given_by(CountEncode(columns=NAMES, share=share, fit_where=TRAIN), session, rows)
    counts = [f"count(*) filter ({TRAIN}) over (partition by {name})" for name in NAMES]
    if share:
        counts = [f"{count} / nullif(count({name}) filter ({TRAIN}) over (), 0)" for name, count in zip(NAMES, counts, strict=True)]
    columns = ", ".join(f"case when {name} is not null then {count} end as {name}" for name, count in zip(NAMES, counts, strict=True))
    expected = of_duckdb(f"select id, {columns} from given", rows).sort("id")
    assert_frame_equal(found[""].select("id", *NAMES).sort("id"), expected, rel_tol=1e-14, check_dtypes=False)


def test_a_target_by_many_categories__is_what_scikit_learn_says_of_all_rows_that_are_learned(session: Session, rows: pl.DataFrame) -> None:
    from sklearn.preprocessing import TargetEncoder

    names = NAMES[:3]
    stage = TargetEncode(columns=names, target="y", key=("id",), smoothing=5.0, fit_where=TRAIN)
    _, found = given_by(stage, session, rows)
    learns = (pl.col("split") == "train") & pl.col("y").is_not_null()
    given, asked = (
        frame.select(pl.col(names).cast(pl.String).fill_null("none")).to_numpy().astype(object)
        for frame in (rows.filter(learns), rows.filter(~learns))
    )
    encoder = TargetEncoder(target_type="continuous", smooth=5.0).fit(given, rows.filter(learns)["y"].to_numpy())
    np.testing.assert_allclose(found[""].filter(~learns).select(names).to_numpy(), encoder.transform(asked), rtol=1e-10)


def test_a_part_of_learned_rows__is_read_where_rows_may_have_one_of_its_values(
    session: Session, rows: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Categorify(columns=("number",))
    outcome = stage.run({"rows": in_parts(session, rows.sort(pl.col("number").cast(pl.String)))}, Context("tested", 1, session))
    laid = {block.inputs[0].source.path for block in outcome.tables["fitted"].blocks}
    read = called(monkeypatch, Laid, "read")
    frame_of(outcome.tables[""])
    assert {one.path for one in read} == laid
    assert len(read) <= len(laid) + PARTS


@pytest.mark.parametrize(("values", "many"), [(3, False), (ROWS, True)])
def test_few_categories__are_one_part(
    session: Session, rows: pl.DataFrame, values: int, *, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [called(monkeypatch, kind, "applied") for kind in (InOne, InParts)]
    frame = rows.with_columns(pl.col("id") % values)
    stage = Categorify(columns=("id",))
    found = stage.run({"rows": in_parts(session, frame)}, Context("tested", 1, session)).tables
    assert [len(each) for each in seen] == [not many, many]
    assert_frame_equal(frame_of(found[""]), in_one(stage, frame)[""])


def test_a_model_of_many_categories__carries_them_all(session: Session, rows: pl.DataFrame, tmp_path: Path) -> None:
    frame = rows.drop_nulls(["city", "number", "y"])
    stages = [
        ("counted", CountEncode(columns=("city",), share=True)),
        ("coded", TargetEncode(columns=("number",), target="y", key=("id",), fit_where=TRAIN)),
    ]
    table = in_parts(session, frame.select("id", "city", "number", "y", "split"))
    for name, stage in stages:
        table = stage.run({"rows": table}, Context(name, 1, session)).tables[""]
        table = replace(table, schema=Schema(frame_of(table).schema))
    assert [state.frame.height > 1_000 for state in map(session.value, states_of(table))] == [True, True]
    model = Linear(target="y", key="id", split="split", objective="regression", features=("city", "number"))
    trained = model.run({"rows": table}, Context("m", 1, session))
    for name, content in trained.files.items():
        (tmp_path / name).write_bytes(session.value(content))
    steps = json.loads((tmp_path / "m.json").read_text())["fitted"]
    assert [(step["stage"], step["use"]) for step in steps] == [("counted", "count_encode"), ("coded", "target_encode")]
    for step, (_, stage) in zip(steps, stages, strict=True):
        expected = in_one(stage, frame)["fitted"]
        assert step["state"] == expected.to_dict(as_series=False)
    score = Score(model=str(tmp_path / "m.json")).opened(stage_class)
    scored = frame_of(score.run({"rows": in_parts(Session(), frame)}, Context("s", 1, Session())).tables[""]).sort("id")
    said = frame_of(trained.tables[""]).sort("id").filter(pl.col("split") == "test")
    assert_frame_equal(
        scored.join(said.select("id"), on="id", how="semi")["prediction"].to_frame(), said["prediction"].to_frame(), rel_tol=1e-9
    )


def test_many_categories_between_workers__are_the_same(
    workers: ClusterSession, rows: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    little(workers, tmp_path, monkeypatch)
    stage = Categorify(columns=NAMES, min_count=2, rare="bucket", fit_where=TRAIN)
    try:
        _, found = given_by(stage, workers, rows)
    finally:
        workers.budget = None
    for name, frame in in_one(stage, rows).items():
        assert_frame_equal(found[name], frame)


JOB = """\
job: kept
seed: 1
results: results
cluster: {kind: local, table_memory: 80KB}
inputs: {rows: {format: parquet, path: rows.parquet}}
stages:
  - {use: categorify, from: rows, as: coded, columns: [city, number], rare: bucket, checkpoint: true}
"""
MODEL = """\
  - {use: linear, from: coded, as: m, key: id, target: y, objective: regression, features: [city, number], split: split}
outputs: {said: {from: m}}
"""


def test_a_checkpoint_of_many_categories__has_them_all(rows: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "LEAST_BYTES", 10_000)
    frame = rows.drop_nulls(["city", "number", "y"]).head(3_000)
    frame.write_parquet(tmp_path / "rows.parquet", row_group_size=500)
    learned, seen = called(monkeypatch, InParts, "applied"), list[Any]()
    with inside(tmp_path):
        for more in ("outputs: {coded: {from: coded}}\n", MODEL):
            Path("job.yaml").write_text(JOB + more)
            pipeline.load("job.yaml").run()
            seen.append(len(learned))
        described = json.loads(Path("results/current/models/m.json").read_text())
    assert seen == [1, 1]  # learned by the first run alone
    expected = in_one(Categorify(columns=("city", "number"), rare="bucket"), frame)["fitted"]
    assert described["fitted"][0]["state"] == expected.to_dict(as_series=False)
