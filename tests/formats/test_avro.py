"""avro: what fastavro writes and reads, in any parts, and what is said of files and columns that do not fit."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import fastavro
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import InputError, JobError, PlaceError
from pipeline.formats.avro import AvroInput, AvroOutput
from pipeline.tables.part import Part, Schema
from pipeline.testing.formats import assert_reads, assert_round_trip, read_table

FRAME = pl.DataFrame(
    {
        "id": [1, 2, None],
        "small": pl.Series([1, None, -(2**31)], dtype=pl.Int32),
        "f": pl.Series([0.5, None, -0.0], dtype=pl.Float32),
        "p": pl.Series([Decimal("1.50"), None, Decimal("-2.25")], dtype=pl.Decimal(12, 2)),
        "zoned": pl.Series([datetime(2026, 1, 2, 3, tzinfo=UTC), None, None], dtype=pl.Datetime("us", "UTC")),
        "day": [date(2026, 1, 2), None, date(1969, 12, 31)],
        "name": ["a", None, "é"],
        "x": [0.5, None, -0.0],
        "ok": [True, None, False],
        "list": [[1], [], None],
        "who": [{"x": 1}, None, {"x": None}],
        "at": [datetime(2026, 1, 2, 3, 4, 5, 6), None, datetime(9999, 1, 1)],
        "raw": [b"a", None, b""],
    }
)


def reader(path: Path, **given: object) -> AvroInput:
    return AvroInput.model_validate({"path": str(path), **given})


@pytest.mark.parametrize("compression", ["uncompressed", "deflate"])
def test_avro__comes_back_as_it_was_and_as_fastavro_reads_it(compression: str, tmp_path: Path) -> None:
    writer = AvroOutput.model_validate({"compression": compression})
    assert_round_trip(writer, AvroInput, FRAME, tmp_path)
    writer.write(Part(FRAME), {}, str(tmp_path / "x.avro"))
    with (tmp_path / "x.avro").open("rb") as file:
        assert list(fastavro.reader(file)) == FRAME.to_dicts()


def test_avro_output__is_scanned_with_the_types_it_had(tmp_path: Path) -> None:
    frame = pl.DataFrame({"at": pl.Series([datetime(2026, 1, 2), None], dtype=pl.Datetime("us", "Europe/Berlin")), "k": [1, 2]})
    frame = frame.with_columns(pl.col("k").cast(pl.UInt8).alias("u"))
    AvroOutput().write(Part(frame), {}, str(tmp_path / "x.avro"))
    for source in (str(tmp_path / "x.avro"), (tmp_path / "x.avro").read_bytes()):
        assert_frame_equal(AvroOutput().scan(source, ".avro", frame.schema).collect(), frame)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (["int", "string"], r"a column of several types, \['int', 'string'\], is none of a table"),
        ({"type": "map", "values": "int"}, "type 'map' is none of a table"),
        ({"type": "string", "logicalType": "uuid"}, "logical type 'uuid' is none that is read"),
    ],
)
def test_avro_input__refuses_types_that_no_column_has(tmp_path: Path, kind: object, message: str) -> None:
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": [{"name": "k", "type": kind}]})
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, schema, [])
    with pytest.raises(InputError, match=r"a\.avro: not an Avro file of a table \(" + message):
        reader(tmp_path).table_schema()


def test_avro_input__reads_what_fastavro_writes(tmp_path: Path) -> None:
    fields = [{"name": "k", "type": "long"}, {"name": "t", "type": ["null", "string"]}, {"name": "x", "type": "float"}]
    fields += [{"name": "d", "type": {"type": "int", "logicalType": "date"}}, {"name": "l", "type": {"type": "array", "items": "int"}}]
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    rows = [{"k": k, "t": None if k % 3 else str(k), "x": k / 4, "d": date(2020, 1, 1), "l": [k] * (k % 3)} for k in range(500)]
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, schema, rows, codec="deflate", sync_interval=100)
    assert read_table(reader(tmp_path / "a.avro", parts=3)).frame.to_dicts() == rows
    frame = pl.DataFrame(rows, schema={"k": pl.Int64, "t": pl.String, "x": pl.Float32, "d": pl.Date, "l": pl.List(pl.Int32)})
    assert_reads(reader(tmp_path), frame)


def test_avro__refuses_what_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema(pl.Schema({"k": pl.Int64(), "u": pl.UInt64(), "a b": pl.Int8()}))
    with pytest.raises(JobError, match=r"column 'u' cannot be written: Avro has no type for UInt64\. Rename or cast it"):
        AvroOutput().check(schema, ["k", "u"])
    with pytest.raises(JobError, match=r"column 'a b' cannot be written: 'a b' is no name that Avro takes"):
        AvroOutput().check(schema, ["a b"])
    (tmp_path / "a.avro").write_text("k\n1\n")
    with pytest.raises(InputError, match=r"a\.avro: not an Avro file of a table \(.*\)\. Is format avro right"):
        reader(tmp_path).table_schema()
    AvroOutput().write(Part(pl.DataFrame({"k": range(100_000)})), {}, str(tmp_path / "a.avro"))
    whole = (tmp_path / "a.avro").read_bytes()
    (tmp_path / "a.avro").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"a\.avro: cannot be read whole \(a block .*\)\. It is damaged"):
        read_table(reader(tmp_path / "a.avro"))
    monkeypatch.setattr("pipeline.formats.avro.find_spec", lambda _: None)
    with pytest.raises(PlaceError, match=r"fastavro, .* is not installed\. Install it with: pip install '\.\[avro\]'"):
        reader(tmp_path).table_schema()
