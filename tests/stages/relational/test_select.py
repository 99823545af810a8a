"""select, and what all row-wise stages share: fusion down to the file, and calls that stay with their rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import StageError
from pipeline.formats.parquet import ParquetInput
from pipeline.stage import Context, Stage
from pipeline.stages.relational.cast import Cast
from pipeline.stages.relational.derive import Derive
from pipeline.stages.relational.filter import Filter
from pipeline.stages.relational.rename import Rename
from pipeline.stages.relational.sample import Sample
from pipeline.stages.relational.select import Select
from pipeline.stages.relational.sort import Sort
from pipeline.tables.part import Schema
from pipeline.tables.session import Session
from pipeline.tables.steps import lazy_of
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import SEED, assert_same_for_any_parts, plan_stage, run_parts, run_stage
from tests import example_tables as examples
from tests.harness import genotypes

EXAMPLES = [
    StageExample(Select(columns=["x", "id"]), {"rows": examples.MIXED}),
    StageExample(Select(drop=["x"]), {"rows": examples.MIXED}),
]

FRAME = pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None], "c": [0.5, None, 2.5]})


def test_select__keeps_columns_in_the_order_given() -> None:
    assert run_stage(Select(columns=("c", "a")), {"rows": FRAME})[""].to_dict(as_series=False) == {"c": [0.5, None, 2.5], "a": [1, 2, 3]}
    assert run_stage(Select.model_validate({"drop": "b"}), {"rows": FRAME})[""].columns == ["a", "c"]


def test_select__is_the_same_for_any_parts() -> None:
    assert_same_for_any_parts(Select(columns=("c", "a")), {"rows": FRAME}, ["a"])


def test_select__refuses_what_does_not_fit() -> None:
    with pytest.raises(StageError, match=r"no column 'aa'\. Did you mean 'a'"):
        plan_stage(Select(columns=("aa",)), {"rows": FRAME})
    with pytest.raises(StageError, match="drop leaves no column"):
        plan_stage(Select(drop=("a", "b", "c")), {"rows": FRAME})
    with pytest.raises(ValidationError, match="either columns"):
        Select()
    with pytest.raises(ValidationError, match="either columns"):
        Select(columns=("a",), drop=("b",))
    with pytest.raises(ValidationError, match="'a' twice"):
        Select(columns=("a", "b", "a"))


@pytest.mark.parametrize(
    "stage",
    [
        Select(columns=("variant_id", "base_pair_location")),
        Rename(columns={"chromosome": "chrom"}),
        Filter(where="base_pair_location % 2 = 0"),
        Derive(columns={"kb": "base_pair_location / 1000"}),
        Cast(columns={"base_pair_location": "int16"}),
        Sort(by=("variant_id",)),
        Sort(by=("-variant_id",), limit=4),
        Sample(fraction=0.5, key=("base_pair_location",)),
        Sample(fraction=0.5, key=("variant_id",)),
    ],
)
def test_row_wise_stages__keep_the_calls_of_their_rows(stage: Stage) -> None:
    table, axes = genotypes()
    place = dict(zip(table.frame["variant_id"], range(table.frame.height), strict=True))
    (part,) = run_parts(stage, {"rows": [table]}, axes=axes)[""]
    assert part.frame.height > 0
    rows = [place[name] for name in part.frame["variant_id"]]
    np.testing.assert_array_equal(part.arrays["calls"], table.arrays["calls"][rows])


def test_row_wise_stages__reach_the_file_as_one_query(tmp_path: Path) -> None:
    pl.DataFrame({name: range(1000) for name in "abcdef"}).write_parquet(tmp_path / "t.parquet")
    reader = ParquetInput(path=str(tmp_path / "t.parquet"))
    session = Session()
    table = Table.of(session, "t", reader.sources(1), schema=reader.table_schema())
    stages: list[Stage] = [
        Rename(columns={"a": "key"}),
        Filter(where="key >= 10 and key < 20"),
        Derive(columns={"sum": "key + b", "twice": "2 * sum"}),
        Cast(columns={"c": "float64"}),
        Select(columns=("key", "twice", "c")),
    ]
    for stage in stages:
        context = Context(stage.name, SEED, session)
        schema = stage.plan({"rows": table.schema or Schema(pl.Schema())}, context)[""]
        table = replace(stage.run({"rows": table}, context).tables[""], schema=schema)
    (block,) = table.blocks
    plan = lazy_of(block, "cpu").query.explain(optimized=True)
    assert "PROJECT 3/6 COLUMNS" in plan
    assert "SELECTION:" in plan
    assert "FILTER" not in plan
    (part,) = table.futures()
    assert part.frame.rows() == [(key, 4 * key, float(key)) for key in range(10, 20)]
