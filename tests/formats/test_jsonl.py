"""jsonl: what DuckDB reads and writes, nested fields, packed files, and what is said of lines that are wrong."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import InputError, JobError, RunError
from pipeline.formats.jsonl import JsonlInput, JsonlOutput
from pipeline.tables.part import Part, Schema
from pipeline.testing.formats import assert_reads, assert_round_trip, read_table

FRAME = pl.DataFrame(
    {
        "id": range(9),
        "name": ["a", None, 'q"', "é🧬", "", "x\ny", " ", "null", "7"],
        "x": [0.5, None, 1e-300, -0.0, 1e300, 3.0, 1 / 3, 2.0, 4.0],
        "ok": [True, None, False] * 3,
        "days": [[1, 2], [], None] * 3,
        "who": [{"id": 1, "tags": ["a"]}, None, {"id": None, "tags": []}] * 3,
    }
)


def reader(path: Path, **given: Any) -> JsonlInput:
    return JsonlInput.model_validate({"path": str(path), **given})


def test_jsonl__comes_back_as_it_was_and_as_duckdb_reads_it(tmp_path: Path) -> None:
    assert_round_trip(JsonlOutput(), JsonlInput, FRAME, tmp_path)
    known = duckdb.sql(f"from read_json('{tmp_path}/7/*.jsonl', format = 'nd') order by id").pl()
    assert known.rows() == FRAME.rows()


def test_jsonl_input__reads_what_duckdb_writes(tmp_path: Path) -> None:
    assert FRAME.height == 9
    duckdb.sql(f"copy (from FRAME) to '{tmp_path}/a.jsonl.gz' (format json, compression gzip)")
    assert_reads(reader(tmp_path), FRAME)


def test_jsonl_input__of_random_objects_is_what_duckdb_reads(tmp_path: Path) -> None:
    for seed in range(15):
        chance, path = random.Random(seed), tmp_path / f"{seed}.jsonl"
        values: dict[str, Callable[[random.Random], Any]] = {
            "k": lambda c: c.randrange(9),
            "x": lambda c: c.choice([1, 2.5]),
            "t": lambda c: c.choice(["a", ""]),
            "l": lambda c: [c.randrange(3)] * c.randrange(3),
        }
        values["s"] = lambda c: {name: c.randrange(5) for name in c.sample("abc", c.randrange(1, 4))}
        objects = [
            {"row": row} | {name: values[name](chance) for name in chance.sample(sorted(values), chance.randrange(6))} for row in range(30)
        ]
        path.write_text("\n".join(map(json.dumps, objects)) + chance.choice(["", "\n", "\n\n"]))
        found = read_table(reader(path, parts=3)).frame
        assert [json.dumps(_present(row), sort_keys=True) for row in found.to_dicts()] == [
            json.dumps(_present(row), sort_keys=True) for row in _as_read(objects, found)
        ]
        known = duckdb.sql(f"from read_json('{path}', format = 'nd', sample_size = -1) order by row")
        assert [dict(zip(known.columns, row, strict=True)) for row in known.fetchall()] == found.select(known.columns).to_dicts()


def _as_read(objects: list[dict[str, Any]], found: pl.DataFrame) -> list[dict[str, Any]]:
    """The objects, whole numbers of float columns as floats."""
    floats = [name for name, dtype in found.schema.items() if dtype == pl.Float64]
    return [{name: float(value) if name in floats else value for name, value in row.items()} for row in objects]


def _present(value: Any) -> Any:
    """A value without the fields that are missing."""
    return {key: _present(item) for key, item in value.items() if item is not None} if isinstance(value, dict) else value


def test_jsonl_input__takes_files_of_one_table_by_names(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"k":1,"s":{"a":1},"n":null}\n')
    (tmp_path / "b.ndjson").write_text('{"s":{"b":[]},"k":2.5,"t":"x"}\n')
    (tmp_path / "c.ndjson.gz").write_bytes(gzip.compress(b'{"s":{"b":["y"]}}\n'))
    found = read_table(reader(tmp_path)).frame
    assert found.schema == {
        "k": pl.Float64, "s": pl.Struct({"a": pl.Int64, "b": pl.List(pl.String)}), "n": pl.String, "t": pl.String,
    }  # fmt: skip
    assert found["k"].to_list() == [1.0, 2.5, None]
    assert found["s"].to_list() == [{"a": 1, "b": None}, {"a": None, "b": []}, {"a": None, "b": ["y"]}]
    (tmp_path / "d.jsonl").write_text('{"k":"x"}\n')
    with pytest.raises(InputError, match=r"d\.jsonl: column 'k' reads as String, and as Float64|c\.ndjson|b\.ndjson: column 'k' reads as"):
        reader(tmp_path).table_schema()


def test_jsonl_input__gives_columns_the_types_stated(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"k":1,"d":"2020-01-31","s":"2020-01-31T12:00:00"}\n{"k":null,"d":null}\n')
    given = {"columns": {"k": "int8", "d": "date", "s": "datetime"}}
    assert read_table(reader(tmp_path / "a.jsonl", **given)).frame.rows() == [
        (1, date(2020, 1, 31), datetime(2020, 1, 31, 12)),
        (None, None, None),
    ]
    (tmp_path / "a.jsonl").write_text('{"d":"2020-01-31"}\n{"d":"31.01.2020"}\n')
    with pytest.raises(RunError, match=r"a\.jsonl: column 'd' is Date, and '31\.01\.2020' in row 2 is none"):
        read_table(reader(tmp_path / "a.jsonl", columns={"d": "date"}))
    with pytest.raises(InputError, match=r"columns names 'day', which no line has"):
        reader(tmp_path / "a.jsonl", columns={"day": "date"}).table_schema()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":1}\n\n{"a":\n', r":3: not JSON \("),
        ('{"a":1}\n{"a":2},\n', r":2: not JSON \("),
        ('{"a":1}\n[1, 2]\n', r":2: a line is one object, .* and this is '\[1, 2\]'"),
        ('[{"a":1},\n{"a":2}]\n', r":1: not JSON"),
        ("a,b\n1,2\n", r":1: not JSON"),
        ('{"a":1}\n{"a":[2]}\n{"a":{"b":1}}\n', r": its lines do not make one table"),
        ("{}\n", r": its objects have no fields"),
        ('{"a":99999999999999999999}\n', r": column 'a' holds whole numbers beyond Int64"),
        ("", r": the file is empty"),
    ],
)
def test_jsonl_input__says_which_line_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(InputError, match=r"x\.jsonl" + message):
        reader(tmp_path / "x.jsonl").table_schema()


def test_jsonl_input__refuses_a_torn_gzip(tmp_path: Path) -> None:
    whole = gzip.compress("".join(f'{{"a": {i * 7919 % 10007}}}\n' for i in range(20000)).encode())
    (tmp_path / "x.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"x\.jsonl\.gz: cannot be read .* Is it truncated"):
        reader(tmp_path / "x.jsonl.gz").table_schema()


def test_jsonl_output__is_scanned_with_the_types_it_had(tmp_path: Path) -> None:
    moment = pl.Series([datetime(2021, 3, 28, 1, 30, tzinfo=UTC), None]).dt.convert_time_zone("Europe/Berlin")
    frame = pl.DataFrame({"d": [date(2020, 1, 31), None], "m": moment, "k": pl.Series([1, None], dtype=pl.UInt8)})
    frame = frame.with_columns(pl.lit("1.50").cast(pl.Decimal(6, 2)).alias("p"), f=pl.Series([0.1, None], dtype=pl.Float32))
    frame = frame.with_columns(n=pl.lit(datetime(2020, 1, 31, 12, 0, 0, 7)), l=pl.concat_list("k").cast(pl.List(pl.Int64)))
    for rows in (frame, frame.clear()):
        JsonlOutput().write(Part(rows), {}, str(tmp_path / "x.jsonl"))
        assert_frame_equal(JsonlOutput().scan(tmp_path / "x.jsonl", "", rows.schema).collect(), rows)


def test_jsonl_output__refuses_bytes() -> None:
    with pytest.raises(JobError, match=r"column 'b' is List\(Binary\), and JSON has no form for it\. Leave it out"):
        JsonlOutput().check(Schema(pl.Schema({"b": pl.List(pl.Binary())})), ["b"])
