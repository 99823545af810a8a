"""Counts have words: where they are counted, and in the report."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from pipeline.stage import Context
from pipeline.tables.counts import Count, count_of
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import SEED, table_schemas
from tests.stage_examples import EXAMPLES, IDS


def test_count_of__takes_the_name_the_family_or_plain_words() -> None:
    declared = {"lost": Count("gone", always=True), "kept_all": Count("everything"), "kept_*": Count("kept, *")}
    assert count_of("lost", declared) == Count("gone", always=True)
    assert [count_of(name, declared).text for name in ("kept_all", "kept_ldl", "kept_", "odd_name")] == [
        "everything",
        "kept, ldl",
        "kept ",
        "odd name",
    ]


def counted(example: StageExample) -> set[str]:
    """Names of what a stage counts on its example."""
    session, stage = Session(), example.stage
    schemas = table_schemas(example.tables, example.axes)
    axes = {name: Table.of(session, "axis", [Part(frame)], schema=Schema(frame.schema)) for name, frame in example.axes.items()}
    parts = {role: data if isinstance(data, Part) else Part(data) for role, data in example.tables.items()}
    tables = {role: Table.of(session, role, [part], schema=schemas[role], axes=axes) for role, part in parts.items()}
    outcome = stage.run(tables, Context("tested", SEED, session))
    own = {name.split(":")[-1] for table in outcome.tables.values() for part in table.futures() for name in part.counts}
    return own | {*(outcome.counts or {})}


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_every_count_of_a_stage__has_words_beside_it(example: StageExample) -> None:
    declared = type(example.stage).counts
    assert not [name for name in counted(example) if not any(fnmatchcase(name, pattern) for pattern in declared)]
