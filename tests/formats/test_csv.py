"""The csv format: what is read with which types, in any parts, what is written, and what is said of files that are wrong."""

from __future__ import annotations

import csv
import gzip
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pydantic import ValidationError

from pipeline.errors import InputError, RunError
from pipeline.formats.csv import CsvInput, CsvOutput
from pipeline.tables.dtypes import DTYPES
from pipeline.tables.part import Part
from pipeline.tables.steps import Step, evaluate

TEXT = "id,age,when,ok,dose\na,41,2020-01-31,true,1.5\nb,NA,,false,nan\n,7,2021-02-28,true,NaN\n"
STATED = {"id": "string", "age": "int8", "when": "date", "ok": "boolean", "dose": "float32"}


def reader(path: Path | list[str], **given: Any) -> CsvInput:
    return CsvInput.model_validate({"path": path if isinstance(path, list) else str(path), **given})


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def parts_of(table: CsvInput) -> list[pl.DataFrame]:
    """Every part, read as a task reads it."""
    return [evaluate(Step("read", "sheet", source=source), "cpu").frame for source in table.sources(2)]


def read(table: CsvInput) -> pl.DataFrame:
    frame = pl.concat(parts_of(table))
    assert frame.schema == table.table_schema().columns
    return frame


def test_csv_input__types_are_those_stated(tmp_path: Path) -> None:
    frame = read(reader(write(tmp_path / "x.csv", TEXT), columns=STATED))
    assert frame.schema == pl.Schema({name: DTYPES[dtype] for name, dtype in STATED.items()})
    assert frame.rows() == [
        ("a", 41, date(2020, 1, 31), True, 1.5),
        ("b", None, None, False, None),
        (None, 7, date(2021, 2, 28), True, None),
    ]


def test_csv_input__the_others_are_inferred_and_integers_are_wide(tmp_path: Path) -> None:
    frame = read(reader(write(tmp_path / "x.csv", TEXT), columns={"when": "date"}))
    assert list(frame.dtypes) == [pl.String, pl.Int64, pl.Date, pl.Boolean, pl.Float64]
    assert frame["dose"].to_list() == [1.5, None, None]


def test_csv_input__a_file_that_is_written_again_is_inferred_again(tmp_path: Path) -> None:
    table = reader(write(tmp_path / "x.csv", "n\n1\n"))
    assert table.table_schema().columns == {"n": pl.Int64()}
    write(tmp_path / "x.csv", "n\n1.5\n")
    assert read(table)["n"].to_list() == [1.5]


@pytest.mark.parametrize("dtype", DTYPES)
def test_csv_input__knows_every_type_by_its_name(tmp_path: Path, dtype: str) -> None:
    value = {"boolean": "true", "date": "2020-01-31", "datetime": "2020-01-31T12:00:00"}.get(dtype, "7")
    frame = read(reader(write(tmp_path / "x.csv", f"x,y\n{value},1\n,2\n"), columns={"x": dtype}))
    assert frame.schema["x"] == DTYPES[dtype]
    assert [text is None for text in frame["x"]] == [False, True]


@pytest.mark.parametrize("parts", [1, 2, 7, 40])
@pytest.mark.parametrize("zipped", [False, True])
def test_csv_input__parts_keep_the_rows_and_their_order(tmp_path: Path, parts: int, zipped: bool) -> None:
    text = "k,t\n" + "".join(f'{i},"a, ""{i}""\nb"\n' for i in range(23))
    path = tmp_path / ("x.csv.gz" if zipped else "x.csv")
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    table = reader(path, parts=parts)
    assert len(table.sources(2)) == parts
    assert read(table).rows() == [(i, f'a, "{i}"\nb') for i in range(23)]


def test_csv_input__several_files_are_one_table_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, rows in (("b", "3,x\n"), ("a", "1,x\n2,\n"), ("c", "")):
        write(tmp_path / f"{name}.csv", "k,t\n" + rows)
    write(tmp_path / "notes.md", "not read")
    for path in (tmp_path, tmp_path / "*.csv", tmp_path / "[abc].csv"):
        for parts in (None, 1, 7):
            assert read(reader(path, parts=parts)).rows() == [(1, "x"), (2, None), (3, "x")]
    backwards = [str(tmp_path / "b.csv"), str(tmp_path / "a.csv")]
    assert read(reader(backwards))["k"].to_list() == [3, 1, 2]


def test_csv_input__other_separators_null_values_byte_order_marks_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes("\ufeffid\tb\r\n-9\té\r\n7\tNA\r\n".encode())
    frame = read(reader(path, separator="\t", null_values=["-9"]))
    assert frame.rows() == [(None, "é"), (7, "NA")]
    assert frame.columns == ["id", "b"]


