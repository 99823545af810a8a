"""CSV files whose rows are too short or whose quotes never end, by their line; empty texts; types over several files; other packings."""

from __future__ import annotations

import bz2
import csv
import io
import random
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, InputError, JobError
from pipeline.formats import _csv_shape
from pipeline.formats.csv import CsvInput, CsvOutput
from pipeline.tables.part import Part, Schema
from pipeline.tables.steps import Step, evaluate


def reader(path: Path, **given: Any) -> CsvInput:
    return CsvInput.model_validate({"path": str(path), **given})


def parts_of(table: CsvInput) -> list[Part]:
    return [evaluate(Step("read", "sheet", source=source), "cpu") for source in table.sources(2)]


def rows_of(path: Path, **given: Any) -> list[tuple[Any, ...]]:
    return pl.concat([part.frame for part in parts_of(reader(path, **given))]).rows()


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def random_rows(seed: int) -> tuple[str, list[int]]:
    """A table of four columns with texts of all kinds in quotes, and the lines at which its short rows begin."""
    chance, text, line, short = random.Random(seed), ["a,b,c,d"], 2, list[int]()
    for _ in range(chance.randrange(1, 60)):
        fields = [chance.choice(["1", "x", "", "a,b", 'say "so"', "two\nlines", ",\n,", '""', "é"]) for _ in range(4)]
        kept = fields if chance.random() < 0.95 else fields[: chance.randrange(1, 4)]
        if len(kept) < 4:
            short.append(line)
        row = io.StringIO()
        csv.writer(row, lineterminator="\n", quoting=chance.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])).writerow(kept)
        text.append(row.getvalue().removesuffix("\n"))
        line += row.getvalue().count("\n")
    return chance.choice(["\n", "\r\n"]).join(text) + chance.choice(["", "\n"]), short


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_csv_input__finds_every_short_row_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(_csv_shape, "NEAR_BYTES", block)
    for seed in range(120):
        text, short = random_rows(seed)
        path = written(tmp_path / f"{seed}.csv", text)
        if short:
            with pytest.raises(
                DataError, match=rf"{seed}\.csv:{short[0]}: [123] fields? where the header line has 4\. .* short_rows: fill"
            ):
                parts_of(reader(path))
        for parts in (1, 3):
            filled = parts_of(reader(path, short_rows="fill", parts=parts))
            assert sum(part.counts.get("sheet:short_rows", 0) for part in filled) == len(short), text


@pytest.mark.parametrize("rows", ["1,2\n\n3,4\n", "1,2\n\n"])
def test_csv_input__a_blank_line_is_a_short_row(tmp_path: Path, rows: str) -> None:
    with pytest.raises(DataError, match=r"x\.csv:3: 0 fields where the header line has 2"):
        parts_of(reader(written(tmp_path / "x.csv", "a,b\n" + rows)))


def test_csv_input__fills_short_rows_where_asked(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "a,b\n1,2\n3\n")
    assert rows_of(path, short_rows="fill") == [(1, 2), (3, None)]
    assert rows_of(written(tmp_path / "y.csv", "a\n1\n\n3\n")) == [(1,), (None,), (3,)]  # a lone column is always there


@pytest.mark.parametrize("parts", [None, 1, 2, 7])
def test_csv_input__counts_short_rows_once_whatever_the_parts(tmp_path: Path, parts: int | None) -> None:
    path = written(tmp_path / "x.csv", "a,b\n1,2\n3\n")
    counts = [part.counts for part in parts_of(reader(path, parts=parts, short_rows="fill"))]
    assert [count for count in counts if count] == [{"sheet:short_rows": 1}]


@pytest.mark.parametrize("parts", [None, 2])
@pytest.mark.parametrize("rows", ['1,x\n2,"y\n3,z\n', '1,"x"\n2,"y\n3,"z"\n4,w\n'])
def test_csv_input__says_where_a_quote_is_never_closed(tmp_path: Path, rows: str, parts: int | None) -> None:
    with pytest.raises((DataError, InputError), match=r"x\.csv:3: a quote begins in this row and is never closed\. Close it"):
        parts_of(reader(written(tmp_path / "x.csv", "a,b\n" + rows), parts=parts, columns={"a": "int64", "b": "string"}))


