"""Whether a stage gives the same from the columns that it says it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from unittest import SkipTest

import polars as pl

from pipeline.tables.part import Part
from pipeline.tables.session import Session
from pipeline.tables.told import TellsNeeds
from pipeline.testing.examples import Between, StageExample, assert_alike
from pipeline.testing.stages import table_schemas

_FEW = 12
"""Columns of a result up to which each is tried in every way."""


def check_needs(example: StageExample) -> None:
    """Assert that each column of the example's result is the same from tables with what it needs alone, in parts and between workers.

    Of a result of more than twelve columns each is tried in one of these ways in turn. Raises SkipTest where the stage tells nothing, or
    reads arrays, of which everything is needed.
    """
    schemas = table_schemas(example.tables, example.axes)
    if not isinstance(example.stage, TellsNeeds) or any(schema.arrays for schema in schemas.values()):
        raise SkipTest(f"{example.stage.name} needs all that it is given")
    frames = {role: data.frame if isinstance(data, Part) else data for role, data in example.tables.items()}
    whole = example.run(Session())[""].frame
    ways = ((Session(), 1), (Session(), 3), (Between(), 2))
    for place, wanted in enumerate((*([name] for name in whole.columns), [])):
        needs = example.stage.needs(schemas, frozenset(wanted))
        given = {role: frame.select(name for name in frame.columns if name in needs[role]) for role, frame in frames.items()}
        given = {role: frame if frame.width else frames[role][:, :1] for role, frame in given.items()}
        every = not wanted or whole.width <= _FEW
        for session, parts in ways if every else [ways[place % len(ways)]]:
            found = replace(example, tables=given).run(session, parts)[""].frame
            _assert_same(example, found, whole, wanted)


def _assert_same(example: StageExample, found: pl.DataFrame, whole: pl.DataFrame, wanted: list[str]) -> None:
    assert found.height == whole.height, f"{found.height} rows for {wanted or 'no column'}, and {whole.height} from all columns"
    lacking = [name for name in wanted if name not in found.columns]
    assert not lacking, f"no {lacking}"
    tolerances: Mapping[str, float] = example.tolerances
    assert_alike(found.select(wanted), whole.select(wanted), tolerances, modelled=example.modelled)
