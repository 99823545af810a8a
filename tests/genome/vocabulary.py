"""Whether a table keeps to the vocabulary of genomics."""

from __future__ import annotations

from pipeline.genome.columns import VOCABULARY
from pipeline.tables.part import Schema


def of_another_type(schema: Schema) -> list[str]:
    """Columns of a table, and of the people of its arrays, that have a name of the vocabulary and not its type."""
    columns = [(name, dtype) for frame in (schema.columns, *schema.arrays.values()) for name, dtype in frame.items()]
    return [f"{name} {dtype}" for name, dtype in columns if name in VOCABULARY and VOCABULARY[name].dtype != dtype]
