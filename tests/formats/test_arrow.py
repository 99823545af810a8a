"""arrow: what pyarrow writes and reads, in any parts, and what is said of files that are none."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import InputError
from pipeline.formats.arrow import ArrowInput, ArrowOutput
from pipeline.tables.part import Part
from pipeline.testing.formats import assert_reads, assert_round_trip, read_table, write_table

FRAME = pl.DataFrame(
    {
        "id": pl.Series([1, 2, None], dtype=pl.Int16),
        "day": [date(2026, 1, 2), None, date(2026, 1, 4)],
        "name": ["a", None, "c"],
        "price": [Decimal("1.50"), None, Decimal("-2.25")],
        "list": [[1], [], None],
        "who": [{"x": 1}, None, {"x": None}],
        "at": pl.Series([datetime(2026, 1, 2, 3), None, None]).dt.replace_time_zone("Europe/Berlin"),
        "kind": pl.Series(["u", None, "v"], dtype=pl.Categorical),
    }
)


def reader(path: Path, **given: object) -> ArrowInput:
    return ArrowInput.model_validate({"path": str(path), **given})


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_arrow__comes_back_as_it_was_and_as_pyarrow_reads_it(compression: str, tmp_path: Path) -> None:
    assert_round_trip(ArrowOutput(compression=compression), ArrowInput, FRAME, tmp_path)
    files = write_table(ArrowOutput(compression=compression), FRAME.drop("kind"), tmp_path / "more", 2)
    tables = [feather.read_table(str(file)) for file in files]
    assert pa.concat_tables(tables).to_pylist() == FRAME.drop("kind").to_dicts()
    assert_frame_equal(ArrowOutput().scan(files[0], ".arrow", {}).collect(), FRAME.drop("kind").head(1))


def test_arrow_input__reads_what_pyarrow_writes(tmp_path: Path) -> None:
    table = duckdb.sql("select i as k, i::varchar as t, i / 3 as x from range(100) r(i)").to_arrow_table()
    feather.write_feather(table, str(tmp_path / "a.feather"), chunksize=7, compression="zstd")
    with pa.OSFile(str(tmp_path / "b.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=30)
    both = pl.from_arrow(pa.concat_tables([table, table]))
    assert isinstance(both, pl.DataFrame)
    assert_reads(reader(tmp_path), both)


def test_arrow_input__has_folder_columns_and_null_for_what_a_file_lacks(tmp_path: Path) -> None:
    for year, frame in ((2020, pl.DataFrame({"k": [1], "x": [float("inf")]})), (2021, pl.DataFrame({"k": [2]}))):
        (tmp_path / f"year={year}").mkdir()
        frame.write_ipc(tmp_path / f"year={year}/a.arrow")
    expected = pl.DataFrame({"k": [1, 2], "x": [None, None], "year": [2020, 2021]}, schema_overrides={"x": pl.Float64})
    assert_reads(reader(tmp_path, missing="nulls"), expected)
    counting = reader(tmp_path, missing="nulls").infinities()
    assert counting is not None
    assert counting() == 1
    with pytest.raises(InputError, match=r"year=2021/a\.arrow: has no column 'x', which .*Say missing: nulls"):
        reader(tmp_path).table_schema()


def test_arrow_input__refuses_what_is_no_such_file_and_files_that_differ(tmp_path: Path) -> None:
    (tmp_path / "b.arrow").write_text("id\n1\n")
    with pytest.raises(InputError, match=r"b\.arrow: not an Arrow IPC file \(.*\)\. Is format arrow right, and the file whole\?"):
        reader(tmp_path / "b.arrow").table_schema()
    ArrowOutput().write(Part(FRAME), {}, str(tmp_path / "a.arrow"))
    whole = (tmp_path / "a.arrow").read_bytes()
    (tmp_path / "b.arrow").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"b\.arrow: not an Arrow IPC file"):
        reader(tmp_path).table_schema()
    FRAME.with_columns(pl.col("id").cast(pl.Int64)).write_ipc(tmp_path / "b.arrow")
    with pytest.raises(InputError, match=r"b\.arrow: column 'id' is Int64, and Int16 in .*a\.arrow\. Give files of one schema"):
        reader(tmp_path).table_schema()


def test_arrow_input__says_which_file_is_damaged_within(tmp_path: Path) -> None:
    pl.DataFrame({"t": [str(number * 7919 % 10_007) for number in range(10_000)]}).write_ipc(tmp_path / "a.arrow", compression="zstd")
    whole = bytearray((tmp_path / "a.arrow").read_bytes())
    whole[1000:4000] = bytes(3000)
    (tmp_path / "a.arrow").write_bytes(whole)
    with pytest.raises(InputError, match=r"a\.arrow: cannot be read whole \(.*\)\. It is damaged"):
        read_table(reader(tmp_path / "a.arrow"))
