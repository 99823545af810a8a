"""orc: what pyarrow writes and reads, in any parts, and what is said of files and columns that do not fit."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, InputError, JobError
from pipeline.formats.orc import OrcInput, OrcOutput
from pipeline.tables.part import Part, Schema
from pipeline.testing.formats import assert_reads, assert_round_trip, read_table

FRAME = pl.DataFrame(
    {
        "id": pl.Series([1, 2, None], dtype=pl.Int16),
        "day": [date(2026, 1, 2), None, date(1969, 12, 31)],
        "name": ["a", None, "é"],
        "x": [0.5, None, -0.0],
        "list": [[1], [], None],
        "who": [{"x": 1}, None, {"x": None}],
        "at": pl.Series([datetime(2026, 1, 2, 3, 4, 5, 6), None, datetime(1700, 1, 1)], dtype=pl.Datetime("ns")),
        "zoned": pl.Series([datetime(2026, 1, 2, 3, tzinfo=UTC), None, None], dtype=pl.Datetime("ns", "UTC")),
    }
)


def reader(path: Path, **given: object) -> OrcInput:
    return OrcInput.model_validate({"path": str(path), **given})


@pytest.mark.parametrize("compression", ["uncompressed", "snappy", "lz4", "zstd", "zlib"])
def test_orc__comes_back_as_it_was_and_as_pyarrow_reads_it(compression: str, tmp_path: Path) -> None:
    writer = OrcOutput.model_validate({"compression": compression})
    assert_round_trip(writer, OrcInput, FRAME, tmp_path)
    writer.write(Part(FRAME.drop("at", "zoned")), {}, str(tmp_path / "x.orc"))
    assert orc.read_table(str(tmp_path / "x.orc")).to_pylist() == FRAME.drop("at", "zoned").to_dicts()


def test_orc_input__reads_what_pyarrow_writes(tmp_path: Path) -> None:
    table = pa.table({"k": list(range(100)), "p": [Decimal(number) / 4 for number in range(100)], "x": [float("nan")] * 100})
    orc.write_table(table, str(tmp_path / "a.orc"), stripe_size=64)
    found = pl.DataFrame({"k": range(100)}).with_columns(pl.Series("p", table["p"].to_pylist(), dtype=pl.Decimal(38, 2)))
    assert_frame_equal(read_table(reader(tmp_path / "a.orc", parts=3)).frame.drop("x"), found, check_dtypes=False)
    assert read_table(reader(tmp_path / "a.orc"))
    counting = reader(tmp_path / "a.orc").infinities()
    assert counting is not None
    assert counting() == 0


def test_orc_output__is_scanned_with_the_types_it_had(tmp_path: Path) -> None:
    frame = pl.DataFrame({"at": pl.Series([datetime(2026, 1, 2), None], dtype=pl.Datetime("us", "Europe/Berlin")), "k": [1, 2]})
    OrcOutput().write(Part(frame), {}, str(tmp_path / "x.orc"))
    assert_frame_equal(OrcOutput().scan(str(tmp_path / "x.orc"), ".orc", frame.schema).collect(), frame)


def test_orc__refuses_what_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"column 'u' is UInt64, and ORC has no type for it\. Cast it"):
        OrcOutput().check(Schema(pl.Schema({"k": pl.Int64(), "u": pl.UInt64()})), ["k", "u"])
    with pytest.raises(DataError, match="column 'at' has times beyond the years 1678 to 2261"):
        OrcOutput().write(Part(pl.DataFrame({"at": [datetime(9999, 1, 1)]})), {}, str(tmp_path / "a.orc"))
    (tmp_path / "a.orc").write_text("k\n1\n")
    with pytest.raises(InputError, match=r"a\.orc: not an ORC file \(.*\)\. Is format orc right"):
        reader(tmp_path).table_schema()
    orc.write_table(pa.table({"t": [str(number * 7919 % 10_007) for number in range(50_000)]}), str(tmp_path / "a.orc"), compression="zstd")
    whole = (tmp_path / "a.orc").read_bytes()
    (tmp_path / "a.orc").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"a\.orc: not an ORC file"):
        reader(tmp_path / "a.orc").table_schema()


def test_orc_input__takes_files_of_one_table_by_names(tmp_path: Path) -> None:
    orc.write_table(pa.table({"k": [1], "t": ["x"]}), str(tmp_path / "a.orc"))
    orc.write_table(pa.table({"k": [2]}), str(tmp_path / "b.orc"))
    assert_reads(reader(tmp_path, missing="nulls"), pl.DataFrame({"k": [1, 2], "t": ["x", None]}))
