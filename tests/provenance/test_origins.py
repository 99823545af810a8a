"""Where columns come from: what is not named as an origin can be any other value, and the result is the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import PipelineError
from pipeline.job.spec import StageSpec
from pipeline.job.yaml_tree import Place
from pipeline.plan.plan import PlannedStage
from pipeline.provenance.origins import IDENTITY, INDIRECT, MADE, Origins, of_stage, through
from pipeline.stage import Stage, Whole
from pipeline.stages.features.standardize import Standardize
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.stages.relational.derive import Derive
from pipeline.stages.relational.filter import Filter
from pipeline.stages.relational.join import Join
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage, run_stage, table_schemas
from tests.stage_examples import EXAMPLES, IDS

ROWS = pl.DataFrame({"k": ["a", "b", "a"], "x": [1.0, 2.0, 4.0], "y": [3, 1, 2]})
PLAIN = [
    pytest.param(example, id=name)
    for example, name in zip(EXAMPLES, IDS, strict=True)
    if not isinstance(example.stage, Whole) and all(isinstance(table, pl.DataFrame) for table in example.tables.values())
]


def planned(stage: Stage, tables: Mapping[str, Any]) -> PlannedStage:
    spec = StageSpec("made", stage.name, {role: role for role in tables}, stage, Place(1, 1, "job.yaml"))
    gives = {f"made.{name}" if name else "made": schema for name, schema in plan_stage(stage, tables).items()}
    return PlannedStage(spec, table_schemas(tables), gives)


def origins(stage: Stage, **tables: pl.DataFrame) -> Origins:
    return of_stage(planned(stage, tables or {"rows": ROWS}))["made"]


def test_origins__of_a_derive_are_what_its_expressions_read() -> None:
    found = origins(Derive.model_validate({"columns": {"z": "x * 2 + y", "x": "x + 1"}}))
    assert found.columns == {
        "k": {("rows", "k"): IDENTITY},
        "x": {("rows", "x"): MADE},
        "y": {("rows", "y"): IDENTITY},
        "z": {("rows", "x"): MADE, ("rows", "y"): MADE},
    }


def test_origins__of_rows_are_what_a_filter_asks() -> None:
    found = origins(Filter(where="y > 1"))
    assert (found.columns["x"], ("rows", "y") in found.rows, ("rows", "x") in found.rows) == ({("rows", "x"): IDENTITY}, True, False)


def test_origins__of_an_aggregate_are_its_keys_and_values() -> None:
    found = origins(Aggregate.model_validate({"by": "k", "compute": {"t": "sum(x)", "n": "count(y)"}, "having": "n > 1"}))
    assert found.columns["t"] == {("rows", "x"): MADE}
    assert found.rows == {("rows", "k"), ("rows", "y")}


def test_origins__of_what_is_learned_are_what_it_is_learned_of() -> None:
    found = origins(Standardize.model_validate({"columns": ["x"], "fit_where": "y > 1"}))
    assert found.columns["x"] == {("rows", "x"): MADE, ("rows", "y"): INDIRECT}
    assert found.columns["k"] == {("rows", "k"): IDENTITY}


def test_origins__of_a_join_are_of_both_tables() -> None:
    found = origins(Join.model_validate({"on": "k"}), left=ROWS, right=ROWS.select("k", "x"))
    assert found.columns["x_right"] == {("right", "x"): IDENTITY}
    assert found.columns["k"] == {("left", "k"): MADE, ("right", "k"): MADE}
    assert found.rows == {("left", "k"), ("right", "k")}


def test_through__goes_through_all_stages_and_keeps_the_weakest_tie() -> None:
    origins = {
        "one": Origins({"a": {("file", "x"): MADE}, "b": {("file", "y"): INDIRECT}}, frozenset({("file", "z")})),
        "two": Origins({"c": {("one", "a"): IDENTITY, ("one", "b"): MADE}}, frozenset()),
    }
    assert through(origins)["two"] == Origins({"c": {("file", "x"): MADE, ("file", "y"): INDIRECT}}, frozenset({("file", "z")}))


def other(values: pl.Series) -> pl.Series:
    """The same values in another order, the first of them in place of the last."""
    return values.reverse() if values.n_unique() < 2 else pl.concat([values[1:], values[:1]])


@pytest.mark.parametrize("example", PLAIN)
def test_columns_that_are_no_origin__do_not_change_the_result(example: StageExample) -> None:
    found = of_stage(planned(example.stage, example.tables))["made"]
    expected = run_stage(example.stage, example.tables)[""]
    for role, table in example.tables.items():
        assert isinstance(table, pl.DataFrame)
        for column in table.columns:
            same = [name for name in expected.columns if (role, column) not in found.columns[name]]
            if (role, column) in found.rows or not same:
                continue
            changed = {**example.tables, role: table.with_columns(other(table[column]))}
            try:
                now = run_stage(example.stage, changed)[""]
            except PipelineError:
                continue  # these values are refused
            assert_frame_equal(now.select(same), expected.select(same), check_row_order=example.ordered)