def test_csv_input__an_empty_text_in_quotes_is_no_missing_value(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", 'a,b\n"",1\n,""\n')
    assert rows_of(path, columns={"b": "int64"}) == [("", 1), (None, None)]
    assert rows_of(path, columns={"b": "int64"}, null_values=["", "NA"]) == [(None, 1), (None, None)]


@pytest.mark.parametrize(("separator", "null_value"), [(",", ""), (";", ""), ("\t", "NA"), ("|", "-")])
def test_csv_output__is_read_back_as_it_was_and_by_others_too(tmp_path: Path, separator: str, null_value: str) -> None:
    texts = ["", None, "007", "a;b", 'q"', "x\ny", ",", "é", " "]
    frame = pl.DataFrame({"t": texts, "k": range(len(texts)), "n": [None, *range(len(texts) - 1)]})
    path = tmp_path / "x.csv"
    writer = CsvOutput(separator=separator, null_value=null_value)
    writer.write(Part(frame), {}, str(path))
    assert_frame_equal(writer.scan(path, ".csv", frame.schema).collect(), frame)
    nulls = [null_value] if null_value else []
    again = parts_of(reader(path, separator=separator, null_values=nulls, columns={"t": "string"}))
    assert_frame_equal(pl.concat([part.frame for part in again]), frame)
    options = f"delim='{separator}', quote='\"', nullstr='{null_value}', header=true, all_varchar=true, new_line='\\n', auto_detect=false"
    columns = "columns={'t': 'VARCHAR', 'k': 'VARCHAR', 'n': 'VARCHAR'}"
    known = duckdb.sql(f"select k, t from read_csv('{path}', {options}, {columns})").fetchall()
    told = [text or None for text in texts] if null_value == "" else texts  # DuckDB, for which "" is missing too by its nullstr
    assert [text for _, text in known] == told


def test_csv_output__refuses_what_would_read_otherwise(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"column 't' has the text 'NA', which is how a missing value is written\. Choose another null_value"
    ):
        CsvOutput(null_value="NA").write(Part(pl.DataFrame({"t": ["NA", None]})), {}, str(tmp_path / "x.csv"))
    for dtype in (pl.List(pl.Int64()), pl.Struct({"x": pl.Int64()}), pl.Binary(), pl.Duration("us")):
        with pytest.raises(JobError, match=r"column 't' is .*, and CSV has no text for it\. Leave it out with columns, or write Parquet"):
            CsvOutput().check(Schema(pl.Schema({"t": dtype})), ["t"])


@pytest.mark.parametrize(
    ("first", "second", "columns", "result"),
    [
        ("1", "1.5", {}, [1.0, 1.5]),
        ("1.5", "1", {}, [1.5, 1.0]),
        ("", "1", {}, [None, 1]),
        ("2020-01-31", "", {}, None),
        ("1", "x", {"a": "string"}, ["1", "x"]),
    ],
)
def test_csv_input__a_type_is_that_of_all_files(
    tmp_path: Path, first: str, second: str, columns: dict[str, str], result: list[Any] | None
) -> None:
    written(tmp_path / "1.csv", f"a,b\n{first},1\n")
    written(tmp_path / "2.csv", f"a,b\n{second},1\n")
    found = [row[0] for row in rows_of(tmp_path, columns=columns)]
    assert found == result or result is None


def test_csv_input__refuses_files_whose_types_differ(tmp_path: Path) -> None:
    written(tmp_path / "1.csv", "a\n1\n")
    written(tmp_path / "2.csv", "a\nx\n")
    with pytest.raises(InputError, match=r"2\.csv: column 'a' reads as String, and as Int64 in .*1\.csv\. State its type in columns"):
        reader(tmp_path).table_schema()


def test_csv_input__says_which_type_holds_a_large_number(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "a\n18446744073709551615\n")
    with pytest.raises(InputError, match=r"column 'a' holds whole numbers beyond Int64\. State uint64"):
        reader(path).table_schema()
    assert rows_of(path, columns={"a": "uint64"}) == [(2**64 - 1,)]
    late = written(tmp_path / "y.csv", "a\n" + "1\n" * 10_001 + "18446744073709551615\n")
    with pytest.raises(Exception, match=r"y\.csv:10003: column 'a' is Int64, .*beyond that type: state uint64 or string in columns"):
        parts_of(reader(late))


def test_csv_input__reads_zstd_and_refuses_other_packings(tmp_path: Path) -> None:
    text = b"a,b\n" + b'1,"x,\ny"\n' * 50_000
    (tmp_path / "x.csv.zst").write_bytes(pa.compress(text, codec="zstd", asbytes=True))
    assert rows_of(tmp_path / "x.csv.zst") == [(1, "x,\ny")] * 50_000
    (tmp_path / "y.csv.zst").write_bytes(pa.compress(text + b"1\n", codec="zstd", asbytes=True))
    with pytest.raises(DataError, match=r"y\.csv\.zst:100002: 1 field where"):
        parts_of(reader(tmp_path / "y.csv.zst"))
    (tmp_path / "x.csv.bz2").write_bytes(bz2.compress(text))
    with pytest.raises(InputError, match=r"x\.csv\.bz2: is packed with bzip2, and .* Unpack it"):
        reader(tmp_path / "x.csv.bz2").table_schema()
