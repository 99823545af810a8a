"""Inputs as tables of a session."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from distributed.protocol import pickle

from pipeline.formats._plink.bed_files import write_plink
from pipeline.formats.csv import CsvInput
from pipeline.formats.parquet import ParquetInput
from pipeline.formats.plink import PlinkInput
from pipeline.kernels.genotypes import pack
from pipeline.running.inputs import input_table
from pipeline.tables.budget import LEAST_BYTES, Budget, Size
from pipeline.tables.part import Schema, concat_parts
from pipeline.tables.session import Session
from tests.harness import in_process

PEOPLE = 20_000


def test_input_table__does_not_send_the_people_with_every_task(tmp_path: Path) -> None:
    people = pl.DataFrame({"sample_id": [f"person-{number}" for number in range(PEOPLE)]})
    rows = pl.DataFrame({"chromosome": ["1"], "base_pair_location": [1], "variant_id": ["v"], "ref": ["A"], "alt": ["G"]})
    write_plink(tmp_path / "calls", rows, people, [pack(np.zeros((1, PEOPLE), np.uint8))])
    given = PlinkInput(path=(str(tmp_path / "calls.bed"),))
    with in_process(1) as session:
        table = input_table(session, "calls", given, Schema(rows.schema))
        labels = table.axes["calls"].value()
        assert session.value(labels).frame["sample_id"].equals(people["sample_id"])
        assert len(pickle.dumps(labels)) < PEOPLE


@pytest.mark.parametrize(
    ("pieces", "parts", "reader"), [(4, 1, ParquetInput), (15, 15, ParquetInput), (15, 15, CsvInput), (4, 4, CsvInput), (40, 40, CsvInput)]
)
def test_input_table__cuts_row_groups_that_are_too_large_for_the_memory(
    pieces: int, parts: int, reader: type[ParquetInput | CsvInput], tmp_path: Path
) -> None:
    rows = pl.DataFrame({"x": np.arange(10_000.0)})
    write = rows.write_parquet if reader is ParquetInput else rows.write_csv
    write(tmp_path / "rows")
    session = Session()
    session.budget = Budget(8 * LEAST_BYTES, 1, str(tmp_path))
    size = Size(10_000, pieces * LEAST_BYTES // 10_000)  # as if a row had more than it has
    table = input_table(session, "rows", reader(path=(str(tmp_path / "rows"),)), Schema(rows.schema), size)
    assert len(table.blocks) == parts
    assert concat_parts(table.futures()).frame.equals(rows)


@pytest.mark.parametrize("stated", [False, True])
def test_input_table__lays_a_packed_text_on_disk_where_the_memory_does_not_hold_it(stated: bool, tmp_path: Path) -> None:
    rows = pl.DataFrame({"x": np.arange(50_000.0)})
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(rows.write_csv().encode()))
    session = Session()
    session.budget = Budget(8 * LEAST_BYTES, 1, str(tmp_path), stated)
    size = Size(50_000, 15 * LEAST_BYTES // 50_000)
    table = input_table(session, "rows", CsvInput(path=(str(tmp_path / "rows.csv.gz"),)), Schema(rows.schema), size)
    assert len(table.blocks) > 8
    assert len(list(tmp_path.glob("text-*/*"))) == len(table.blocks)
    assert concat_parts(table.futures()).frame.equals(rows)