def test_csv_input__a_header_alone_is_a_table_with_no_rows(tmp_path: Path) -> None:
    frame = read(reader(write(tmp_path / "x.csv", "a,b\n"), columns={"a": "int64"}))
    assert frame.schema == pl.Schema({"a": pl.Int64(), "b": pl.String()})
    assert frame.height == 0


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("", {}, r"x\.csv: the file is empty"),
        ("\n\n", {}, r"x\.csv: has no header line; a table of text begins with the names of its columns"),
        ("a;b\n1;2\n", {}, r"x\.csv: its header line 'a;b' is one column by separator ','; is it ';'\?"),
        ("a\tb\n1\t2,3\n", {}, r"x\.csv: its header line 'a\\tb' is one column by separator ','; is it '\\t'\?"),
        ("a,b\n1,2\n", {"separator": ";"}, r"x\.csv: its header line 'a,b' is one column by separator ';'; is it ','\?"),
        (
            "age,sex\n1,2\n",
            {"columns": {"agge": "int8"}},
            r"columns names 'agge', which the header line does not have\. Did you mean 'age'",
        ),
        ("a,b,a\n1,2,3\n", {}, r"x\.csv: its header line names 'a' 2 times, .* rename it in the file"),
        ("a,,c\n1,2,3\n", {}, r"x\.csv: its header line has a column with no name"),
    ],
)
def test_csv_input__refuses_before_anything_runs(tmp_path: Path, text: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        reader(write(tmp_path / "x.csv", text), **given).table_schema()


def test_csv_input__refuses_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the folder has no file that ends in \.csv or "):
        reader(tmp_path).table_schema()
    write(tmp_path / "sheet.csv", "a\n1\n")
    with pytest.raises(InputError, match=r"shet\.csv: no such file\. Did you mean 'sheet\.csv'"):
        reader(tmp_path / "shet.csv").table_schema()
    with pytest.raises(InputError, match=r"x\*\.csv: no file matches this pattern"):
        reader(tmp_path / "x*.csv").table_schema()
    with pytest.raises(InputError, match=r"a\.csv: no such file\. The folder .*deep does not exist"):
        reader(tmp_path / "deep" / "a.csv").table_schema()


def test_csv_input__refuses_a_torn_gzip_and_text_that_is_not_utf8(tmp_path: Path) -> None:
    whole = gzip.compress("".join(f"c{i},{i * 7919 % 10007}\n" for i in range(20000)).encode())
    (tmp_path / "x.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"x\.csv\.gz: cannot be read .* Is it truncated\? Copy or download it again"):
        reader(tmp_path / "x.csv.gz").table_schema()
    (tmp_path / "y.csv").write_bytes("id,name\n1,André\n".encode("latin1"))
    with pytest.raises(InputError, match=r"y\.csv: not UTF-8 text .* Save it as UTF-8"):
        reader(tmp_path / "y.csv").table_schema()


@pytest.mark.parametrize("parts", [None, 3])
@pytest.mark.parametrize(
    ("rows", "given", "message"),
    [
        (
            "1,x\n2,y\nz,w\n",
            {"columns": {"a": "int64"}},
            r"stage sheet: .*x\.csv:4: column 'a' is Int64, and 'z' is none\. Correct it, name",
        ),
        ("300,x\n", {"columns": {"a": "int8"}}, r"x\.csv:2: column 'a' is Int8, and '300' is none"),
        ("2020-01-31,x\n31.01.2020,y\n", {"columns": {"a": "date"}}, r"x\.csv:3: column 'a' is Date, and '31\.01\.2020' is none"),
        ("1,x\n" * 10_001 + "x,y\n", {}, r"x\.csv:10003: column 'a' is Int64, and 'x' is none\. .* state another type in columns"),
        ('"1","x\ny"\n2,y,3\n', {}, r"x\.csv:4: 3 fields where the header line has 2\. Put text that holds ',' in quotes"),
    ],
)
def test_csv_input__says_where_a_row_does_not_fit(
    tmp_path: Path, parts: int | None, rows: str, given: dict[str, Any], message: str
) -> None:
    table = reader(write(tmp_path / "x.csv", "a,b\n" + rows), parts=parts, **given)
    with pytest.raises(RunError, match=message):
        parts_of(table)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"columns": {"a": "integer"}}, "Input should be 'string', 'boolean'"),
        ({"separator": "||"}, "at most 1 character"),
        ({"parts": 0}, "greater than or equal to 1"),
        ({"sep": ";"}, "Extra inputs are not permitted"),
    ],
)
def test_csv_input__refuses_keys(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        reader(Path("x.csv"), **given)


def test_csv_output__is_read_back_as_it_was(tmp_path: Path) -> None:
    frame = pl.DataFrame({"t": ['a,"b"', None, "é\n"], "k": [1, None, -3], "x": [0.1 + 0.2, 1e-300, None], "ok": [True, None, False]})
    CsvOutput().write(Part(frame), {}, str(tmp_path / "x.csv"))
    assert_frame_equal(read(reader(tmp_path / "x.csv")), frame, check_exact=True)
    CsvOutput(separator="\t", null_value="NA").write(Part(frame), {}, str(tmp_path / "x.tsv"))
    assert "NA\tNA\t1e-300\tNA\n" in (tmp_path / "x.tsv").read_text()


def test_csv_output__for_spreadsheets_has_no_formula_and_keeps_columns_of_numbers(tmp_path: Path) -> None:
    harmless: list[str | None] = ["plain", "a=1", " =1", "", None, "'=1"]
    formulas: list[str | None] = [
        "=1+1",
        "+cmd|' /C calc'!A0",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "＝1",
        '=HYPERLINK("http://x","y")',
        "-",
        "-5",
        "+1",
        "+4.5e-3",
    ]
    frame = pl.DataFrame({"t": harmless + formulas, "=n": range(-9, 10), "x": [-0.5] * 19}).with_columns(
        c=pl.lit("=1").cast(pl.Categorical)
    )
    CsvOutput(for_spreadsheets=True).write(Part(frame), {}, str(tmp_path / "x.csv"))
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        names, *rows = list(csv.reader(file))
    assert names == ["t", "'=n", "x", "c"]
    assert [row[0] for row in rows] == [*(text or "" for text in harmless), *(f"'{text}" for text in formulas)]
    assert [row[1:] for row in rows] == [[str(number), "-0.5", "'=1"] for number in range(-9, 10)]
    CsvOutput().write(Part(frame), {}, str(tmp_path / "y.csv"))
    assert_frame_equal(read(reader(tmp_path / "y.csv", columns={"t": "string"})).select("t", "=n"), frame.select("t", "=n"))
