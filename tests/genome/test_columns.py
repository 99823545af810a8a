"""The vocabulary of genomics holds: what its stages give and need is of the type that it says."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.genome.columns import VOCABULARY, need_known
from pipeline.tables.part import Schema
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests.genome.vocabulary import of_another_type
from tests.stage_examples import EXAMPLES, IDS

GENOMICS = [(example, name) for example, name in zip(EXAMPLES, IDS, strict=True) if ".genomics." in type(example.stage).__module__]


@pytest.mark.parametrize("example", [example for example, _ in GENOMICS], ids=[name for _, name in GENOMICS])
def test_every_table_of_a_genomics_stage__has_the_types_of_the_vocabulary(example: StageExample) -> None:
    planned = plan_stage(example.stage, example.tables, example.axes)
    assert planned
    assert [(table, wrong) for table, schema in planned.items() for wrong in of_another_type(schema)] == []


@pytest.mark.parametrize(
    ("name", "dtype", "needed"),
    [
        ("chromosome", pl.Int64(), "text is"),
        ("variant_id", pl.Categorical(), "text is"),
        ("base_pair_location", pl.String(), "numbers are"),
        ("alt_frequency", pl.Boolean(), "numbers are"),
    ],
)
def test_need_known__refuses_a_column_of_another_kind(name: str, dtype: pl.DataType, needed: str) -> None:
    message = f"column '{name}' of the table given as 'hits' is {dtype}.*, and {needed} needed. Cast it."
    with pytest.raises(StageError, match=message):
        need_known(Schema(pl.Schema({name: dtype})), (name,), "hits")


def test_need_known__takes_any_number_and_nulls() -> None:
    need_known(Schema(pl.Schema({"base_pair_location": pl.UInt32(), "ref": pl.Null()})), ("base_pair_location", "ref"), "hits")
    with pytest.raises(StageError, match="the table given as 'hits' has no column 'alt'"):
        need_known(Schema(pl.Schema({"ref": pl.String()})), ("ref", "alt"), "hits")


def test_vocabulary__means_something() -> None:
    for name, column in VOCABULARY.items():
        assert column.meaning.endswith("."), name
