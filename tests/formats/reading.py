"""Reading inputs as tasks read them, for the tests of formats."""

from __future__ import annotations

from pipeline.format import InputFormat
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.steps import Step, evaluate
from tests.genome.vocabulary import of_another_type


def parts_of(table: InputFormat) -> list[Part]:
    """Every part, read as a task of the input `cohort` reads it."""
    return [evaluate(Step("read", "cohort", source=source), "cpu") for source in table.sources(2)]


def read(table: InputFormat) -> Part:
    """All rows and counts, of the schema that the plan sees, and as many as it sees."""
    whole = concat_parts(parts_of(table))
    assert whole.frame.schema == table.table_schema().columns
    assert table.rows() in {None, whole.frame.height}
    if whole.arrays:
        assert not of_another_type(table.table_schema())
    return whole
