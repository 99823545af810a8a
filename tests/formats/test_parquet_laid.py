"""Row groups of Parquet that are too large for a task."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import InputError
from pipeline.formats._parquet import laid
from pipeline.formats._parquet.ranges import footer
from pipeline.formats.parquet import ParquetInput
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.steps import Step, evaluate

ROWS = 3_000
PARTS = 40


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any row group of more than sixteen parts is too large."""
    monkeypatch.setattr(laid, "LEAST_BYTES", 0)
    monkeypatch.setattr(laid, "ROWS", 256)


def rows() -> pl.DataFrame:
    """Columns of many types, with gaps."""
    random = np.random.default_rng(1)
    number = random.integers(-(2**62), 2**62, ROWS)
    frame = pl.DataFrame(
        {
            "number": number,
            "small": pl.Series(number % 200).cast(pl.UInt8),
            "real": np.where(random.random(ROWS) < 0.1, np.nan, random.normal(0, 1, ROWS)),
            "text": [f"wörd {value % 700}" for value in number],
            "kind": pl.Series([f"kind {value % 3}" for value in number]).cast(pl.Categorical),
            "level": pl.Series([("low", "high")[value % 2] for value in number]).cast(pl.Enum(["low", "high"])),
            "day": pl.Series(number % 20_000).cast(pl.Int32).cast(pl.Date),
            "moment": pl.Series(number % 10**15).cast(pl.Datetime("us", "Europe/Berlin")),
            "fine": pl.Series(number % 10**17).cast(pl.Datetime("ns")),
            "clock": pl.Series(number % 86_400_000_000_000).cast(pl.Time),
            "span": pl.Series(number % 10**9).cast(pl.Duration("ms")),
            "money": pl.Series([Decimal(int(value % 10**9)) / 100 for value in number], dtype=pl.Decimal(12, 2)),
            "list": [[int(value % 5)] * (int(value) % 3) for value in number],
            "pair": [{"a": int(value % 9), "b": None if value % 2 else "x"} for value in number],
            "bytes": [bytes([value % 256]) for value in number],
            "flag": number % 2 == 0,
        }
    )
    return frame.with_columns(pl.when(pl.int_range(pl.len()) % 7 != 3).then(pl.all()))


def read(reader: ParquetInput, folder: Path) -> tuple[pl.DataFrame, int]:
    """All rows as the parts of the finer reader have them, and how many parts."""
    finer = reader.finer(1, PARTS, str(folder))
    parts = [evaluate(Step("read", "read", source=source), "cpu") for source in finer.sources(2)]
    return concat_parts([Part(part.frame) for part in parts]).frame, len(parts)


def test_a_large_row_group__is_laid_in_small_ones_and_has_the_same_rows(tmp_path: Path) -> None:
    path, folder = tmp_path / "one.parquet", tmp_path / "scratch"
    folder.mkdir()
    rows().write_parquet(path, row_group_size=ROWS)
    reader = ParquetInput(path=str(path))
    found, parts = read(reader, folder)
    assert_frame_equal(found, rows().with_columns(pl.col("real").fill_nan(None)))
    assert parts == PARTS
    (file,) = folder.iterdir()
    assert footer(str(file)).num_row_groups == -(-ROWS // 256)
    places = [place for source in reader.finer(1, PARTS, str(folder)).sources(2) for place in source.places()]
    assert {name for name, _, _ in places} == {str(path)}  # rows are told by the file that they came from
    assert [offset for _, offset, _ in places] == sorted(offset for _, offset, _ in places)
    assert sum(count or 0 for _, _, count in places) == ROWS


def test_row_groups_of_other_programs__are_read_as_polars_reads_them(tmp_path: Path) -> None:
    path, folder = tmp_path / "arrow.parquet", tmp_path / "scratch"
    folder.mkdir()
    table = pa.table(
        {
            "moment": pa.array([datetime(2020, 1, 1, 12, 30, 1, 250_000)] * ROWS, pa.timestamp("ns")),
            "text": pa.array([f"t{number % 5}" for number in range(ROWS)]).dictionary_encode(),
            "day": pa.array([date(1066, 10, 14)] * ROWS),
            "clock": pa.array([time(23, 59, 59)] * ROWS),
            "number": pa.array(range(ROWS), pa.int32()),
        }
    )
    pq.write_table(table, path, row_group_size=ROWS, use_deprecated_int96_timestamps=True, compression="gzip")
    found, _ = read(ParquetInput(path=str(path)), folder)
    assert_frame_equal(found, pl.read_parquet(path))
    assert any(folder.iterdir())


def test_small_row_groups_beside_a_large_one__stay_where_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    (tmp_path / "data" / "year=2020").mkdir(parents=True)
    (tmp_path / "data" / "year=2021").mkdir()
    rows().write_parquet(tmp_path / "data" / "year=2020" / "large.parquet", row_group_size=ROWS)
    rows().head(300).write_parquet(tmp_path / "data" / "year=2021" / "small.parquet", row_group_size=100)
    found, _ = read(ParquetInput(path=str(tmp_path / "data")), folder)
    assert found["year"].value_counts().sort("year")["count"].to_list() == [ROWS, 300]
    assert_frame_equal(found.drop("year").tail(300), rows().head(300).with_columns(pl.col("real").fill_nan(None)))
    assert len([*folder.iterdir()]) == 1


def test_a_damaged_row_group__is_an_error_that_names_its_file(tmp_path: Path) -> None:
    path, folder = tmp_path / "one.parquet", tmp_path / "scratch"
    folder.mkdir()
    rows().select("number", "text").write_parquet(path, row_group_size=ROWS, compression="zstd")
    content = bytearray(path.read_bytes())
    content[40:4_000] = bytes(len(content[40:4_000]))
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"one.parquet: row group 0 cannot be read"):
        ParquetInput(path=str(path)).finer(1, PARTS, str(folder)).sources(2)
