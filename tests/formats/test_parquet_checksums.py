"""Checksums of Parquet's pages: what was flipped in a file that has them is found, whatever column and kind of page it lies in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import DataError
from pipeline.formats.parquet import ParquetInput
from tests.small import inside, run_main

ROWS = 3_000
JOB = """\
job: sums
results: results
inputs:
  rows: {format: parquet, path: rows.parquet}
stages:
  - {use: filter, from: rows, as: some, where: id >= 0}
outputs:
  some: {from: some}
"""


def write(path: Path, *, version: str = "1.0", checksums: bool = True, compression: str = "snappy") -> None:
    """Rows of several types in three row groups of several pages, some of them missing."""
    random = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "id": range(ROWS),
            "x": random.normal(size=ROWS),
            "word": random.choice(["a", "b", "c"], ROWS),
            "maybe": [None if number % 7 == 0 else number % 2 == 0 for number in range(ROWS)],
            "list": [[1.5] * (number % 3) for number in range(ROWS)],
        }
    )
    options = {"row_group_size": 1_000, "data_page_size": 2_000, "write_page_checksum": checksums, "write_statistics": True}
    pq.write_table(frame.to_arrow(), path, data_page_version=version, compression=compression, **options)


def end_of(column: Any) -> int:
    """Where its pages end."""
    return int(min(filter(None, (column.dictionary_page_offset, column.data_page_offset))) + column.total_compressed_size)


def read(path: Path, **keys: bool) -> pl.DataFrame:
    (source,) = ParquetInput.model_validate({"path": str(path), **keys}).sources(1)
    loaded = source.load()
    assert isinstance(loaded, pl.LazyFrame)
    return loaded.collect()


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_checksums__of_whole_files_hold(tmp_path: Path, version: str, compression: str) -> None:
    write(tmp_path / "rows.parquet", version=version, compression=compression)
    assert read(tmp_path / "rows.parquet").height == ROWS
    assert read(tmp_path / "rows.parquet")["id"].to_list() == list(range(ROWS))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_checksums__find_a_bit_that_was_flipped_anywhere_in_the_data(tmp_path: Path, version: str) -> None:
    path = tmp_path / "rows.parquet"
    write(path, version=version)
    whole, meta, random = path.read_bytes(), pq.read_metadata(path), np.random.default_rng(5)
    last = meta.row_group(meta.num_row_groups - 1)
    end = end_of(last.column(last.num_columns - 1))
    missed = 0
    for place in random.integers(4, end, 24):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(random.integers(8))
        path.write_bytes(flipped)
        try:
            assert read(path).height == ROWS
            missed += 1  # in a header: of its statistics, say, which no value depends on
        except (DataError, pl.exceptions.PolarsError):
            continue
    assert missed <= 4


def test_checksums__that_do_not_hold_are_told_with_file_column_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    write(path, compression="none")
    data = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(1).column(1)
    data[end_of(column) - 3] ^= 4
    path.write_bytes(data)
    said = r"rows\.parquet: column 'x' of row group 1 is not as it was written: the checksum of one of its pages does not hold\. Copy"
    with pytest.raises(DataError, match=said):
        read(path)
    assert read(path, checksums=False).height == ROWS
    (tmp_path / "job.yaml").write_text(JOB)
    with inside(tmp_path):
        ended = run_main("job.yaml", "--quiet")
    assert ended.code == 1
    assert "column 'x' of row group 1 is not as it was written" in ended.err


def test_checksums__that_are_not_there_are_not_missed(tmp_path: Path) -> None:
    write(tmp_path / "rows.parquet", checksums=False)
    assert read(tmp_path / "rows.parquet").height == ROWS
    pl.DataFrame({"x": [1, 2]}).write_parquet(tmp_path / "ours.parquet")
    assert read(tmp_path / "ours.parquet").height == 2
    pq.write_table(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "none.parquet", write_page_checksum=True)
    assert read(tmp_path / "none.parquet").height == 0
